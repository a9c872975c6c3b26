"""Reading the JSON of a stranger: strictly, with bounds, and with the place of what is wrong."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, cast

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

Object: TypeAlias = dict[str, JSONValue]

# A place in a document: the place around it, and the last step. Made for every container that is
# looked at, so it is the cheapest thing that a path can be made of.
Place: TypeAlias = "tuple[Place, str | int] | None"

_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_MAX_DIGITS = 20

# Beyond it not every integer is a double.
_MAX_EXACT = 2**53

# Characters of a name in a path.
_MAX_STEP = 200

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a document may have.

    Attributes:
        bytes: Of the document. That of prometheus-operator's CRDs has 1.7 MB, the core group's 1.2.
        depth: Objects and lists in each other: Kubernetes' own documents have 9, cert-manager's 36.
        nodes: Values in it. Argo's document, which has the most for its size, has 47 for each KiB.
        pattern: Characters of a regular expression: prometheus-operator has one of 221.
        errors: Enough to mend a document by; more would only be read by a machine.
    """

    bytes: int = 10 * 1024 * 1024
    depth: int = 100
    nodes: int = 1_000_000
    pattern: int = 10_000
    errors: int = 100


class _Repeated(dict[str, JSONValue]):
    """An object that has a name more than once."""

    def __init__(self, pairs: list[tuple[str, JSONValue]]) -> None:
        super().__init__(pairs)
        counts = Counter(name for name, _ in pairs)
        self.names = [name for name, count in counts.items() if count > 1]


@dataclass(frozen=True, slots=True)
class _NoNumber:
    """What stands where a number should."""

    text: str


class _Marks:
    """Puts marks into a document where something cannot be kept, which has no place yet."""

    def __init__(self) -> None:
        self.any = False

    def object(self, pairs: list[tuple[str, JSONValue]]) -> Object:
        made = dict(pairs)
        if len(made) < len(pairs):
            self.any = True
            return _Repeated(pairs)
        return made

    def constant(self, text: str) -> _NoNumber:
        self.any = True
        return _NoNumber(text)

    def integer(self, text: str) -> int | _NoNumber:
        if len(text) <= _MAX_DIGITS and _MIN_INTEGER <= (value := int(text)) <= _MAX_INTEGER:
            return value
        return self.constant(text)

    def fraction(self, text: str) -> float | _NoNumber:
        value = float(text)
        if math.isinf(value):
            return self.constant(text)
        # Go writes 1.0 and 1 alike.
        return int(value) if value.is_integer() and abs(value) <= _MAX_EXACT else value


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
    marks = _Marks()
    value = _parsed(document, marks, limits)
    _check_bounds(value, limits)
    if marks.any or _SURROGATE.search(document):
        errors = tuple(islice(_marked(value), limits.errors))
        if errors:
            raise InvalidDocuments(errors)
    return value


def _parsed(document: bytes, marks: _Marks, limits: Limits) -> JSONValue:
    decoder = json.JSONDecoder(
        object_pairs_hook=marks.object,
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
        inner = [child for node in level for child in children(node)]
        nodes += len(inner)
        if nodes > limits.nodes:
            raise _wrong(f"want at most {limits.nodes} values")
        level = [child for child in inner if isinstance(child, dict | list)]
        if not level:
            return
    raise _wrong(f"want at most {limits.depth} nested values", _place_of(level[0], value))


def _place_of(node: JSONValue, value: JSONValue) -> Place:
    return next(place for one, place in _walk(value) if one is node)


def children(node: object) -> Iterable[JSONValue]:
    """Return what an object or a list consists of; nothing of anything else."""
    if isinstance(node, dict):
        return cast("Object", node).values()
    return cast("list[JSONValue]", node) if isinstance(node, list) else ()


def path_of(place: Place) -> Path:
    """Return a place as a path; what is very long in it is cut, for it is for people."""
    steps: list[str | int] = []
    while place is not None:
        place, step = place
        too_long = isinstance(step, str) and len(step) > _MAX_STEP
        steps.append(f"{str(step)[:_MAX_STEP]}..." if too_long else step)
    return tuple(reversed(steps))


def _walk(value: JSONValue) -> Iterator[tuple[JSONValue, Place]]:
    """Yield every value in the order of the document, with its place."""
    stack: list[tuple[JSONValue, Place]] = [(value, None)]
    while stack:
        node, place = stack.pop()
        yield node, place
        steps: Iterable[tuple[str | int, JSONValue]] = ()
        if isinstance(node, dict):
            steps = cast("dict[str | int, JSONValue]", node).items()
        elif isinstance(node, list):
            steps = enumerate(node)
        stack += reversed([(child, (place, step)) for step, child in steps])


def _marked(value: JSONValue) -> Iterator[InvalidOpenAPI]:
    """Yield what cannot be kept; a name that is no text would be no step of a path."""
    for node, place in _walk(value):
        if isinstance(node, _Repeated):
            for name in node.names:
                message = f"{name!a} stands more than once"
                yield InvalidOpenAPI(_sendable(path_of(place)), message)
        elif isinstance(node, _NoNumber):
            message = f"want a number of 64 bits, got {node.text[:40]}"
            yield InvalidOpenAPI(_sendable(path_of(place)), message)
        texts = cast("Iterable[str]", (node,) if isinstance(node, str) else node)
        for text in texts if isinstance(node, str | dict) else ():
            if _is_broken(text):
                message = f"want Unicode, got half of a surrogate pair in {text[:40]!a}"
                yield InvalidOpenAPI(_sendable(path_of(place)), message)


def _is_broken(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _sendable(path: Path) -> Path:
    return tuple(
        ascii(step)[1:-1] if isinstance(step, str) and _is_broken(step) else step for step in path
    )
