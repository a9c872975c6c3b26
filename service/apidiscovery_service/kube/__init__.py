"""Formats of Kubernetes as Go writes them: JSON, the protobuf envelope, objects."""
