"""Splits the v2 document of a server into v3 documents of group-versions."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.references import pointed, reached, references_in
from apidiscovery_service.openapi.v2.fields import Object, as_object, json_text
from apidiscovery_service.openapi.v2.upgrade import convert

# Kubernetes' own 4 MiB become 13 MiB.
MAX_SPLIT_BYTES: Final = 256 * 1024 * 1024

# The section of a component, such as `schemas`, and its name.
_Entry: TypeAlias = tuple[str, str]

# Sections of the components of a document, in order.
_SECTIONS: Final = ("schemas", "securitySchemes", "responses", "parameters")


def document_key(path: str) -> str:
    """Return the key of the document that a path belongs to; empty when it has none.

    >>> [document_key(path) for path in ("/api/v1/pods/{name}", "/apis/apps/", "/logs/{logpath}")]
    ['api/v1', 'apis/apps', 'logs']
    """
    segments = [segment for segment in path.split("/") if segment]
    literal = segments[: next((i for i, s in enumerate(segments) if "{" in s), len(segments))]
    depth = {"api": 2, "apis": 3}.get(literal[0] if literal else "", len(literal))
    return "/".join(literal[:depth])


def split(document: Mapping[str, JSONValue]) -> dict[str, bytes]:
    """Return v3 documents as canonical JSON by key, such as `apis/apps/v1`, in key order.

    Each has what the document says as a whole, the paths of its key, and the components that these
    lead to. Paths belong to the key that Kubernetes serves them under (apiserver
    `routes/openapi.go: InstallV3` groups by the root of the web service): two segments under `api`,
    three under `apis`, elsewhere all before the first parameter. The path `/`, and one that begins
    with a parameter, belong to no document.

    Raises:
        InvalidOpenAPI: As `convert`; or the documents, each with the components that they share,
            would be more than `MAX_SPLIT_BYTES` together.
    """
    whole = convert(document)
    paths = as_object(whole["paths"], None)
    by_key: dict[str, list[str]] = {}
    for path in paths:
        by_key.setdefault(document_key(path) if path.startswith("/") else "", []).append(path)
    by_key.pop("", None)
    parts = _Parts(whole)
    return {key: parts.document(by_key[key]) for key in sorted(by_key)}


class _Parts:
    """The JSON text of all parts of a document."""

    def __init__(self, whole: Object) -> None:
        self._left = MAX_SPLIT_BYTES
        self._fields = {
            name: b"" if name in ("paths", "components") else _field(name, value)
            for name, value in whole.items()
        }
        self._texts: dict[_Entry, bytes] = {}
        self._edges: dict[_Entry, set[_Entry]] = {}
        self._add("paths", as_object(whole["paths"], None))
        for section, components in as_object(whole["components"], None).items():
            self._add(section, as_object(components, None))
        self._always = {entry for entry in self._texts if entry[0] == "securitySchemes"}

    def _add(self, section: str, parts: Object) -> None:
        for name, part in parts.items():
            self._texts[section, name] = _field(name, part)
            self._edges[section, name] = set(_entries(part))

    def document(self, paths: Iterable[str]) -> bytes:
        """Return the document of some paths, with all components that they reach."""
        entries = reached([("paths", path) for path in paths], self._edges) | self._always
        names: dict[str, list[str]] = {}
        for section, name in sorted(entries):
            names.setdefault(section, []).append(name)
        sections = [
            _named(section, self._section(section, names[section]))
            for section in _SECTIONS
            if section in names
        ]
        own = {
            "paths": _named("paths", self._section("paths", names["paths"])),
            "components": _named("components", _object(sections)),
        }
        text = _object((self._fields | own).values())
        self._left -= len(text)
        if self._left < 0:
            message = f"its documents would be more than {MAX_SPLIT_BYTES} bytes together"
            raise InvalidOpenAPI((), message)
        return text

    def _section(self, section: str, names: Iterable[str]) -> bytes:
        return _object(self._texts[section, name] for name in names)


def _named(name: str, text: bytes) -> bytes:
    return json_text(name) + b":" + text


def _field(name: str, value: JSONValue) -> bytes:
    return _named(name, json_text(value))


def _object(fields: Iterable[bytes]) -> bytes:
    return b"{" + b",".join(fields) + b"}"


def _entries(value: JSONValue) -> Iterator[_Entry]:
    """Yield the components and the paths that a value refers to."""
    for reference in references_in(value):
        target = pointed(reference, "#/")
        inner = pointed(target[1], "/") if target else None
        if target and target[0] == "paths" and inner:
            yield "paths", inner[0]
        component = pointed(inner[1], "/") if inner else None
        if target and target[0] == "components" and inner and component:
            yield inner[0], component[0]
