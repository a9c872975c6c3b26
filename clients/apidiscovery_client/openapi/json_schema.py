"""JSON Schemas of the kinds in a document; `apidiscovery_formats` makes them, for servers too."""

from apidiscovery_formats.openapi import json_schema as shared
from apidiscovery_formats.openapi.json_schema import Kind, file_names, kinds

from apidiscovery_client.openapi.json_documents import Fields, NotExplained, Object

__all__ = ["Kind", "file_names", "json_schema", "kinds"]


def json_schema(document: Fields, kind: Kind, *, strict: bool = False) -> Object:
    """Return the schema of a kind, with all that it refers to in `definitions`.

    Args:
        document: Of the kind's group-version.
        kind: One of `kinds`.
        strict: Refuse properties that are not listed, but where the API keeps them.

    Raises:
        NotExplained: The document has no such kind.
    """
    try:
        return shared.json_schema(document, kind, strict=strict)
    except shared.NoSuchKind as error:
        raise NotExplained(str(error)) from None
