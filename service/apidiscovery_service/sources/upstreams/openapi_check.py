"""Whether an OpenAPI document of a stranger can be passed on as it is.

It is not judged by the letter of the specification: what clients manage to read they shall have.
It must be readable, within bounds, and whole: a reference leads to what is in it.
"""

import contextlib
import json
import re
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, cast
from urllib.parse import unquote

from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.stepwise_json import (
    MAX_NAMES,
    NotJSON,
    Reader,
    Widths,
    as_utf8,
    dismantle,
)
from apidiscovery_service.sources.upstreams.bounded_json import Body
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown

# Of a whole document. That of core/v1 nests 19 deep; whoever reads one recursively must not fail.
MAX_DEPTH = 200
MAX_NODES = 5_000_000
# Different ones; no more than there may be to refer to.
MAX_REFS = 100_000

# Of one path or schema, as it is written. A definition takes 1.5 MiB at most, for so much etcd
# takes.
MAX_VALUE_BYTES = 2 * 1024 * 1024
_WIDTHS = Widths(value_bytes=MAX_VALUE_BYTES)
# So long the event loop gets the interpreter now and then. It has to be a real sleep: after an
# empty one this thread would be first again.
_BREATH_S = 0.0001

_VERSION = re.compile(r"3\.\d{1,4}(\.\d{1,4})?([-+].{1,40})?")
_SHOWN_OF_REF = 100


class _Keys(Enum):
    """What the keys of an object are."""

    KEYWORDS = 0
    NAMES = 1
    # Of no meaning here; what looks like a reference is none.
    DATA = 2


_BELOW = {
    **dict.fromkeys(("properties", "patternProperties", "mapping"), _Keys.NAMES),
    **dict.fromkeys(("default", "enum", "example", "examples", "const"), _Keys.DATA),
}

_Place: TypeAlias = tuple[str, ...]
_Layer: TypeAlias = list[tuple[object, _Keys]]


@dataclass(slots=True)
class Bounds:
    """Counts what a document has, and refuses what has too much.

    Attributes:
        nodes: How many values there are.
        refs: What is referred to.
    """

    nodes: int = 0
    refs: set[str] = field(default_factory=set[str])

    def look(self, value: object, depth: int) -> None:
        """Look at everything in a value.

        Args:
            value: As JSON has it.
            depth: How deep it stands in the document.

        Raises:
            UpstreamFailed: There is too much of it, or it nests too deeply.
        """
        layer: _Layer = [(value, _Keys.KEYWORDS)]
        while layer:
            self.nodes += len(layer)
            if self.nodes > MAX_NODES:
                raise UpstreamFailed(Reason.TOO_LARGE, f"more than {MAX_NODES} values")
            if depth > MAX_DEPTH:
                raise UpstreamFailed(Reason.TOO_LARGE, f"values nest more than {MAX_DEPTH} deep")
            layer = [below for above in layer for below in self._below(*above)]
            if len(self.refs) > MAX_REFS:
                raise UpstreamFailed(Reason.TOO_LARGE, f"more than {MAX_REFS} references")
            depth += 1

    def _below(self, value: object, keys: _Keys) -> Iterator[tuple[object, _Keys]]:
        if isinstance(value, list):
            for element in cast("list[object]", value):
                yield element, keys
        elif isinstance(value, dict):
            for key, element in cast("dict[str, object]", value).items():
                if keys is not _Keys.KEYWORDS:
                    yield element, keys if keys is _Keys.DATA else _Keys.KEYWORDS
                    continue
                if key == "$ref" and isinstance(element, str):
                    self.refs.add(element)
                is_extension = key.startswith("x-")
                yield element, _Keys.DATA if is_extension else _BELOW.get(key, _Keys.KEYWORDS)


@dataclass(slots=True)
class _Document:
    """What has been read of a document.

    Attributes:
        places: Where a reference may lead to: a section, and the name of something in it.
        stand_ins: Components that are nothing but a reference, and where that leads.
    """

    bounds: Bounds = field(default_factory=Bounds)
    version: object = None
    places: set[_Place] = field(default_factory=set[_Place])
    stand_ins: dict[_Place, _Place] = field(default_factory=dict[_Place, _Place])

    def read(self, reader: Reader) -> None:
        for name in reader.fields():
            if name == "components":
                self._components(reader)
            elif name == "paths":
                self._named(reader, (name,))
            else:
                value = reader.value()
                self.bounds.look(value, 1)
                if name == "openapi":
                    self.version = value
                else:
                    dismantle(value)
        reader.end()

    def _components(self, reader: Reader) -> None:
        for section in reader.fields():
            if section.startswith("x-"):
                value = reader.value()
                self.bounds.look(value, 2)
                dismantle(value)
            else:
                self._named(reader, ("components", section))

    def _named(self, reader: Reader, place: tuple[str, ...]) -> None:
        for name in reader.fields():
            self.places.add((*place, name))
            if len(self.places) > MAX_NAMES:
                raise UpstreamFailed(
                    Reason.TOO_LARGE, f"more than {MAX_NAMES} paths and components"
                )
            value = reader.value()
            self.bounds.look(value, len(place) + 1)
            ref = cast("dict[str, object]", value).get("$ref") if isinstance(value, dict) else None
            if isinstance(ref, str):
                self.stand_ins[*place, name] = _place_of(ref)
            dismantle(value)

    def leads_nowhere(self, ref: str) -> bool:
        """Tell whether there is nothing in the document where a reference begins to lead."""
        place = _place_of(ref)
        return place not in self.places and place[:2] not in self.places

    def closed(self) -> _Place:
        """Return a component that stands for itself, through others or not; empty for none."""
        ends: set[_Place] = set()
        for start in self.stand_ins:
            trail: dict[_Place, None] = {}
            place = start
            while place in self.stand_ins and place not in ends:
                if place in trail:
                    return place
                trail[place] = None
                place = self.stand_ins[place]
            ends.update(trail)
        return ()


def _place_of(ref: str) -> _Place:
    if not ref.startswith("#/"):
        return ()
    steps = ref[2:].split("/", 3)[:3]
    return tuple(unquote(step).replace("~1", "/").replace("~0", "~") for step in steps)


@contextlib.contextmanager
def reading(body: Body, within_s: float) -> Generator[Reader]:
    """Return what reads a document, with errors as those of upstreams.

    Args:
        body: JSON; what is not UTF-8 is replaced.
        within_s: How long reading may take.
    """
    reader = Reader(as_utf8(body), _DECODER, dict, _WIDTHS)
    reader.pause = _breathing(time.monotonic() + within_s)
    try:
        yield reader
    except NotJSON as error:
        raise UpstreamFailed(Reason.MALFORMED, f"want JSON: {error}") from None
    except InvalidOpenAPI as error:
        raise UpstreamFailed(Reason.TOO_LARGE, str(error)) from None
    except RecursionError:
        raise UpstreamFailed(Reason.MALFORMED, "a value nests too deeply") from None


def _refuse_constant(name: str) -> object:
    raise UpstreamFailed(Reason.MALFORMED, f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _breathing(deadline: float) -> Callable[[], None]:
    def breathe() -> None:
        if time.monotonic() > deadline:
            raise UpstreamFailed(Reason.TOO_LARGE, "reading the answer takes too long")
        time.sleep(_BREATH_S)

    return breathe


def check(body: Body, within_s: float) -> None:
    """Check that a document can be passed on.

    Args:
        body: JSON.
        within_s: How long reading may take.

    Raises:
        UpstreamFailed: It is no OpenAPI 3 document, exceeds a bound, or refers to what it has not.
    """
    document = _Document()
    with reading(body, within_s) as reader:
        document.read(reader)
    if not isinstance(document.version, str) or not _VERSION.fullmatch(document.version):
        seen = shown(repr(document.version), _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"openapi: got {seen}, want 3.0.0 or another 3.x")
    dangling = sorted(filter(document.leads_nowhere, document.bounds.refs))
    if dangling:
        first = shown(repr(dangling[0]), _SHOWN_OF_REF)
        text = f"{len(dangling)} references lead to nothing in the document, such as {first}"
        raise UpstreamFailed(Reason.MALFORMED, text)
    if closed := document.closed():
        name = shown(closed[-1], _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"{name} stands for nothing but itself")
