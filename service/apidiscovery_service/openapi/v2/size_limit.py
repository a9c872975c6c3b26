"""How much larger than its source a conversion may become.

Each version of OpenAPI says once what the other one repeats: media types of a whole document, a
body or a header that several operations share. In memory what is repeated is one value, in JSON
text it is not: a megabyte that is repeated for each of ten thousand operations is ten gigabytes.
"""

from typing import Final

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI

# The whole of Kubernetes repeats 3 MiB.
MAX_REPEATED_BYTES: Final = 64 * 1024 * 1024


def json_text(value: JSONValue) -> bytes:
    """Return a value as canonical JSON.

    Raises:
        InvalidOpenAPI: A string holds half a character, or an integer has more than 64 bits.
    """
    try:
        return go_json.dumps(value)
    except TypeError as error:
        raise InvalidOpenAPI((), f"cannot be written as JSON: {error}") from None


class SizeLimit:
    """Counts the bytes of JSON that are written again."""

    def __init__(self, allowed_bytes: int = MAX_REPEATED_BYTES) -> None:
        self._allowed = allowed_bytes
        self._left = allowed_bytes
        # By identity: the value is kept, so that no other one takes its place in memory.
        self._sizes: dict[int, tuple[JSONValue, int]] = {}

    def size(self, value: JSONValue) -> int:
        """Return how long a value is as JSON, in bytes.

        Raises:
            InvalidOpenAPI: It cannot be written as JSON.
        """
        known = self._sizes.get(id(value))
        if known is None:
            known = self._sizes[id(value)] = (value, len(json_text(value)))
        return known[1]

    def charge(self, size: int) -> None:
        """Count bytes.

        Raises:
            InvalidOpenAPI: There are too many by now.
        """
        self._left -= size
        if self._left < 0:
            message = f"repeats so much that it would grow by more than {self._allowed} bytes"
            raise InvalidOpenAPI((), message)
