"""Where a value stands in a document that is read, and what it must be there."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apidiscovery_formats.openapi.places import Place, path_of

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.json_text import levels

Object: TypeAlias = dict[str, JSONValue]

# Schemas of 95 levels; the deepest of Kubernetes have 15. What is converted is at most six levels
# deeper, and no JSON text of more than 254 levels can be written.
MAX_DEPTH: Final = 200

_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number",
    type(None): "null",
}


def paths_of(source: Object, at: Place, convert: Callable[[JSONValue, Place], JSONValue]) -> Object:
    """Return `paths` with each of them converted, sorted; extensions as they are.

    Raises:
        InvalidOpenAPI: One is neither.
    """
    result: Object = {}
    for path in sorted(source):
        if path.startswith("/"):
            result[path] = convert(source[path], (at, path))
        elif path.startswith("x-"):
            result[path] = source[path]
        else:
            raise invalid((at, path), "a path must begin with a slash")
    return result


def invalid(at: Place, message: str) -> InvalidOpenAPI:
    """Return the error that says what is wrong at a place."""
    return InvalidOpenAPI(path_of(at), message)


def _expected(wanted: str, value: JSONValue, at: Place) -> InvalidOpenAPI:
    return invalid(at, f"must be {wanted}, but is {_KINDS.get(type(value), 'something else')}")


def as_object(value: JSONValue, at: Place) -> Object:
    """Return a value that must be an object."""
    if isinstance(value, dict):
        return value
    raise _expected("an object", value, at)


def as_list(value: JSONValue, at: Place) -> list[JSONValue]:
    """Return a value that must be a list."""
    if isinstance(value, list):
        return value
    raise _expected("a list", value, at)


def as_text(value: JSONValue, at: Place) -> str:
    """Return a value that must be a string."""
    if isinstance(value, str):
        return value
    raise _expected("a string", value, at)


def as_flag(value: JSONValue, at: Place) -> bool:
    """Return a value that must be a boolean."""
    if isinstance(value, bool):
        return value
    raise _expected("a boolean", value, at)


def as_number(value: JSONValue, at: Place) -> JSONValue:
    """Return a value that must be a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _expected("a number", value, at)


def as_size(value: JSONValue, at: Place) -> JSONValue:
    """Return a value that must be a whole number of things, in any way that JSON writes it."""
    if isinstance(as_number(value, at), int) or (isinstance(value, float) and value.is_integer()):
        return value
    raise _expected("an integer", value, at)


def as_texts(value: JSONValue, at: Place) -> list[JSONValue]:
    """Return a value that must be a list of strings."""
    texts = as_list(value, at)
    for index, text in enumerate(texts):
        as_text(text, (at, index))
    return texts


def as_is(value: JSONValue, _at: Place) -> JSONValue:
    """Return a value that may be anything."""
    return value


def extensions(source: Mapping[str, JSONValue]) -> Object:
    """Return the fields that begin with `x-`, in the order of their names."""
    return {name: source[name] for name in sorted(n for n in source if n.startswith("x-"))}


def check_depth(document: JSONValue) -> None:
    """See that a document can be walked by functions that call themselves.

    Raises:
        InvalidOpenAPI: It nests deeper than `MAX_DEPTH` levels.
    """
    for depth, _ in enumerate(levels(document)):
        if depth > MAX_DEPTH:
            raise InvalidOpenAPI((), f"nests deeper than {MAX_DEPTH} levels")


def described(source: Object, at: Place) -> Object:
    """Return what an operation says in the same words in v2 and in v3."""
    result: Object = {}
    for name in ("summary", "description", "operationId"):
        if name in source:
            result[name] = as_text(source[name], (at, name))
    if "tags" in source:
        result["tags"] = as_texts(source["tags"], (at, "tags"))
    if "deprecated" in source:
        result["deprecated"] = as_flag(source["deprecated"], (at, "deprecated"))
    if "externalDocs" in source:
        result["externalDocs"] = as_object(source["externalDocs"], (at, "externalDocs"))
    return result


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
