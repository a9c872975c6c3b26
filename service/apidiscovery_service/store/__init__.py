"""Where state is kept: one small interface, and what every implementation of it promises.

A store maps keys, which are paths such as `registrations/groups/east`, to bytes. Every write has a
revision, greater than all before it in that store, also across restarts and removals. A write that
has returned survives the end of the process at any moment.

Implementations: `memory`, `sqlite`, `etcd`; `urls.open_store` chooses by URL.
"""

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from apidiscovery_service.errors import DiscoveryError

# What a single value may take: etcd refuses requests above 1.5 MiB.
MAX_VALUE_BYTES = 1024 * 1024


# How often a watch says at least that nothing has changed.
NEWS_EVERY_S = 2.0


class StoreError(DiscoveryError):
    """The store does not do what it is asked.

    The text is for whoever runs the server: it may name files and addresses.

    Attributes:
        reason: One word for metrics.
        told: The text for callers, who can do nothing about the store.
    """

    reason: str
    told: str


class StoreUnavailable(StoreError):
    """The store cannot be reached or fails. Worth a retry.

    A write that ended so may have happened or not, and may even happen a little later.
    """

    reason = "unavailable"
    told = "the store of the server cannot be reached now, try again"


class StoreFull(StoreUnavailable):
    """There is no space left for writes; reads go on."""

    reason = "full"
    told = (
        "no space left on device: the store of the server takes no writes until there is;"
        " what is stored is served"
    )


class StoreRefused(StoreError):
    """The store will not do this at all: a newer file, wrong credentials."""

    reason = "refused"
    told = "the store of the server refuses this; the log of the server has the reason"


class StoreDamaged(StoreRefused):
    """What is stored is not what was written."""

    reason = "damaged"
    told = "the store of the server is damaged; the log of the server says where"


def told_to_callers(error: DiscoveryError) -> str:
    """Return what callers are told of any error.

    What the store says of itself, such as where its file is, is in the log and in /readyz?verbose.
    """
    return error.told if isinstance(error, StoreError) else str(error)


class Conflict(DiscoveryError):
    """Another revision stands there than was expected.

    Attributes:
        key: Where.
        revision: What stands there now; 0 for nothing.
    """

    def __init__(self, key: str, revision: int) -> None:
        super().__init__(f"{key} is at revision {revision}")
        self.key = key
        self.revision = revision


class Fenced(DiscoveryError):
    """A guard of a write, or its lease, no longer holds: somebody else has taken over.

    Attributes:
        guard: The first that does not hold; None when it was the lease.
    """

    def __init__(self, message: str, guard: "Guard | None" = None) -> None:
        super().__init__(message)
        self.guard = guard


class Compacted(DiscoveryError):
    """The changes since a revision are not known; whoever watches must list again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands under a key.

    Attributes:
        revision: Of the write that put it there.
        created: Revision of the write since which the key has been there without a gap.
    """

    key: str
    value: bytes
    revision: int
    created: int

    @property
    def mark(self) -> tuple[int, int]:
        """What differs when anything else stands under the key.

        A revision alone does not tell: a store that was restored from a backup gives revisions out
        again.
        """
        return self.revision, hash(self.value)


@dataclass(frozen=True, slots=True)
class Listing:
    """Entries at one moment.

    Attributes:
        entries: Sorted by key.
        revision: Of the store at that moment; watch after it to miss nothing.
    """

    entries: tuple[Entry, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """One key as it is after a change.

    Attributes:
        entry: None when the key was removed.
    """

    key: str
    entry: Entry | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Changes that arrived together, in order; at most one of each key. None is news too.

    Attributes:
        revision: Watching after it goes on where this ends.
    """

    changes: tuple[Change, ...]
    revision: int


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition for a write: this key still stands there since this revision (fencing).

    Attributes:
        created: ABSENT for a key under which nothing may stand.
    """

    key: str
    created: int


ABSENT = 0

# What must hold besides, all of it, at the moment of the write.
Guards: TypeAlias = Guard | tuple[Guard, ...] | None


def guards_of(guard: Guards) -> tuple[Guard, ...]:
    """Return the conditions, one by one."""
    if guard is None:
        return ()
    return guard if isinstance(guard, tuple) else (guard,)


class Lease(Protocol):
    """Keys put under a lease are removed when it ends: by `revoke`, or unless kept alive.

    Attributes:
        ttl_s: How long it lives after the last `keep_alive`.
    """

    @property
    def ttl_s(self) -> float: ...

    async def keep_alive(self) -> bool:
        """Begin the time to live anew; False when the lease has ended.

        Raises:
            StoreUnavailable: Whether it has ended is not known.
        """
        ...

    async def revoke(self) -> None:
        """End it, and remove its keys; one that has ended already is no error."""
        ...


class Store(Protocol):
    """A key-value store with revisions.

    Every method may raise StoreUnavailable (also once it is closed) and StoreRefused. A cancelled
    write may have happened or not.
    """

    async def get(self, key: str) -> Entry | None:
        """Return what stands under a key, None for nothing."""
        ...

    async def list(self, prefix: str) -> Listing:
        """Return everything whose key begins with a prefix, at one moment."""
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
        """Write; durable once this returns.

        A key is under the lease of its last write, or under none; that of an earlier write no
        longer concerns it.

        Args:
            key: Where.
            value: At most MAX_VALUE_BYTES.
            expected: The revision that must stand there now, 0 for none; None for whatever does.
            guard: What must hold besides.
            lease: Of this store; the key is removed when it ends.

        Raises:
            Fenced: A guard does not hold, or the lease has ended; nothing is written.
            Conflict: Another revision than expected stands there; nothing is written.
            ValueError: The value is too large, or the lease of another store.
        """
        ...

    async def delete(self, key: str, *, expected: int | None = None, guard: Guards = None) -> bool:
        """Remove a key; False when nothing stands there (then only `expected` 0 or None passes).

        Raises:
            Fenced: A guard does not hold.
            Conflict: Another revision than expected stands there.
        """
        ...

    def watch(self, prefix: str, after: int) -> AsyncGenerator[Batch]:
        """Yield what changes below a prefix after a revision, until this or the store is closed.

        The order is that of the writes, and no key's last change is missed; earlier changes of a
        key may be left out. An empty batch says that nothing has changed; one comes when
        NEWS_EVERY_S have passed without news.

        Raises:
            Compacted: What happened after that revision is forgotten, or the store has never been
                there.
            StoreUnavailable: The store is away, or has been: what comes back may be another, which
                was restored from a backup. Whoever watches must list again and compare what stands
                there, not only revisions.
            StoreRefused: It will not come back by itself.
        """
        ...

    async def lease(self, ttl_s: float) -> Lease:
        """Return a new lease; a store may round its time to live up to whole seconds."""
        ...

    async def close(self) -> None:
        """Let go of files and connections; leases that are left end by themselves."""
        ...
