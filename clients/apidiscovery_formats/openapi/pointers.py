"""Positions in a document: JSON pointers in references, JSONPath in messages."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias, cast
from urllib.parse import unquote

SCHEMAS = "#/components/schemas/"  # what references to schemas begin with


def resolve(reference: object, document: Mapping[str, object]) -> dict[str, object] | None:
    """Return the object that a reference into its own document names; None when there is none.

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
    """Return the name in a token of a reference."""
    return unquote(token).replace("~1", "/").replace("~0", "~")


def _as_object(value: object) -> dict[str, object] | None:
    return cast("dict[str, object]", value) if isinstance(value, dict) else None


def escaped(name: str) -> str:
    """Return a name as a token of a reference, with no percent escapes but for `%` itself."""
    return name.replace("~", "~0").replace("/", "~1").replace("%", "%25")


# Names of fields and indexes in arrays, from the outermost in.
Path: TypeAlias = tuple[str | int, ...]

# A position in a document: that of the container, and the last step. A tuple, as one is made for
# every container that is visited.
Place: TypeAlias = "tuple[Place, str | int] | None"

# Characters of a name in a path.
_MAX_STEP = 200


class Problem(NamedTuple):
    """An error in a document.

    Attributes:
        path: The position.
        message: What was seen and what was wanted.
    """

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{json_path(self.path)}: {self.message}"


def path_of(place: Place) -> Path:
    """Return a position as a path, in which very long names are truncated."""
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        too_long = isinstance(step, str) and len(step) > _MAX_STEP
        steps.append(f"{str(step)[:_MAX_STEP]}..." if too_long else step)
    return tuple(reversed(steps))


def json_path(path: Path) -> str:
    """Return a path as JSONPath writes it (RFC 9535).

    >>> json_path(("paths", "/apis/", "get", "parameters", 0))
    "$.paths['/apis/'].get.parameters[0]"
    """
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.isidentifier():
            text += f".{step}"
        else:
            quoted = step.replace("\\", "\\\\").replace("'", "\\'")
            text += f"['{quoted}']"
    return text
