"""Snapshots outside of a client."""
