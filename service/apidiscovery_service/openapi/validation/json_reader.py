"""Reading the JSON of a stranger: strictly, with bounds, and with the place of what is wrong."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import cast

from apidiscovery_formats.openapi.pointers import Place, path_of
from apidiscovery_formats.strict_json import Marks, Object, walk

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may have.

    Attributes:
        bytes: Of the document. That of prometheus-operator's CRDs has 1.7 MB, the core group's 1.2.
        depth: Objects and lists in each other: Kubernetes' own documents have 9, cert-manager's 36.
        nodes: Values in it. Argo's document, which has the most for its size, has 47 for each KiB.
        errors: Enough to mend a document by; more would only be read by a machine.
    """

    bytes: int = 10 * 1024 * 1024
    depth: int = 100
    nodes: int = 1_000_000
    errors: int = 100


class InvalidDocuments(DiscoveryError):
    """A document is no sound OpenAPI document.

    Attributes:
        errors: What is wrong, in the order of the document; at least one, and no more than the
            limits say.
    """

    def __init__(self, errors: Iterable[InvalidOpenAPI]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(map(str, self.errors)))


def read(document: bytes, limits: Limits) -> JSONValue:
    """Return the value of JSON text, which can be written again.

    Raises:
        InvalidDocuments: It is no JSON, ambiguous, or exceeds the limits.
    """
    if len(document) > limits.bytes:
        raise _wrong(f"want at most {limits.bytes} bytes, got {len(document)}")
    # Of values each but the outermost stands after a comma or a bracket; these stand in text as
    # well, but real documents have far less of them.
    if sum(map(document.count, (b",", b"[", b"{"))) > 2 * limits.nodes:
        raise _wrong(f"want at most {limits.nodes} values")
    marks = Marks()
    value = _parsed(document, marks, limits)
    _check_bounds(value, limits)
    errors = list(islice(marks.problems(document, value), limits.errors))
    if errors:
        raise InvalidDocuments(InvalidOpenAPI(*error) for error in errors)
    return value


def _parsed(document: bytes, marks: Marks, limits: Limits) -> JSONValue:
    decoder = json.JSONDecoder(
        object_pairs_hook=marks.members,
        parse_constant=marks.constant,
        parse_int=marks.integer,
        parse_float=marks.fraction,
    )
    try:
        return cast("JSONValue", decoder.decode(document.decode()))
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


def _check_bounds(value: JSONValue, limits: Limits) -> None:
    """Count values level by level."""
    level = [value]
    nodes = 1
    for _ in range(limits.depth):
        inner = [child for node in level for child in _children(node)]
        nodes += len(inner)
        if nodes > limits.nodes:
            raise _wrong(f"want at most {limits.nodes} values")
        level = [child for child in inner if isinstance(child, dict | list)]
        if not level:
            return
    raise _wrong(f"want at most {limits.depth} nested values", _place_of(level[0], value))


def _place_of(node: JSONValue, value: JSONValue) -> Place:
    return next(place for one, place in walk(value) if one is node)


def _children(node: object) -> Iterable[JSONValue]:
    """Return what an object or a list consists of; nothing of anything else."""
    if isinstance(node, dict):
        return cast("Object", node).values()
    return cast("list[JSONValue]", node) if isinstance(node, list) else ()
