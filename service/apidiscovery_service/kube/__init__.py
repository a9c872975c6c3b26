"""Formats of Kubernetes: objects and their fields, as Go writes them."""
