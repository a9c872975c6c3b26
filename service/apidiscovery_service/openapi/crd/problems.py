"""Problems of a schema in the words of Kubernetes' API validation, and bounds of a schema."""

from collections.abc import Iterable
from typing import TypeAlias

from apidiscovery_service.kube import field_messages
from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

# Nested objects and arrays. Each level of a schema takes two or three, and the deepest of real
# definitions has 34. It bounds recursion, here and in clients that read the document.
MAX_DEPTH = 150
# Values in a schema with its defaults and enumerations. Kubernetes accepts objects of 1.5 MiB
# (etcd), which hold 150,000; the largest real schema has 24,000.
MAX_VALUES = 200_000
# Problems of one kind; each has a path, and a million long paths are a gigabyte.
MAX_PROBLEMS = 1000


def check_limits(value: object, path: Path) -> None:
    """Check the depth and the number of values, before anything recurses into a value.

    Raises:
        InvalidOpenAPI: It is too deep or too large; the path is that of the whole value.
    """
    count = 1
    for depth, (_, members) in enumerate(json_text.levels(value)):
        if depth > MAX_DEPTH:
            raise InvalidOpenAPI(path, f"is nested more than {MAX_DEPTH} levels deep")
        count += len(members)
        if count > MAX_VALUES:
            raise InvalidOpenAPI(path, f"has more than {MAX_VALUES} values")


# The place in the document, and what is wrong there.
Problem: TypeAlias = tuple[Path, str]

# Characters of a value that a message repeats.
_SHOWN = 200
# Fields whose members are named by the author; Kubernetes writes these names in brackets.
_KEYED = frozenset({"properties", "patternProperties", "definitions", "dependencies"})


def invalid(value: object, detail: str) -> str:
    """Return the message for an invalid value."""
    return field_messages.invalid(value, detail, _SHOWN)


def unsupported(value: object, supported: Iterable[str]) -> str:
    """Return the message for a value that is none of the supported ones."""
    return field_messages.unsupported(value, supported, _SHOWN)


def field_path(path: Path) -> str:
    """Return a path as in Kubernetes' error messages; lone surrogates are escaped.

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
