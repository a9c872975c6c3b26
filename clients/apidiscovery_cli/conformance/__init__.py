"""Checks whether an API server does discovery as clients and kube-aggregator need it."""
