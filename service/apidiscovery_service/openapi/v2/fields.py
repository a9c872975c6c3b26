"""Reading the fields of a document: their types, their places, and bounds of depth and size."""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apidiscovery_formats.openapi.pointers import Place, path_of

from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.json_text import levels

Object: TypeAlias = dict[str, JSONValue]

# Checks or converts the value at a place.
Convert: TypeAlias = Callable[[JSONValue, Place], JSONValue]

FORM_TYPES: Final = ("application/x-www-form-urlencoded", "multipart/form-data")

# Allows schemas of 95 levels; the deepest of Kubernetes have 15. A converted document is up to six
# levels deeper, and orjson writes 254 at most.
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


def paths_of(source: Object, at: Place, convert: Convert) -> Object:
    """Return `paths` with each path converted, sorted; extensions stay as they are.

    Raises:
        InvalidOpenAPI: A key is neither a path nor an extension.
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
    """Return the error of an invalid value at a place."""
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
    """Return a value that must be a whole number, also when it is written as `1.0`."""
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
    """Check that a document is shallow enough for functions that recurse.

    Raises:
        InvalidOpenAPI: It nests deeper than `MAX_DEPTH` levels.
    """
    for depth, _ in enumerate(levels(document)):
        if depth > MAX_DEPTH:
            raise InvalidOpenAPI((), f"nests deeper than {MAX_DEPTH} levels")


def present(source: Object, at: Place, fields: Mapping[str, Convert]) -> Object:
    """Return those of some fields that an object has, each checked or converted."""
    return {
        name: convert(source[name], (at, name))
        for name, convert in fields.items()
        if name in source
    }


DESCRIPTION: Final[Mapping[str, Convert]] = {"description": as_text}

# Fields of an operation that are the same in v2 and v3.
OPERATION: Final[Mapping[str, Convert]] = {
    **dict.fromkeys(("summary", "description", "operationId"), as_text),
    "tags": as_texts,
    "deprecated": as_flag,
    "externalDocs": as_object,
}


def parameter_fields(source: Object, at: Place) -> Object:
    """Return the fields of a parameter that are the same in v2 and v3.

    Raises:
        InvalidOpenAPI: It has no name, or its place is neither `query` nor `header` nor `path`.
    """
    place = as_text(source.get("in"), (at, "in"))
    if place not in ("query", "header", "path"):
        raise invalid((at, "in"), f"{place!r} is not a place of parameters")
    flags = ("required", "allowEmptyValue") if place == "query" else ("required",)
    result: Object = {"name": as_text(source.get("name"), (at, "name")), "in": place}
    return result | present(source, at, {**DESCRIPTION, **dict.fromkeys(flags, as_flag)})


def is_form(media_type: str) -> bool:
    """Return whether a body of a media type has the fields of a form."""
    return media_type.partition(";")[0] in FORM_TYPES


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
    """Bounds how much larger than its source a conversion may become.

    Each version of OpenAPI says once what the other one repeats: media types of a whole document, a
    body or a header that several operations share. In memory a repeated value is one value, in JSON
    text it is not: a megabyte that is repeated for each of ten thousand operations is ten
    gigabytes.
    """

    def __init__(self) -> None:
        self._left = MAX_REPEATED_BYTES
        # By identity: the value is kept, so that no other one takes its place in memory.
        self._sizes: dict[int, tuple[JSONValue, int]] = {}

    def size(self, value: JSONValue) -> int:
        """Return the bytes of a value as JSON.

        Raises:
            InvalidOpenAPI: It cannot be written as JSON.
        """
        known = self._sizes.get(id(value))
        if known is None:
            known = self._sizes[id(value)] = (value, len(json_text(value)))
        return known[1]

    def charge(self, size: int) -> None:
        """Count repeated bytes.

        Raises:
            InvalidOpenAPI: There are too many.
        """
        self._left -= size
        if self._left < 0:
            message = f"repeats so much that it would grow by more than {MAX_REPEATED_BYTES} bytes"
            raise InvalidOpenAPI((), message)
