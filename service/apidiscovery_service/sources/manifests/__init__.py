"""Manifest files: their text, their declarations, and folders that are watched."""
