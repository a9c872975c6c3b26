"""Manifest files: their text, what it declares, and folders that are watched."""
