"""Validation of OpenAPI 3.0 documents from outside.

A valid document has a bounded size and depth, every field has its type, and every reference leads
to a component of the same document. Regular expressions are not compiled. A MB takes about 0.1 s.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import orjson
from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.openapi.pointers import Place, path_of
from apidiscovery_formats.openapi.validation import problems
from apidiscovery_formats.strict_json import Marks, walk

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.json_text import levels


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Bounds of a document.

    Attributes:
        bytes: Its size. That of prometheus-operator's CRDs has 1.7 MB, the core group's 1.2.
        depth: Nested objects and lists. Kubernetes' own documents have 9, cert-manager's 36.
        nodes: Values in it. Argo's document, which has the most for its size, has 47 a KiB.
        errors: Errors that are reported.
    """

    bytes: int = 10 * 1024 * 1024
    depth: int = 100
    nodes: int = 1_000_000
    errors: int = 100


class InvalidDocuments(DiscoveryError):
    """A document is not valid.

    Attributes:
        errors: At least one, in the order of the document; at most as many as the limits say.
    """

    def __init__(self, errors: Iterable[InvalidOpenAPI]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


def _read(document: bytes, limits: DocumentLimits) -> JSONValue:
    """Return the value of JSON text, which can be written again.

    Raises:
        InvalidDocuments: It is not JSON, ambiguous, or exceeds the limits.
    """
    if len(document) > limits.bytes:
        raise _wrong(f"want at most {limits.bytes} bytes, got {len(document)}")
    # Each value but the outermost follows a comma or a bracket. Texts have them too, but in real
    # documents far fewer.
    if sum(map(document.count, (b",", b"[", b"{"))) > 2 * limits.nodes:
        raise _wrong(f"want at most {limits.nodes} values")
    marks = Marks()
    value = _parsed(document, marks, limits)
    _check_bounds(value, limits)
    errors = list(islice(marks.problems(document, value), limits.errors))
    if errors:
        raise InvalidDocuments(InvalidOpenAPI(*error) for error in errors)
    return value


def _parsed(document: bytes, marks: Marks, limits: DocumentLimits) -> JSONValue:
    try:
        return marks.loads(document.decode())
    except UnicodeDecodeError as error:
        seen = f"byte {document[error.start]:#04x}"
        raise _wrong(f"{_position(document, error.start)}: want UTF-8, got {seen}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise _wrong(f"{where}: no JSON: {error.msg}") from None
    except RecursionError:
        raise _wrong(f"want at most {limits.depth} nested values") from None


def _position(document: bytes, offset: int) -> str:
    before = document[:offset]
    column = len(before.rpartition(b"\n")[2].decode(errors="replace")) + 1
    line = before.count(b"\n") + 1
    return f"line {line} column {column}"


def _wrong(message: str, place: Place = None) -> InvalidDocuments:
    return InvalidDocuments([InvalidOpenAPI(path_of(place), message)])


def _check_bounds(value: JSONValue, limits: DocumentLimits) -> None:
    nodes = 1
    for depth, (level, members) in enumerate(levels(value)):
        if depth >= limits.depth:
            raise _wrong(f"want at most {limits.depth} nested values", _place_of(level[0], value))
        nodes += len(members)
        if nodes > limits.nodes:
            raise _wrong(f"want at most {limits.nodes} values")


def _place_of(node: JSONValue, value: JSONValue) -> Place:
    return next(place for one, place in walk(value) if one is node)


__all__ = ["DEFAULT_LIMITS", "DocumentLimits", "InvalidDocuments", "concerning", "validate"]

DEFAULT_LIMITS = DocumentLimits()


def validate(document: bytes, *, limits: DocumentLimits = DEFAULT_LIMITS) -> bytes:
    """Return a document as compact JSON as Go writes it, its keys in the order as given.

    Raises:
        InvalidDocuments: It is not valid.
    """
    value = _read(document, limits)
    found = problems(value, most=limits.errors, published=True)
    if found:
        raise InvalidDocuments(InvalidOpenAPI(*problem) for problem in found)
    return go_json.dumps(value)


def concerning(document: bytes, group: str, version: str) -> None:
    """Check that a valid document describes paths of one group-version alone.

    Args:
        document: As `validate` returned it.
        group: Empty for the core group.
        version: The version.

    Raises:
        InvalidDocuments: It describes others.
    """
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    value = as_object(orjson.loads(document))
    errors = [
        InvalidOpenAPI(("paths", path), f"want a path below {root}/")
        for path in as_object(value.get("paths"))
        if not path.startswith((f"{root}/", "x-")) and path != root
    ]
    if errors:
        raise InvalidDocuments(errors[: DEFAULT_LIMITS.errors])
