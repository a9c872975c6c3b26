"""Reads JSON of unknown shape: a value of another type counts as absent."""

from typing import cast

from apidiscovery_formats.go_json import JSONValue


def as_object(value: object) -> dict[str, JSONValue]:
    """Return a JSON object; an empty one in place of anything else."""
    return cast("dict[str, JSONValue]", value) if isinstance(value, dict) else {}


def as_list(value: object) -> list[JSONValue]:
    """Return a JSON array; an empty one in place of anything else."""
    return cast("list[JSONValue]", value) if isinstance(value, list) else []
