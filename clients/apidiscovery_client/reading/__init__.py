"""Reads the documents of discovery into the model: JSON and protobuf, aggregated and not.

What cannot be read is an error, and never an empty discovery.
"""

from apidiscovery_client.reading.documents import read_half, read_resources
from apidiscovery_client.reading.half import Half, UnreadableError
from apidiscovery_client.reading.retaining import retained
from apidiscovery_client.reading.status import status_message

__all__ = [
    "Half",
    "UnreadableError",
    "read_half",
    "read_resources",
    "retained",
    "status_message",
]
