"""Compares two sides, as `apidiscovery diff` does: what they serve, and the fields of their kinds.

Sides are bytes here, so that a comparison can be done in a worker process.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from apidiscovery_client import DiscoveryError
from apidiscovery_client._reading import read_document
from apidiscovery_client.diffing import Names, Report, compare
from apidiscovery_client.model import (
    CURRENT,
    PATHS,
    DiscoveryPath,
    Freshness,
    Group,
    GroupVersion,
    Snapshot,
    Stale,
)
from apidiscovery_client.openapi.asking import group_version_of, key_of
from apidiscovery_client.openapi.json_documents import load
from apidiscovery_client.schemas import Components, Documents, FieldChanges, compare_sources
from apidiscovery_client.schemas.model import GENERATED
from apidiscovery_client.snapshots.releases import PREFIX, known_groups, release
from apidiscovery_releases import Release

_JSON = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_GENERATED = "its document was made from discovery and has no fields"


@dataclass(frozen=True, slots=True)
class Discovery:
    """The discovery documents of a side.

    Attributes:
        name: As it was typed.
        release: A release of Kubernetes such as `1.31`; empty for a server.
        documents: The aggregated documents as JSON of v2, by path.
        failures: Why a document is missing, by path.
        since: Since when the server does not answer; None where it does.
        reason: Why it does not.
    """

    name: str
    release: str = ""
    documents: Mapping[DiscoveryPath, bytes] = field(default_factory=dict[DiscoveryPath, bytes])
    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    since: datetime | None = None
    reason: str = ""

    @property
    def size(self) -> int:
        """The bytes of its documents."""
        return sum(map(len, self.documents.values()))


@dataclass(frozen=True, slots=True)
class Fields:
    """The OpenAPI documents of a side, as far as they are to be compared.

    Attributes:
        release: A release of Kubernetes, which has the documents; empty for a server.
        keys: Those that the side has, such as `apis/apps/v1`.
        documents: Those that may differ from the other side's, as JSON; all of a release may.
        failures: Why a document could not be had, in one line, by key.
        equal: Those that both sides have alike.
    """

    release: str
    keys: frozenset[str]
    documents: Mapping[str, bytes]
    failures: Mapping[str, str]
    equal: frozenset[str]


def compare_discovery(before: Discovery, after: Discovery, *, resolves: bool = True) -> Report:
    """Return what changes for clients of the first side when they meet the second.

    Args:
        before: The first side.
        after: The second side.
        resolves: As for `apidiscovery_client.diffing.compare`.

    Raises:
        InvalidConfiguration: A release is not known.
    """
    names = Names(before.name, after.name)
    return compare(_snapshot(before), _snapshot(after), names, resolves=resolves)


def compare_fields(before: Fields, after: Fields) -> FieldChanges:
    """Return the differences of the fields of kinds.

    Raises:
        DiscoveryError: A document cannot be read.
    """
    return compare_sources(_Source(before), _Source(after))


def _snapshot(side: Discovery) -> Snapshot:
    if side.release:
        return release(side.release)
    now = datetime.now(UTC)
    groups: list[Group] = []
    for path in PATHS:
        if path in side.documents:
            groups += read_document(path, _JSON, side.documents[path], now).groups
    freshness: Freshness = CURRENT
    if side.reason:
        freshness = Stale(side.since or now, side.reason)
    return Snapshot(tuple(groups), side.name, now, side.failures, freshness)


class _Source:
    """Documents as the library compares them; in all else as `SchemaSource`."""

    is_partial = False

    def __init__(self, fields: Fields) -> None:
        self._fields = fields
        self.name = f"{PREFIX}{fields.release}" if fields.release else "the server"
        self.definitions: Mapping[str, Mapping[str, object]] = {}
        found = map(group_version_of, fields.keys)
        self.group_versions = frozenset(gv for gv in found if gv is not None)

    def documents(self, wanted: Iterable[GroupVersion]) -> Documents:
        """Return the documents that may differ."""
        keys = {key_of(gv): gv for gv in wanted}
        keys = {key: gv for key, gv in keys.items() if key not in self._fields.equal}
        texts = self._fields.documents
        if self._fields.release and keys:
            texts = Release.read(self._fields.release).openapi_v3_documents(keys)
        found: dict[GroupVersion, Components] = {}
        failures: dict[GroupVersion, str] = {}
        for key, gv in keys.items():
            if key in self._fields.failures:
                failures[gv] = self._fields.failures[key]
            elif key in texts:
                self._read(key, gv, texts[key], found, failures)
        return Documents(found, failures)

    def _read(
        self,
        key: str,
        gv: GroupVersion,
        text: bytes,
        found: dict[GroupVersion, Components],
        failures: dict[GroupVersion, str],
    ) -> None:
        try:
            document = load(text, f"the OpenAPI document of {key}")
        except DiscoveryError as error:
            failures[gv] = str(error)
            return
        if document.get(GENERATED):
            failures[gv] = _GENERATED
        else:
            found[gv] = Components.of(document)

    def covers(self, group: str) -> bool:
        """Return whether a group without documents is known not to be served."""
        return not self._fields.release or group in known_groups()
