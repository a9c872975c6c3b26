"""Caches snapshots on disk, so that the next process sends conditional requests."""

from apidiscovery_client.cache.disk import DiskCache, default_folder
from apidiscovery_client.cache.keys import key, key_of

__all__ = ["DiskCache", "default_folder", "key", "key_of"]
