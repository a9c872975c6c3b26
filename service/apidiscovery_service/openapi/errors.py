"""What is wrong with a document, and where in it."""

from typing import TypeAlias

from apidiscovery_service.errors import DiscoveryError

# Names of fields and places in arrays, from the outermost in.
Path: TypeAlias = tuple[str | int, ...]


class InvalidOpenAPI(DiscoveryError):
    """A document is not what it must be.

    Attributes:
        path: Where in the document.
        message: What was seen there and what was wanted.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{json_path(path)}: {message}")
        self.path = path
        self.message = message


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
