"""Formats that the service and the clients both read and write, as Kubernetes and Go do."""
