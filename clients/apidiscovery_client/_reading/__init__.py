"""Reads the documents of discovery into the model: JSON and protobuf, aggregated and not.

What cannot be read is an error, and never an empty discovery.
"""

from apidiscovery_client._reading.documents import read_document, read_resources
from apidiscovery_client._reading.parsed import (
    ParsedDocument,
    UnreadableError,
    retained,
    status_message,
)

__all__ = [
    "ParsedDocument",
    "UnreadableError",
    "read_document",
    "read_resources",
    "retained",
    "status_message",
]
