"""What is wrong with a schema, in the words of Kubernetes' API validation.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go.
"""

import json
from collections.abc import Iterable
from typing import TypeAlias

from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.errors import Path

# Where in the document, and what is wrong there.
Problem: TypeAlias = tuple[Path, str]

# How much of a value is repeated in a message.
_SHOWN_BYTES = 200
# Fields whose members are named by the author; Kubernetes writes these names in brackets.
_KEYED = frozenset({"properties", "patternProperties", "definitions", "dependencies"})


def required(detail: str) -> str:
    """Return the message that something is missing."""
    return f"Required value: {detail}"


def forbidden(detail: str) -> str:
    """Return the message that something may not be there."""
    return f"Forbidden: {detail}"


def invalid(value: object, detail: str) -> str:
    """Return the message that a value is not as it must be."""
    return f"Invalid value: {shown(value)}: {detail}"


def unsupported(value: object, supported: Iterable[str]) -> str:
    """Return the message that a value is none of those there are."""
    values = ", ".join(f'"{one}"' for one in supported)
    return f"Unsupported value: {shown(value)}: supported values: {values}"


def shown(value: object) -> str:
    """Return a value as JSON, cut off where it is long.

    What JSON text cannot hold, half of a surrogate pair or an integer of more than 64 bits, is
    shown nevertheless: that may be what is wrong.
    """
    try:
        text = json_text.dumps(value)
    except TypeError:
        text = json.dumps(value, separators=(",", ":")).encode()
    if len(text) <= _SHOWN_BYTES:
        return text.decode()
    return text[:_SHOWN_BYTES].decode(errors="ignore") + "..."


def field_path(path: Path) -> str:
    """Return a path as Kubernetes' error messages write it; half of a surrogate pair is escaped.

    >>> field_path(("openAPIV3Schema", "properties", "spec", "anyOf", 0, "type"))
    'openAPIV3Schema.properties[spec].anyOf[0].type'
    """
    text = ""
    in_keyed = False
    for step in path:
        is_key = in_keyed or isinstance(step, int)
        text += f"[{step}]" if is_key else f".{step}"
        in_keyed = not is_key and step in _KEYED
    return text.removeprefix(".").encode(errors="backslashreplace").decode()
