"""The protocols of transports and caches, and the values that they exchange."""

from collections.abc import AsyncGenerator, Generator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from apidiscovery_client.model import Snapshot


@dataclass(frozen=True, slots=True)
class Document:
    """An aggregated document as it came.

    Attributes:
        content_type: As the server stated it.
        body: Uncompressed.
    """

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class FetchedSnapshot:
    """A snapshot, with the validators that make the next request cheap.

    Attributes:
        etags: By path, `/api` and `/apis` over HTTP, quoted as the server sends them; under the
            empty string the one of everything over gRPC, unquoted. Without an entry for what has
            no ETag.
        hashes: Of each group, over gRPC.
        documents: The documents of paths that have an ETag. They prove to a cache that the
            snapshot is the content of the ETags.
    """

    snapshot: Snapshot
    etags: Mapping[str, str] = field(default_factory=dict[str, str])
    hashes: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    documents: Mapping[str, Document] = field(default_factory=dict[str, Document], repr=False)


@dataclass(slots=True)
class Traffic:
    """Counters of what a transport has sent and received.

    Attributes:
        requests: Including those that failed and repetitions.
        not_modified: Requests that were answered with "not modified".
        body_bytes: Received in bodies, before decompression.
    """

    requests: int = 0
    not_modified: int = 0
    body_bytes: int = 0


class Transport(Protocol):
    """Asks one server for discovery.

    `fetch` and `listen` raise `ServerUnreachable`, `RequestRefused`, `CallRefused`,
    `UnexpectedDocument`.
    """

    @property
    def server(self) -> str:
        """Return the name of the server in errors, caches and snapshots."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which keep counting."""
        ...

    @property
    def can_listen(self) -> bool:
        """Whether `listen` works; it does over gRPC."""
        ...

    def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now.

        Where nothing has changed since `fetched`, the snapshot's `groups` are the same object and
        only `checked_at` is new. Versions that are stale keep their resources (`retained`).
        """
        ...

    def listen(self, fetched: FetchedSnapshot | None) -> Generator[FetchedSnapshot]:
        """Yield what is served now, and again after each change and each heartbeat.

        It reconnects as long as it is read. As in `fetch` the `groups` are the same object while
        nothing changes. Closing the generator ends the call.
        """
        ...

    def close(self) -> None:
        """Close all connections; it may be called again."""
        ...


class AsyncTransport(Protocol):
    """The same as `Transport`, for asyncio."""

    @property
    def server(self) -> str:
        """Return the name of the server in errors, caches and snapshots."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which keep counting."""
        ...

    @property
    def can_listen(self) -> bool:
        """Whether `listen` works; it does over gRPC."""
        ...

    async def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what `Transport.fetch` does."""
        ...

    def listen(self, fetched: FetchedSnapshot | None) -> AsyncGenerator[FetchedSnapshot]:
        """Yield what `Transport.listen` does."""
        ...

    async def close(self) -> None:
        """Close all connections; it may be called again."""
        ...


class SnapshotCache(Protocol):
    """Stores snapshots for other processes, by a key for each server and user.

    Both methods may block for as long as a file takes to read or write, and may be called by
    several threads.
    """

    def get(self, key: str) -> FetchedSnapshot | None:
        """Return the snapshot that was put last; None when there is none that can be trusted."""
        ...

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        """Store a snapshot, in place of the one before."""
        ...
