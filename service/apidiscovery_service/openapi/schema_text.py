"""Reads kinds and their JSON Schemas from an OpenAPI document, inline or in a worker process."""

from typing import cast

import orjson
from apidiscovery_formats.openapi.json_schema import Kind, NoSuchKind, json_schema, kinds
from apidiscovery_formats.openapi.keys import group_version_of

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube import go_json


class UnusableDocument(DiscoveryError):
    """A document cannot be made into schemas; the text says why."""


def own_kinds(text: bytes, key: str) -> tuple[Kind, ...]:
    """Return the kinds of the group-version that a document is about, sorted.

    Those of others, such as the Scale of `apps/v1`, are in their own documents.

    Raises:
        UnusableDocument: It is not a JSON object.
    """
    return tuple(k for k in kinds(read(text)) if (k.group, k.version) == group_version_of(key))


def schema_text(text: bytes, kind: Kind, *, strict: bool) -> bytes:
    """Return the JSON Schema (draft 7) of a kind in a document, as compact JSON.

    Args:
        text: The document.
        kind: One of its kinds.
        strict: Whether properties that are not listed are refused.

    Raises:
        UnusableDocument: It is not a JSON object, has no such kind, or is nested too deeply.
    """
    try:
        return go_json.dumps(json_schema(read(text), kind, strict=strict))
    except NoSuchKind as error:  # it is another document than the one whose kinds are known
        raise UnusableDocument(str(error)) from None
    except (RecursionError, TypeError):  # orjson's own limit is a TypeError
        raise UnusableDocument(f"the document of {kind.api_version} is nested too deeply") from None


def read(text: bytes) -> dict[str, object]:
    """Return a document.

    Raises:
        UnusableDocument: It is not a JSON object.
    """
    try:
        document: object = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise UnusableDocument(f"the document is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise UnusableDocument("the document is not a JSON object")
    return cast("dict[str, object]", document)
