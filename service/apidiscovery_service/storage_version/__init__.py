"""Storage versions: the hash that discovery publishes of one, and whether servers agree on it."""

from apidiscovery_service.storage_version.agreement import (
    ALL_ENCODING_VERSIONS_EQUAL,
    Condition,
    Entry,
    Status,
    reported,
    without,
)
from apidiscovery_service.storage_version.hashes import storage_version_hash

__all__ = [
    "ALL_ENCODING_VERSIONS_EQUAL",
    "Condition",
    "Entry",
    "Status",
    "reported",
    "storage_version_hash",
    "without",
]
