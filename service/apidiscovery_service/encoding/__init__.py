"""Encodes snapshots: every body is made once per snapshot, off the event loop.

gRPC and HTTP read the same `EncodedSnapshot`, so they send the same cached bytes.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from apidiscovery_formats.negotiation import Representation

from apidiscovery_service.core.cluster import Addresses
from apidiscovery_service.core.model import CORE_GROUP, Group, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Document, Snapshot
from apidiscovery_service.encoding import aggregated, compression, plain
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.once import Once


@dataclass(frozen=True, slots=True)
class Aggregated:
    """An aggregated document; the representation has its version."""

    core: bool


@dataclass(frozen=True, slots=True)
class APIVersions:
    """The unaggregated `/api`."""

    addresses: Addresses


@dataclass(frozen=True, slots=True)
class APIGroupList:
    """The unaggregated `/apis`.

    Attributes:
        server_address: Of an extension API server; empty for the answer of kube-aggregator.
    """

    server_address: str = ""


@dataclass(frozen=True, slots=True)
class APIGroup:
    """`/apis/{group}`."""

    group: str


@dataclass(frozen=True, slots=True)
class APIResourceList:
    """`/api/{version}` and `/apis/{group}/{version}`."""

    group: str
    version: str
    storage_version_hashes: bool = True


Target: TypeAlias = Aggregated | APIVersions | APIGroupList | APIGroup | APIResourceList


class EncodedSnapshot:
    """A snapshot, and the bodies that were made from it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._made: dict[object, bytes] = {}
        self._making: Once[object, bytes] = Once()

    def serves(self, target: Target) -> bool:
        """Return whether there is such a document in this snapshot."""
        match target:
            case APIGroup(name):
                return name != CORE_GROUP and self.group(name) is not None
            case APIResourceList(name, version):
                return self.version(name, version) is not None
            case _:
                return True

    def group(self, name: str) -> Group | None:
        """Return a group by its name, empty for the core group."""
        document = self.snapshot.core if name == CORE_GROUP else self.snapshot.named
        published = document.by_name.get(name)
        return published.group if published else None

    def version(self, group: str, version: str) -> Version | None:
        """Return one version of a group."""
        found = self.group(group)
        return next((v for v in found.versions if v.version == version), None) if found else None

    async def body(self, target: Target, representation: Representation) -> bytes:
        """Return a body, which is made once, in a thread if it takes long.

        Raises:
            KeyError: The snapshot does not serve the target; ask `serves` first.
        """
        key = target, representation
        if isinstance(target, Aggregated) and representation.is_compact_json:
            # Joining the JSON of chunks takes less than a thread: the whole document is there 2 ms
            # earlier after a change of one group among 3,000.
            if key not in self._made:
                self._made[key] = self._encode(target, representation)
            return self._made[key]
        return await self._once(key, lambda: self._encode(target, representation))

    async def coded_body(
        self, target: Target, representation: Representation, coding: Coding
    ) -> tuple[bytes, Coding]:
        """Return a body in a content coding, and the coding: identity for a small body.

        Raises:
            KeyError: As `body`.
        """
        if coding == "gzip" and isinstance(target, Aggregated) and representation.is_compact_json:
            document = self._document(core=target.core)
            if document.json_bytes >= compression.MIN_COMPRESSED_BYTES:
                gzipped = await self._once(
                    (document, representation, coding),
                    lambda: aggregated.encode_gzip(document, representation),
                )
                return gzipped, coding
        content = await self.body(target, representation)
        if compression.coding_for(len(content), coding) == "identity":
            return content, "identity"
        compressed = await self._once(
            (target, representation, coding), lambda: compression.compress(content, coding)
        )
        return compressed, coding

    async def list_message(self, *, core: bool) -> bytes:
        """Return the encoded `APIGroupDiscoveryList` message, of v2 and v2beta1 alike."""
        document = self._document(core=core)
        return await self._once(document, lambda: aggregated.list_message(document))

    async def _once(self, key: object, make: Callable[[], bytes]) -> bytes:
        made = self._made.get(key)
        if made is None:
            made = await self._making.run(key, lambda: self._make(key, make))
        return made

    async def _make(self, key: object, make: Callable[[], bytes]) -> bytes:
        made = self._made[key] = await asyncio.to_thread(make)
        return made

    def _document(self, *, core: bool) -> Document:
        return self.snapshot.core if core else self.snapshot.named

    def _encode(self, target: Target, representation: Representation) -> bytes:
        if isinstance(target, Aggregated):
            return aggregated.encode(self._document(core=target.core), representation)
        return plain.encode(self._plain(target), representation)

    def _plain(
        self, target: APIVersions | APIGroupList | APIGroup | APIResourceList
    ) -> plain.PlainDocument:
        match target:
            case APIVersions(addresses):
                return plain.api_versions(self.snapshot.core, addresses)
            case APIGroupList(address):
                return plain.group_list(self.snapshot.named, address)
            case APIGroup(name):
                return plain.group(self.snapshot.named.by_name[name].group)
            case APIResourceList(name, version_name, hashes):
                group, version = self.group(name), self.version(name, version_name)
                if group is None or version is None:
                    raise KeyError(target)
                return plain.resource_list(group, version, storage_version_hashes=hashes)
            case _:
                assert_never(target)


class CurrentEncoding:
    """The encoded current snapshot of a registry, shared by all transports.

    Attributes:
        current: Replaced whenever the registry publishes, never changed.
    """

    def __init__(self, registry: Registry) -> None:
        self.current = EncodedSnapshot(registry.snapshot)
        registry.subscribe(self._replace)

    def _replace(self, snapshot: Snapshot) -> None:
        self.current = EncodedSnapshot(snapshot)
