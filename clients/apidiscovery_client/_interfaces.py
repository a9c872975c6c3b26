"""What transports and caches must be able to do, and what they hand on."""

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
    """A snapshot together with what makes asking again cheap.

    Attributes:
        etags: By path, `/api` and `/apis` over HTTP, quoted as the server sends them; under the
            empty string the one of everything over gRPC, unquoted. Without an entry for what has
            no ETag.
        hashes: Of each group, over gRPC.
        documents: What the server sent under each path that has an ETag. Whoever keeps a snapshot
            for longer can prove by them that it is the content of the ETag.
    """

    snapshot: Snapshot
    etags: Mapping[str, str] = field(default_factory=dict[str, str])
    hashes: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    documents: Mapping[str, Document] = field(default_factory=dict[str, Document], repr=False)


@dataclass(slots=True)
class Traffic:
    """What a transport has sent and received so far.

    Attributes:
        requests: Also those that failed and those that were repeated.
        not_modified: How many of them were answered by "as you know it".
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
        """Return what errors, caches and snapshots call the server."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which go on counting."""
        ...

    @property
    def can_listen(self) -> bool:
        """Whether `listen` works; it does over gRPC."""
        ...

    def fetch(self, fetched: FetchedSnapshot | None) -> FetchedSnapshot:
        """Return what the server serves now.

        Where nothing has changed since then, the snapshot's `groups` are the very
        same object, and only `checked_at` is new. Versions that the server cannot speak for keep
        the resources that they have there (`retained`).
        """
        ...

    def listen(self, fetched: FetchedSnapshot | None) -> Generator[FetchedSnapshot]:
        """Yield what is served now, and then again after each change and each sign of life.

        It goes on after broken connections as long as somebody reads. As in `fetch` the `groups`
        are the same object while nothing changes. Closing the generator ends the call.
        """
        ...

    def close(self) -> None:
        """Let go of all connections; it may be called again."""
        ...


class AsyncTransport(Protocol):
    """The same as `Transport`, for asyncio."""

    @property
    def server(self) -> str:
        """Return what errors, caches and snapshots call the server."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Return the counters, which go on counting."""
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
        """Let go of all connections; it may be called again."""
        ...


class SnapshotCache(Protocol):
    """Keeps what was held for another process, or another day, by a key that tells servers apart.

    Both methods may block for as long as a file takes to read or write, and may be called by
    several threads.
    """

    def get(self, key: str) -> FetchedSnapshot | None:
        """Return what was put last, None when there is none or it cannot be trusted."""
        ...

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        """Keep this instead of what was put before."""
        ...
