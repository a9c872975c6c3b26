"""Where something is in a document, and what is wrong there."""

from typing import NamedTuple, TypeAlias

# Names of fields and places in arrays, from the outermost in.
Path: TypeAlias = tuple[str | int, ...]

# A place in a document: the place around it, and the last step. Made for every container that is
# looked at, so it is the cheapest thing that a path can be made of.
Place: TypeAlias = "tuple[Place, str | int] | None"

# Characters of a name in a path.
_MAX_STEP = 200


class Problem(NamedTuple):
    """What is wrong with a document.

    Attributes:
        path: Where in it.
        message: What was seen there and what was wanted.
    """

    path: Path
    message: str

    def __str__(self) -> str:
        return f"{json_path(self.path)}: {self.message}"


def path_of(place: Place) -> Path:
    """Return a place as a path; what is very long in it is cut, for it is for people."""
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
