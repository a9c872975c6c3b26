"""OpenAPI as upstreams send it: the index, documents of group-versions, or one v2 document.

Documents are served byte for byte. They are not validated against the specification: clients get
all that they manage to read. A document must be JSON, within bounds, and complete: each reference
has a target in it.

Source of the index: k8s.io/kube-openapi pkg/handler3/handler.go:OpenAPIV3Discovery.
"""

import re
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

from apidiscovery_formats.openapi.keys import group_of, group_version_of
from apidiscovery_formats.openapi.pointers import unescaped

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2.split import split
from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.list_reader import GroupVersion

INDEX_PATH = "/openapi/v3"
V2_PATH = "/openapi/v2"

# Of the index.
_MAX_URL = 2048
_MAX_ODD = 10
# Documents that describe neither groups nor versions; a kube-apiserver has five.
_MAX_OTHERS = 32
_OTHER_KEY = re.compile(r"[A-Za-z0-9._/-]{1,200}")
_SHOWN_OF_URL = 100
# One slash, then characters of a request line; some programs read a backslash as a slash.
_ORIGIN_FORM = re.compile(r"/(?![/\\])[!\"$-\[\]-~]*")

# The document of core/v1 nests 19 deep; recursive readers must not fail.
MAX_DEPTH = 200
MAX_NODES = 5_000_000
# Different references; as many as there may be targets.
MAX_REFS = 100_000

# Paths and components.
MAX_NAMES = 100_000

_VERSION = re.compile(r"3\.\d{1,4}(\.\d{1,4})?([-+].{1,40})?")
_SHOWN_OF_REF = 100


@dataclass(frozen=True, slots=True)
class ListedDocument:
    """One document as the index lists it.

    Attributes:
        path: Path and query below the URL of the upstream.
        hash: The hash in the index; empty for none.
    """

    path: str
    hash: str


@dataclass(frozen=True, slots=True)
class Index:
    """The wanted documents of an index.

    Attributes:
        documents: By key: the path that each describes, such as `apis/apps/v1`.
        odd: Why others cannot be requested, by key.
    """

    documents: dict[str, ListedDocument] = field(default_factory=dict[str, ListedDocument])
    odd: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def warnings(self) -> tuple[str, ...]:
        lines = [f"{key}: {text}" for key, text in sorted(self.odd.items())]
        if len(lines) > _MAX_ODD:
            lines = [*lines[:_MAX_ODD], f"{len(lines) - _MAX_ODD} more of this kind"]
        return tuple(f"GET {INDEX_PATH}: {line}" for line in lines)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which documents of an upstream are wanted.

    Attributes:
        offered: The group-versions that discovery offers.
        is_whole: Whether documents that describe no group-version are wanted too: `api`, `apis`,
            `apis/GROUP`, `version` and any others.
    """

    offered: AbstractSet[GroupVersion]
    is_whole: bool = False

    def takes(self, key: str) -> bool:
        """Tell whether a document is wanted."""
        gv = group_version_of(key)
        if gv is not None:
            return gv in self.offered
        match key.split("/"):
            case ["apis", group]:
                return self.is_whole and any(group == one for one, _ in self.offered)
            case ["apis" | "api", _, *_]:
                return False
            case _:
                return self.is_whole and bool(_OTHER_KEY.fullmatch(key))


def read_index(body: Body, wanted: Wanted, prefix: str) -> Index:
    """Return the wanted documents of an index.

    Args:
        body: JSON.
        wanted: The documents to return; others are ignored.
        prefix: The path of the upstream's own URL.

    Raises:
        UpstreamFailed: It is not an index.
    """
    value = parsed(body)
    paths = cast("dict[str, object]", value).get("paths") if isinstance(value, dict) else None
    if not isinstance(paths, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object with paths, got none")
    index, others = Index(), 0
    for key, item in cast("dict[str, object]", paths).items():
        is_other = group_of(key) is None
        if wanted.takes(key) and not (is_other and others >= _MAX_OTHERS):
            others += is_other
            _take(index, key, item, prefix)
    return index


def _take(index: Index, key: str, item: object, prefix: str) -> None:
    url = cast("dict[str, object]", item).get("serverRelativeURL") if isinstance(item, dict) else ""
    try:
        index.documents[key] = listed(url if isinstance(url, str) else "", prefix)
        index.odd.pop(key, None)
    except ValueError as error:
        index.documents.pop(key, None)
        index.odd[key] = f"serverRelativeURL {shown(repr(url), _SHOWN_OF_URL)}: {error}"


def listed(url: str, prefix: str) -> ListedDocument:
    """Return the location of a document.

    A URL that is not below `/openapi/v3` may have the prefix in it already; source:
    k8s.io/client-go openapi/client.go:Paths and
    https://github.com/kubernetes/kubernetes/issues/117463.

    Raises:
        ValueError: It leads to another server, or out of the prefix.
    """
    if len(url) > _MAX_URL:
        raise ValueError(f"want at most {_MAX_URL} characters, got {len(url)}")
    if not _ORIGIN_FORM.fullmatch(url):
        raise ValueError("want a path that begins with one slash, and a query")
    parts = urlsplit(url)
    if {".", ".."} & set(re.split(r"[/\\]", unquote(parts.path))):
        raise ValueError("want a path without dot segments")
    is_below = parts.path == INDEX_PATH or parts.path.startswith(f"{INDEX_PATH}/")
    if prefix and not is_below:
        if not url.startswith(f"{prefix}/"):
            raise ValueError(f"want a path below {INDEX_PATH} or {prefix}")
        url = url.removeprefix(prefix)
    return ListedDocument(url, parse_qs(parts.query).get("hash", [""])[0])


# Documents.


class _Keys(Enum):
    """The meaning of the keys of an object."""

    KEYWORDS = 0
    NAMES = 1
    # Any data: `$ref` in it is not a reference.
    DATA = 2


_BELOW = {
    **dict.fromkeys(("properties", "patternProperties", "mapping"), _Keys.NAMES),
    **dict.fromkeys(("default", "enum", "example", "examples", "const"), _Keys.DATA),
}

_Pointer: TypeAlias = tuple[str, ...]
_Layer: TypeAlias = list[tuple[object, _Keys]]


@dataclass(slots=True)
class Bounds:
    """Counts the values and references of a document, and refuses too many.

    Attributes:
        nodes: The number of values.
        refs: The references.
    """

    nodes: int = 0
    refs: set[str] = field(default_factory=set[str])

    def count(self, document: object) -> None:
        """Count everything in a document.

        Raises:
            UpstreamFailed: It has too many values or references, or nests too deeply.
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


def _named_parts(document: Mapping[str, object]) -> dict[_Pointer, object]:
    """Return the paths and components of a document, which references lead to or into."""
    components = _object(document.get("components"), "components")
    sections: dict[_Pointer, object] = {("paths",): document.get("paths")}
    sections |= {
        ("components", name): value
        for name, value in components.items()
        if not name.startswith("x-")
    }
    parts: dict[_Pointer, object] = {}
    for place, named in sections.items():
        parts |= {(*place, name): one for name, one in _object(named, ".".join(place)).items()}
        if len(parts) > MAX_NAMES:
            text = f"more than {MAX_NAMES} paths and components"
            raise UpstreamFailed(Reason.TOO_LARGE, text)
    return parts


def _cycle(parts: Mapping[_Pointer, object]) -> _Pointer:
    """Return a component that is an alias of itself, directly or through others; else ()."""
    aliases: dict[_Pointer, _Pointer] = {}
    for place, part in parts.items():
        match part:
            case {"$ref": str(ref)}:
                aliases[place] = _pointer_of(ref)
            case _:
                pass
    ends: set[_Pointer] = set()
    for start in aliases:
        place, trail = start, dict[_Pointer, None]()
        while place in aliases and place not in ends:
            if place in trail:
                return place
            trail[place] = None
            place = aliases[place]
        ends.update(trail)
    return ()


def _pointer_of(ref: str) -> _Pointer:
    """Return the first steps of a reference that may name a path or a component."""
    return tuple(map(unescaped, ref[2:].split("/", 3)[:3])) if ref.startswith("#/") else ()


def _object(value: object, where: str) -> Mapping[str, object]:
    """Return an object; an empty one for None."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        seen = type(value).__name__
        raise UpstreamFailed(Reason.MALFORMED, f"{where}: want an object, got {seen}")
    return cast("dict[str, object]", value)


def check(body: Body) -> None:
    """Check that a document can be served.

    Raises:
        UpstreamFailed: It is not an OpenAPI 3 document, exceeds a bound, or has a reference
            without a target.
    """
    value = _object(parsed(body), "the document")
    bounds = Bounds()
    bounds.count(value)
    parts = _named_parts(value)
    version = value.get("openapi")
    if not isinstance(version, str) or not _VERSION.fullmatch(version):
        seen = shown(repr(version), _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"openapi: got {seen}, want 3.0.0 or another 3.x")
    targets = {ref: _pointer_of(ref) for ref in bounds.refs}
    dangling = sorted(
        ref for ref, place in targets.items() if place not in parts and place[:2] not in parts
    )
    if dangling:
        first = shown(repr(dangling[0]), _SHOWN_OF_REF)
        text = f"{len(dangling)} references lead to nothing in the document, such as {first}"
        raise UpstreamFailed(Reason.MALFORMED, text)
    if cycle := _cycle(parts):
        name = shown(cycle[-1], _SHOWN_OF_REF)
        raise UpstreamFailed(Reason.MALFORMED, f"{name} is a reference to itself")


def split_document(body: Body) -> dict[str, bytes]:
    """Split a v2 document into OpenAPI v3 documents, by key such as `apis/apps/v1`.

    Raises:
        UpstreamFailed: It is not an OpenAPI v2 document, or exceeds a bound.
    """
    document = parsed(body)
    if not isinstance(document, dict):
        raise UpstreamFailed(Reason.MALFORMED, "want an object, got another value")
    fields = cast("dict[str, JSONValue]", document)
    Bounds().count(fields)
    if fields.get("swagger") != "2.0":
        raise UpstreamFailed(Reason.MALFORMED, "swagger: want '2.0', got another or nothing")
    try:
        return split(fields)
    except DiscoveryError as error:
        raise UpstreamFailed(Reason.MALFORMED, str(error)) from error
