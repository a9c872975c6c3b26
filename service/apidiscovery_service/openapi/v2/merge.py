"""The v2 document of everything that is served, merged from v3 documents.

Kubernetes merges so (kube-openapi `aggregator.go: mergeSpecs`): a definition that several documents
have is written once; another definition of the same name becomes the first free of `NAME_v2`,
`NAME_v3`, …, and references follow. Definitions are the same here if all that they refer to is the
same too; Kubernetes compares their own text alone.

A recorded release has a v2 document of its own, which says more than v3 documents: shared
parameters, schemes, what an operation consumes. It is used for those of its group-versions that are
served.

The text is that of kube-openapi `Swagger.MarshalJSON`, which does not escape for HTML.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from io import BytesIO
from typing import Final, NamedTuple, cast

import orjson
import zstandard
from apidiscovery_formats.openapi.pointers import Place
from apidiscovery_formats.openapi.traversal import KIND_KEY
from apidiscovery_releases import Release, newest

from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.body import Packed, pack
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.references import (
    UNRESOLVED,
    UniqueNames,
    components,
    pointed,
    reached,
    references_in,
)
from apidiscovery_service.openapi.v2 import key_order
from apidiscovery_service.openapi.v2.downgrade import SECTIONS, Component, Downgrade, Entry
from apidiscovery_service.openapi.v2.fields import (
    Object,
    as_list,
    as_object,
    as_text,
)

_MAX_NOTES: Final = 100
# Of the result: that of 5000 CustomResourceDefinitions of usual size. Making it takes about as much
# memory.
MAX_BYTES: Final = 256 * 2**20
# The sections that the packaged document has, by those of v3.
_PACKAGED: Final = ("schemas", "parameters", "securitySchemes")


class TooLarge(DiscoveryError):
    """The result would be larger than it may be."""


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged document.

    Attributes:
        document: Canonical JSON, packed, for it can be large.
        notes: A line for each omission: documents that are not OpenAPI, and paths that
            differ from those of an earlier document.
    """

    document: Packed
    notes: list[str]


def merged(
    documents: Iterable[tuple[str, bytes]],
    info: Mapping[str, JSONValue],
    max_bytes: int = MAX_BYTES,
    packaged: Collection[str] = (),
    release: Release | None = None,
) -> Merged:
    """Return the v2 document of v3 documents.

    If two documents have a path, that of the first is used. One document is in memory at a time,
    and the parts of the result are compressed until it is written. Of the fields of whole documents
    the result has security alone, on each operation.

    Args:
        documents: Keys such as `apis/apps/v1`, in order, and documents as JSON compressed by zstd.
        info: The `info` of the result.
        max_bytes: Of the result as JSON.
        packaged: Keys of documents that are those of a recorded release; not among `documents`.
        release: That release; None for the newest.

    Raises:
        TooLarge: The result would have more.
        ValueError: The documents come in another order.
    """
    merge = _Merge(max_bytes)
    if packaged:
        merge.add_packaged(packaged, release or newest())
    last = ""
    for key, text in documents:
        if key < last:
            raise ValueError(f"the document of {key!r} comes after that of {last!r}")
        last = key
        try:
            merge.add(key, _parsed(zstandard.decompress(text)))
        except InvalidOpenAPI as error:
            merge.note(f"{key}: left out of the v2 document: {error}")
    return Merged(merge.document(info), merge.notes())


def _parsed(text: bytes) -> Object:
    try:
        value = cast("JSONValue", orjson.loads(text))
    except ValueError as error:
        raise InvalidOpenAPI((), f"is not JSON: {error}") from None
    return as_object(value, None)


@dataclass(frozen=True, slots=True)
class _Part:
    """A component as v2 has it.

    Attributes:
        packed: It as JSON, compressed.
        digest: Of that without its kinds, in which equal definitions may differ.
        kinds: Its `x-kubernetes-group-version-kind`, by the text that kube-openapi sorts them by.
        referred: The components that it refers to, by names of v3.
        is_whole: Whether nothing that it refers to was missing.
    """

    packed: bytes
    digest: bytes
    kinds: dict[str, JSONValue]
    referred: frozenset[Entry]
    is_whole: bool


class _Path(NamedTuple):
    """A path item: its JSON, compressed; the digest of that; the document that it is from."""

    packed: bytes
    digest: bytes
    owner: str


class _Pack:
    """Compresses parts, which takes a tenth of the memory."""

    def __init__(self) -> None:
        self.compress = zstandard.ZstdCompressor(level=1).compress
        self.decompress = zstandard.ZstdDecompressor().decompress


class _Names:
    """Names of a section of the result, by what they were called and what they lead to."""

    def __init__(self) -> None:
        self._finals: dict[tuple[str, bytes], str] = {}
        self._unique = UniqueNames()

    def final(self, name: str, digest: bytes, avoid: Collection[str]) -> str:
        """Return the name of something; no new one is among those to avoid."""
        known = self._finals.get((name, digest))
        if known is None:
            known = self._finals[name, digest] = self._unique.free(name, avoid)
        return known


class _Merge:
    """The parts that have been merged so far, as compressed JSON by section and name."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = self._left_bytes = max_bytes
        self._pack = _Pack()
        self._paths: dict[str, _Path] = {}
        self._parts: dict[Entry, _Part] = {}
        self._kinds: dict[Entry, dict[str, JSONValue]] = {}
        self._names = {section: _Names() for section in SECTIONS.values()}
        # By digest of the v3 text: nearly all definitions of a document are in others too.
        self._known: dict[bytes, _Part] = {}
        self._notes: list[str] = []
        self._left_out = 0
        self._security = b""

    def note(self, line: str) -> None:
        if len(self._notes) < _MAX_NOTES:
            self._notes.append(line)
        else:
            self._left_out += 1

    def notes(self) -> list[str]:
        more = [f"and {self._left_out} more"] if self._left_out else []
        return self._notes + more

    def add(self, key: str, document: Object) -> None:
        """Add a document, all of it or nothing.

        Raises:
            InvalidOpenAPI: It is not OpenAPI v3.
        """
        source = Downgrade(document)
        parts = self._parts_of(source)
        paths = source.paths()
        finals = self._finals(source, parts)
        again: dict[Entry, Component] = {}
        if any(final != source.names[section][name] for (section, name), final in finals.items()):
            source = Downgrade(document, finals)
            paths = source.paths()
            again = source.components(self._missing(finals))
        for entry, part in parts.items():
            made = self._part(entry, again[entry]) if entry in again else part
            self._add_part((SECTIONS[entry[0]], finals[entry]), made)
        for path, item in paths.items():
            self._add_path(key, path, orjson.dumps(item))

    def add_packaged(self, keys: Collection[str], release: Release) -> None:
        """Add the packaged document's paths of some v3 documents, and all that they reach."""
        source = _parsed(release.openapi_v2)
        values = {
            (section, name): as_object(value, None)
            for section in _PACKAGED
            for name, value in as_object(source.get(SECTIONS[section], {}), None).items()
        }
        edges = {entry: _referred(value) for entry, value in values.items()}
        start = {entry for entry in values if entry[0] == "securitySchemes"}
        for path, item in as_object(source["paths"], None).items():
            key = _key_of(path, release.openapi_hashes)
            if key in keys:
                self._add_path(key, path, orjson.dumps(item))
                start |= _referred(item)
        parts = {
            entry: self._part(entry, Component(values[entry], edges[entry]))
            for entry in reached(start, edges)
        }
        for (section, name), digest in _closed_digests(parts).items():
            self._names[SECTIONS[section]].final(name, digest, ())
            self._add_part((SECTIONS[section], name), parts[section, name])
        self._security = orjson.dumps(source["security"])

    def _missing(self, finals: Mapping[Entry, str]) -> list[Entry]:
        return [
            entry
            for entry, final in finals.items()
            if (SECTIONS[entry[0]], final) not in self._parts
        ]

    def _parts_of(self, source: Downgrade) -> dict[Entry, _Part]:
        """Return the components of a document under their own names."""
        parts: dict[Entry, _Part] = {}
        fresh: list[Entry] = []
        digests: dict[Entry, bytes] = {}
        for section in SECTIONS:
            for name, value in source.section(section).items():
                entry = (section, name)
                digests[entry] = sha256(orjson.dumps(value)).digest()
                known = self._known.get(digests[entry]) if section == "schemas" else None
                if known is not None and all(source.has(to) for to in known.referred):
                    parts[entry] = known
                else:
                    fresh.append(entry)
        made = source.components(fresh)
        for entry in list(made):  # freed one by one
            part = parts[entry] = self._part(entry, made.pop(entry))
            if part.is_whole:
                self._known[digests[entry]] = part
        return parts

    def _finals(self, source: Downgrade, parts: Mapping[Entry, _Part]) -> dict[Entry, str]:
        """Return the names of a document's components in the result."""
        digests = _closed_digests(parts)
        avoid: dict[str, set[str]] = {section: set() for section in self._names}
        for section, name in parts:
            avoid[SECTIONS[section]].add(source.names[section][name])
        return {
            (section, name): self._names[SECTIONS[section]].final(
                source.names[section][name], digests[section, name], avoid[SECTIONS[section]]
            )
            for section, name in sorted(parts)
        }

    def _charge(self, size: int) -> None:
        self._left_bytes -= size
        if self._left_bytes < 0:
            raise TooLarge(f"it would have more than {self._max_bytes} bytes")

    def _add_part(self, entry: Entry, part: _Part) -> None:
        present = self._parts.get(entry)
        if present is None:
            self._charge(zstandard.frame_content_size(part.packed))
            present = self._parts[entry] = part
        if present.kinds != part.kinds:
            kinds = self._kinds.setdefault(entry, dict(present.kinds))
            for name, kind in part.kinds.items():
                kinds.setdefault(name, kind)

    def _add_path(self, key: str, path: str, text: bytes) -> None:
        digest = sha256(text).digest()
        present = self._paths.get(path)
        if present is None:
            self._charge(len(text))
            self._paths[path] = _Path(self._pack.compress(text), digest, key)
        elif present.digest != digest:
            self.note(
                f"{key}: {path} is left out of the v2 document: {present.owner} has another one"
            )

    def _part(self, entry: Entry, component: Component) -> _Part:
        value = component.value
        plain = {name: field for name, field in value.items() if name != KIND_KEY}
        digest = sha256(orjson.dumps(plain)).digest()
        section, name = entry
        at: Place = ((((None, "components"), section), name), KIND_KEY)
        kinds = _by_kind(as_list(value.get(KIND_KEY, []), at), at)
        text = orjson.dumps(value)
        is_whole = UNRESOLVED.encode() not in text
        return _Part(self._pack.compress(text), digest, kinds, component.referred, is_whole)

    def document(self, info: Mapping[str, JSONValue]) -> Packed:
        """Return the result; the parts are removed as they are written."""
        out = BytesIO()
        out.write(b'{"swagger":"2.0","info":')
        out.write(orjson.dumps(key_order.INFO.arranged(info)))
        out.write(b',"paths":')
        paths = {path: item.packed for path, item in self._paths.items()}
        self._paths.clear()
        _write_object(out, paths, lambda path: self._pack.decompress(paths.pop(path)))
        names: dict[str, list[str]] = {section: [] for section in self._names}
        for section, name in self._parts:
            names[section].append(name)
        for section, members in names.items():
            if members:
                out.write(b"," + orjson.dumps(section) + b":")
                _write_object(out, members, partial(self._take, section))
        if self._security:
            out.write(b',"security":' + self._security)
        out.write(b"}")
        return pack(out.getvalue())

    def _take(self, section: str, name: str) -> bytes:
        """Remove a part, and return its JSON."""
        entry = (section, name)
        text = self._pack.decompress(self._parts.pop(entry).packed)
        if entry not in self._kinds:
            return text
        kinds = self._kinds[entry]
        value = as_object(orjson.loads(text), None)
        return orjson.dumps(
            key_order.SCHEMA.arranged(value | {KIND_KEY: [kinds[name] for name in sorted(kinds)]})
        )


def _key_of(path: str, known: Collection[str]) -> str:
    """Return the key of the packaged v3 document that has a path; empty when there is none."""
    steps = path.strip("/").split("/")
    keys = ("/".join(steps[:length]) for length in range(len(steps), 0, -1))
    return next((key for key in keys if key in known), "")


def _referred(value: JSONValue) -> frozenset[Entry]:
    """Return the components that a value of the packaged document refers to."""
    return frozenset(
        (section, found[0])
        for reference in references_in(value)
        for section in _PACKAGED
        if (found := pointed(reference, f"#/{SECTIONS[section]}/")) is not None
    )


def _by_kind(kinds: list[JSONValue], place: Place) -> dict[str, JSONValue]:
    """Return kinds by group, version and name in one text."""
    result: dict[str, JSONValue] = {}
    for index, value in enumerate(kinds):
        at: Place = (place, index)
        kind = as_object(value, at)
        group, version, name = (
            as_text(kind.get(field, ""), (at, field)) for field in ("group", "version", "kind")
        )
        result[f"{group}/{version}.{name}"] = kind
    return result


def _closed_digests(parts: Mapping[Entry, _Part]) -> dict[Entry, bytes]:
    """Return digests that are equal when parts and all that they refer to are equal.

    Parts that refer to each other are digested together, so it takes one pass.
    """
    edges = {entry: part.referred for entry, part in parts.items()}
    result: dict[Entry, bytes] = {}
    for members in components(edges):
        own = sorted((entry, parts[entry].digest) for entry in members)
        inside = set(members)
        leads = {to for entry in members for to in edges[entry] if to in parts} - inside
        outside = sorted((entry, result[entry]) for entry in leads)
        together = sha256(repr((own, outside)).encode()).digest()
        for entry in members:
            result[entry] = sha256(repr(entry).encode() + together).digest()
    return result


def _write_object(out: BytesIO, names: Iterable[str], text_of: Callable[[str], bytes]) -> None:
    """Write an object whose members are JSON text, sorted by name."""
    before = b"{"
    for name in sorted(names):
        out.write(before + orjson.dumps(name) + b":")
        out.write(text_of(name))
        before = b","
    out.write(b"}" if before == b"," else b"{}")
