"""What is wrong with a schema, in the words of Kubernetes' API validation.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go.
"""

import json
from collections.abc import Iterable
from typing import TypeAlias

from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

# Containers within containers in a schema. Each level of a schema takes two or three, and the
# deepest of real definitions has 34. It keeps recursion, here and in whoever reads the document,
# far from its end.
MAX_DEPTH = 150
# Values in a schema, counting those in defaults and enumerations. Kubernetes accepts objects of
# 1.5 MiB (etcd), which hold 150,000; the largest real schema has 24,000.
MAX_VALUES = 200_000
# What is noted of one kind; each has a path, and a million long paths are a gigabyte.
MAX_PROBLEMS = 1000


def check_limits(value: object, path: Path) -> None:
    """See that a value of a stranger's is neither too deep nor too large to be walked through.

    Raises:
        InvalidOpenAPI: It is; the path is that of the whole value.
    """
    count = 1
    for depth, (_, members) in enumerate(json_text.levels(value)):
        if depth > MAX_DEPTH:
            raise InvalidOpenAPI(path, f"is nested more than {MAX_DEPTH} levels deep")
        count += len(members)
        if count > MAX_VALUES:
            raise InvalidOpenAPI(path, f"has more than {MAX_VALUES} values")


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
        text = go_json.dumps(value)
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
