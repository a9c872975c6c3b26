"""Keeps on disk what servers serve, so that the next program need not ask for all of it."""

from apidiscovery_client.cache.disk import DiskCache, default_folder
from apidiscovery_client.cache.keys import key, key_of

__all__ = ["DiskCache", "default_folder", "key", "key_of"]
