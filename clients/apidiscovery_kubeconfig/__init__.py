"""Reads kubeconfig files, and gets the credentials that they name."""
