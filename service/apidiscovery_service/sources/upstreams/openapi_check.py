"""Whether an OpenAPI document of a stranger can be passed on as it is.

It is not judged by the letter of the specification: what clients manage to read they shall have.
It must be readable, within bounds, and whole: a reference leads to what is in it.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, cast
from urllib.parse import unquote

from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown

# Of a whole document. That of core/v1 nests 19 deep; whoever reads one recursively must not fail.
MAX_DEPTH = 200
MAX_NODES = 5_000_000
# Different ones; no more than there may be to refer to.
MAX_REFS = 100_000

# Paths, and components of a kind.
MAX_NAMES = 100_000

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

    def look(self, document: object) -> None:
        """Look at everything in a document.

        Raises:
            UpstreamFailed: There is too much of it, or it nests too deeply.
        """
        depth = 0
        layer: _Layer = [(document, _Keys.KEYWORDS)]
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
    """What references of a document may lead to.

    Attributes:
        places: Where a reference may lead to: a section, and the name of something in it.
        stand_ins: Components that are nothing but a reference, and where that leads.
    """

    places: set[_Place] = field(default_factory=set[_Place])
    stand_ins: dict[_Place, _Place] = field(default_factory=dict[_Place, _Place])

    def take(self, document: Mapping[str, object]) -> None:
        """Take what is in a document."""
        self._named(document.get("paths"), ("paths",))
        components = _object(document.get("components"), "components")
        for section, named in components.items():
            if not section.startswith("x-"):
                self._named(named, ("components", section))

    def _named(self, value: object, place: _Place) -> None:
        for name, one in _object(value, ".".join(place)).items():
            self.places.add((*place, name))
            if len(self.places) > MAX_NAMES:
                raise UpstreamFailed(
                    Reason.TOO_LARGE, f"more than {MAX_NAMES} paths and components"
                )
            ref = cast("dict[str, object]", one).get("$ref") if isinstance(one, dict) else None
            if isinstance(ref, str):
                self.stand_ins[*place, name] = _place_of(ref)

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


def _object(value: object, where: str) -> Mapping[str, object]:
    """Return an object; an empty one where there is none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        seen = type(value).__name__
        raise UpstreamFailed(Reason.MALFORMED, f"{where}: want an object, got {seen}")
    return cast("dict[str, object]", value)


def check(body: Body) -> None:
    """Check that a document can be passed on.

    Raises:
        UpstreamFailed: It is no OpenAPI 3 document, exceeds a bound, or refers to what it has not.
    """
    value = _object(parsed(body), "the document")
    bounds, document = Bounds(), _Document()
    bounds.look(value)
    document.take(value)
    version = value.get("openapi")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        seen = shown(repr(version), _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"openapi: got {seen}, want 3.0.0 or another 3.x")
    dangling = sorted(filter(document.leads_nowhere, bounds.refs))
    if dangling:
        first = shown(repr(dangling[0]), _SHOWN_OF_REF)
        text = f"{len(dangling)} references lead to nothing in the document, such as {first}"
        raise UpstreamFailed(Reason.MALFORMED, text)
    if closed := document.closed():
        name = shown(closed[-1], _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"{name} stands for nothing but itself")
