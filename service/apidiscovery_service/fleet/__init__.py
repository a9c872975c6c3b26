"""Clusters side by side: each whole, in views that merge them, and in a matrix."""
