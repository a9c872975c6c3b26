"""Messages of errors of fields, without the field, in the words of Kubernetes.

Source: k8s.io/apimachinery pkg/util/validation/field/errors.go:Error.ErrorBody.
"""

import json
from collections.abc import Iterable

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube import go_json

_BAD_VALUE = "Invalid value"


def required(detail: str = "") -> str:
    """Return the message for a missing value."""
    return _with("Required value", detail)


def forbidden(detail: str) -> str:
    """Return the message for a field that must not be set, or must not change this way."""
    return _with("Forbidden", detail)


def duplicate(value: object) -> str:
    """Return the message for a value that is there twice."""
    return f"Duplicate value: {shown(value)}"


def invalid(value: object, detail: str, most: int | None = None) -> str:
    """Return the message for a value that is malformed or breaks a rule."""
    return _with(f"{_BAD_VALUE}: {shown(value, most)}", detail)


def invalid_hidden(detail: str) -> str:
    """Return the message for an invalid value that is not shown: long, or perhaps secret."""
    return _with(_BAD_VALUE, detail)


def unsupported(value: object, supported: Iterable[str], most: int | None = None) -> str:
    """Return the message for a value that is none of the supported ones."""
    known = ", ".join(map(quote, supported))
    return f"Unsupported value: {shown(value, most)}: supported values: {known}"


def shown(value: object, most: int | None = None) -> str:
    """Return a value as messages show it: strings by Go's `%q`, others as JSON.

    Lone surrogates and integers of more than 64 bits are shown too: they may be the problem.

    Args:
        value: A JSON value.
        most: How many characters are shown; None for all.
    """
    if isinstance(value, str):
        text = quote(value)
    else:
        try:
            text = go_json.dumps(value).decode()
        except TypeError:
            text = json.dumps(value, separators=(",", ":"))
    return text if most is None or len(text) <= most else f"{text[:most]}..."


def _with(message: str, detail: str) -> str:
    return f"{message}: {detail}" if detail else message
