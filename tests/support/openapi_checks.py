"""Checks that every OpenAPI v3 document passes."""

from typing import Any, cast

import orjson
from json_walks import references
from openapi_spec_validator import OpenAPIV30SpecValidator

_SCHEMAS = "#/components/schemas/"


def dangling(document: dict[str, Any]) -> set[str]:
    """Return the references that lead nowhere within a document."""
    there = {
        _SCHEMAS + name.replace("~", "~0").replace("/", "~1")
        for name in document["components"].get("schemas", {})
    }
    return set(references(document)) - there


def without_empty_defaults(value: object) -> object:
    """Return a document without the defaults `{}` and of empty text.

    Kubernetes publishes them also where the schema wants fields, or one of some texts.
    """
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {
            name: without_empty_defaults(member)
            for name, member in members.items()
            if not (name == "default" and member in ({}, ""))
        }
    if isinstance(value, list):
        return [without_empty_defaults(item) for item in cast("list[object]", value)]
    return value


def errors(document: object) -> list[str]:
    """Return what is wrong with a document."""
    validator = OpenAPIV30SpecValidator(cast("Any", document))
    return [error.message for error in validator.iter_errors()]


def read_sound(text: bytes) -> dict[str, Any]:
    """Return a document that is valid, has no dangling reference and is compact."""
    document = cast("dict[str, Any]", orjson.loads(text))
    assert errors(document) == []
    assert dangling(document) == set()
    assert not text.endswith(b"\n")
    return document
