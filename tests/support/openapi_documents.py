"""OpenAPI documents for tests, and checks of such documents."""

import gzip
from typing import Any, TypeAlias, cast

import orjson
from json_walks import members, references
from openapi_spec_validator import OpenAPIV2SpecValidator, OpenAPIV30SpecValidator
from repository import GOLDEN

# A JSON value.
Json: TypeAlias = Any

PAIRS = ("batch.v1", "apiextensions.k8s.io.v1")

_GOLDEN = GOLDEN / "openapi-v2-to-v3"


def golden_text(name: str) -> bytes:
    return gzip.decompress((_GOLDEN / f"{name}.json.gz").read_bytes()).rstrip()


def golden(name: str) -> Json:
    return orjson.loads(golden_text(name))


def v2(**fields: Json) -> dict[str, Any]:
    """Return a v2 document with the required fields."""
    return {"swagger": "2.0", "info": {"title": "T", "version": "v1"}, "paths": {}, **fields}


def v3(**fields: Json) -> dict[str, Any]:
    """Return a v3 document with the required fields."""
    return {"openapi": "3.0.0", "info": {"title": "T", "version": "v1"}, "paths": {}, **fields}


def operation(**fields: Json) -> dict[str, Any]:
    return {"responses": {"200": {"description": "OK"}}, **fields}


def dangling(document: Json) -> list[str]:
    """Return the references of a document without a target in it."""
    return [text for text in references(document) if not leads(document, text)]


def leads(value: Json, reference: str) -> bool:
    if not reference.startswith("#/"):
        return False
    for token in reference[2:].split("/"):
        name = token.replace("~1", "/").replace("~0", "~")
        fields = dict(members(value))
        if name not in fields:
            return False
        value = fields[name]
    return True


def places(value: Json, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the paths of all parts of a value."""
    found = [path] if path else []
    for step, inner in members(value):
        found += places(inner, (*path, step))
    return found


def replaced(value: Json, path: tuple[str | int, ...], other: Json) -> Json:
    """Return a copy of a value with another part at a path."""
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


def is_valid(document: Json) -> bool:
    """Validate a document completely: its defaults fit its schemas, too."""
    kind = OpenAPIV2SpecValidator if "swagger" in document else OpenAPIV30SpecValidator
    kind(document).validate()
    return True


def is_well_formed(document: Json) -> bool:
    """Validate a document with the JSON schema of its version of OpenAPI.

    Kubernetes' own documents pass this check alone: some defaults do not fit their schemas.
    """
    kind = OpenAPIV2SpecValidator if "swagger" in document else OpenAPIV30SpecValidator
    errors = list(kind(document).schema_validator.iter_errors(document))
    assert not errors, errors[0]
    return True


def without_empty_defaults(value: object) -> object:
    """Return a document without defaults that are `{}` or an empty text.

    Kubernetes publishes them also where the schema requires fields or has an enum.
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
    """Return the validation errors of a document."""
    validator = OpenAPIV30SpecValidator(cast("Any", document))
    return [error.message for error in validator.iter_errors()]
