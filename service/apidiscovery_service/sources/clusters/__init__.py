"""Clusters that come and go at run time: files of watched folders, and contexts of a kubeconfig."""
