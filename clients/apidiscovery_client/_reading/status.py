"""Reads what a server says of an error."""

from apidiscovery_client._fields import as_fields, read_json, text


def status_message(body: bytes) -> str:
    """Return the message of a `Status` document; empty when the body is none."""
    try:
        status = as_fields(read_json(body))
        return text(status, "message") if text(status, "kind") == "Status" else ""
    except (ValueError, RecursionError):
        return ""
