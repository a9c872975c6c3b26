"""References into a document: JSON pointers in a URI fragment."""

from collections.abc import Mapping
from typing import cast
from urllib.parse import unquote


def resolve(reference: object, document: Mapping[str, object]) -> dict[str, object] | None:
    """Return the object that a reference into its own document means; None when there is none.

    References to other documents are not followed. `~0` and `~1` stand for `~` and `/` (RFC 6901
    section 3), percent escapes are those of a URI fragment (section 6).
    """
    if not (isinstance(reference, str) and reference.startswith("#/")):
        return None
    found: object = document
    for token in reference[2:].split("/"):
        fields = _as_object(found)
        name = unescaped(token)
        if fields is None or name not in fields:
            return None
        found = fields[name]
    return _as_object(found)


def unescaped(token: str) -> str:
    """Return the name that a token of a reference stands for."""
    return unquote(token).replace("~1", "/").replace("~0", "~")


def _as_object(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def escaped(name: str) -> str:
    """Return a name as a token of a reference, with no percent escapes but for `%` itself."""
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")
