"""Clients for Kubernetes-style API discovery, and the command line."""
