"""The error of an invalid document."""

from apidiscovery_formats.openapi.pointers import Path, json_path

from apidiscovery_service.errors import DiscoveryError

__all__ = ["InvalidOpenAPI", "Path"]


class InvalidOpenAPI(DiscoveryError):
    """A document is not valid, or cannot be converted.

    Attributes:
        path: The place in the document.
        message: What was seen there and what was wanted.
    """

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{json_path(path)}: {message}")
        self.path = path
        self.message = message
