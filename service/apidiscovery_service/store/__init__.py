"""The interface of stores, and the guarantees of every implementation.

A store maps keys, which are paths such as `registrations/groups/east`, to bytes. Every write has a
revision, greater than all before it in that store, also across restarts and removals. A write that
has returned survives a crash of the process.

Implementations: `memory`, `sqlite`, `etcd`; `urls.open_store` chooses by URL.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from apidiscovery_service.errors import DiscoveryError

# Limit of a value: etcd refuses requests above 1.5 MiB.
MAX_VALUE_BYTES = 1024 * 1024

# A watch without changes yields an empty batch at this interval.
NEWS_EVERY_S = 2.0


class StoreError(DiscoveryError):
    """Base class of errors of the store.

    The text is for operators: it may name files and addresses. Callers get the public text; the
    details are only in the log and in /readyz?verbose.

    Attributes:
        reason: One word for metrics.
    """

    reason: str


class StoreUnavailable(StoreError):
    """The store cannot be reached or fails; a retry may succeed.

    A write that ended so may have happened or not, or may still happen.
    """

    reason = "unavailable"
    public_text = "the store of the server cannot be reached now, try again"


class StoreFull(StoreUnavailable):
    """There is no space left for writes; reads still work."""

    reason = "full"
    public_text = (
        "no space left on device: the store of the server takes no writes until there is;"
        " what is stored is served"
    )


class StoreRefused(StoreError):
    """A retry cannot succeed: a newer file, wrong credentials."""

    reason = "refused"
    public_text = "the store of the server refuses this; the log of the server has the reason"


class StoreDamaged(StoreRefused):
    """The stored data differs from what was written."""

    reason = "damaged"
    public_text = "the store of the server is damaged; the log of the server says where"


class Conflict(DiscoveryError):
    """A key has another revision than expected.

    Attributes:
        key: The key.
        revision: Its revision; 0 if there is no entry.
    """

    def __init__(self, key: str, revision: int) -> None:
        super().__init__(f"{key} is at revision {revision}")
        self.key = key
        self.revision = revision


class Fenced(DiscoveryError):
    """A guard of a write does not hold, or its lease has ended.

    Attributes:
        guard: The first that does not hold; None when it was the lease.
    """

    def __init__(self, message: str, guard: "Guard | None" = None) -> None:
        super().__init__(message)
        self.guard = guard


class Compacted(DiscoveryError):
    """The changes since a revision are not available; the watcher must list again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The value of a key.

    Attributes:
        key: The key.
        value: The value.
        revision: Revision of its last write.
        created: Revision of the write since which the key has existed without a gap.
    """

    key: str
    value: bytes
    revision: int
    created: int

    @property
    def mark(self) -> tuple[int, int]:
        """Differs between any two entries of the key.

        A revision alone is not enough: a store that was restored from a backup uses revisions
        again.
        """
        return self.revision, hash(self.value)


@dataclass(frozen=True, slots=True)
class Listing:
    """All entries below a prefix at one moment.

    Attributes:
        entries: Sorted by key.
        revision: Revision of the store at that moment; a watch after it misses nothing.
    """

    entries: tuple[Entry, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """A key after a change.

    Attributes:
        key: The key.
        entry: None if the key was removed.
    """

    key: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that arrived together.

    Attributes:
        changes: In order, at most one of each key; may be empty.
        revision: A watch after it continues where this batch ends.
    """

    changes: tuple[Change, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition of a write: a key has existed without a gap since a revision (fencing).

    Attributes:
        key: The key.
        created: The revision; ABSENT if the key must not exist.
    """

    key: str
    created: int


ABSENT = 0

# All must hold at the moment of the write.
Guards: TypeAlias = Guard | tuple[Guard, ...] | None


def guards_of(guard: Guards) -> tuple[Guard, ...]:
    """Return guards as a tuple."""
    if guard is None:
        return ()
    return guard if isinstance(guard, tuple) else (guard,)


class Lease(Protocol):
    """A lease; its keys are removed when it is revoked or expires.

    Attributes:
        ttl_s: Time to live after the last `keep_alive`.
    """

    @property
    def ttl_s(self) -> float: ...

    async def keep_alive(self) -> bool:
        """Restart the time to live; return False when the lease has ended.

        Raises:
            StoreUnavailable: It is unknown whether it has ended.
        """
        ...

    async def revoke(self) -> None:
        """End the lease and remove its keys; no error if it has ended already."""
        ...


class Store(Protocol):
    """A key-value store with revisions.

    Every method may raise StoreUnavailable (also after `close`) and StoreRefused. A cancelled
    write may have happened or not.
    """

    async def get(self, key: str) -> Entry | None:
        """Return the entry of a key, None if there is none."""
        ...

    async def list(self, prefix: str) -> Listing:
        """Return all entries whose keys begin with a prefix, at one moment."""
        ...

    async def put(
        self,
        key: str,
        value: bytes,
        *,
        expected: int | None = None,
        guard: Guards = None,
        lease: Lease | None = None,
    ) -> Entry:
        """Write a value; durable once this returns.

        A key has the lease of its last write, or none; leases of earlier writes no longer count.

        Args:
            key: The key.
            value: At most MAX_VALUE_BYTES.
            expected: The revision that the key must have, 0 for no entry; None for any.
            guard: Further conditions.
            lease: A lease of this store; the key is removed when it ends.

        Raises:
            Fenced: A guard does not hold, or the lease has ended; nothing is written.
            Conflict: The key has another revision than expected; nothing is written.
            ValueError: The value is too large, or the lease of another store.
        """
        ...

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        """Remove a key; return False if there is no entry (then only `expected` 0 or None passes).

        Raises:
            Fenced: A guard does not hold.
            Conflict: The key has another revision than expected.
        """
        ...

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        """Yield the changes below a prefix after a revision, until this or the store is closed.

        In the order of the writes, and with every key's last change; earlier changes of a key may
        be left out. An empty batch is yielded after NEWS_EVERY_S without changes.

        Raises:
            Compacted: The changes after that revision are not available, or the store has never
                reached it.
            StoreUnavailable: The store is or was away. It may have been restored from a backup
                meanwhile: the watcher must list again and compare content, not only revisions.
            StoreRefused: A retry cannot succeed.
        """
        ...

    async def lease(self, ttl_s: float) -> Lease:
        """Return a new lease; a store may round the time to live up to whole seconds."""
        ...

    async def close(self) -> None:
        """Close files and connections; open leases expire."""
        ...
