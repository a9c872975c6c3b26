"""The operations of both clients, without I/O: generators that a driver runs.

An operation yields the number of an attempt that must have ended before it continues. An attempt
yields what to read, request or write, and is sent the result.
"""

import contextlib
from collections.abc import Callable, Generator, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client._interfaces import FetchedSnapshot, SnapshotCache
from apidiscovery_client._sans_io.memory import FROM_CACHE, Memory, logger
from apidiscovery_client.model import Resource, Snapshot

if TYPE_CHECKING:  # imported when the first name is resolved
    from apidiscovery_client.resolving import Explanation, Resolution, Resolver

T = TypeVar("T")

_MAX_REQUESTS = 3  # of one attempt, while changes come faster than answers


@dataclass(frozen=True, slots=True)
class Load:
    """Read the cache; send its content."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask the server; send the result."""

    fetched: FetchedSnapshot | None


@dataclass(frozen=True, slots=True)
class Save:
    """Write to the cache."""

    fetched: FetchedSnapshot


IO: TypeAlias = Load | Fetch | Save
Steps: TypeAlias = Generator[IO, FetchedSnapshot | None, None]
Operation: TypeAlias = Generator[int, None, T]


@dataclass(frozen=True, slots=True)
class CacheSlot:
    """A place in a cache, whose errors are only logged."""

    cache: SnapshotCache | None
    key: str

    @classmethod
    def of(cls, cache: SnapshotCache | None, key: str, server: str) -> "CacheSlot":
        """Return the place of a key, by default that of the server for any user."""
        if cache is not None and not key:
            from apidiscovery_client.cache.keys import key as key_for  # noqa: PLC0415 - few need it

            key = key_for(server)
        return cls(cache, key)

    def load(self) -> FetchedSnapshot | None:
        """Return the content; None also where it cannot be read."""
        try:
            return self.cache.get(self.key) if self.cache else None
        except Exception as error:  # noqa: BLE001 - any kind of cache, with any error
            logger.warning("the cache cannot be read: %s", error)
            return None

    def save(self, fetched: FetchedSnapshot) -> None:
        """Write to the cache if that is possible."""
        try:
            if self.cache:
                self.cache.put(self.key, fetched)
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("the cache cannot be written: %s", error)


# --------------------------------------------------------------------------------------------------
# One attempt, and pushed states.


def attempt(memory: Memory) -> Steps:
    """Read the cache if that was not done yet, else ask the server; remember the result."""
    turn = memory.begin()
    try:
        if turn.number == FROM_CACHE:
            memory.found((yield Load()))
            memory.end(turn)
            return
        yield from _asked(memory, turn.began)
    except GeneratorExit:
        memory.give_up(turn)
        raise
    except Exception as error:  # noqa: BLE001 - all who wait for this attempt get it
        memory.failed(error)
    memory.end(turn)
    yield from saved(memory)


def _asked(memory: Memory, began: float) -> Steps:
    """Ask the server, and again while it pushes another state at the same time."""
    for _ in range(_MAX_REQUESTS):
        fetched = yield Fetch(memory.fetched)
        if fetched is None or memory.arrived(fetched, began):
            return
        began = memory.clock.monotonic()


def saved(memory: Memory) -> Steps:
    """Write unsaved snapshots to the cache."""
    while (unsaved := memory.unsaved()) is not None:
        try:
            yield Save(unsaved)
        finally:
            memory.saved()


# --------------------------------------------------------------------------------------------------
# Operations of the clients.


def remembered(memory: Memory) -> Operation[Snapshot | None]:
    """Return the snapshot in memory or in the cache, of any age."""
    if memory.ended < FROM_CACHE:
        yield FROM_CACHE
    return memory.latest


def snapshot(memory: Memory, max_age_s: float | None) -> Operation[Snapshot]:
    """Return a snapshot no older than that, or the last one when there is no answer."""
    yield from remembered(memory)
    number = memory.attempt_for_age(max_age_s)
    if number is not None:
        yield number
    return memory.answer()


def refreshed(memory: Memory) -> Operation[Snapshot]:
    """Return the server's answer to a new request; raise the error without one."""
    found = yield from snapshot(memory, 0.0)
    if memory.error is not None:
        raise memory.error.with_traceback(None)
    return found


def looked_up(memory: Memory, wanted: Hashable, ask: "Callable[[Resolver], T]") -> Operation[T]:
    """Return the result of `ask`; where it finds nothing, it is called again with a new snapshot.

    Raises:
        NotServed: In a snapshot of now or of a moment ago, or, when the name was not found within
            `negative_ttl_s`, of then.
    """
    found = yield from snapshot(memory, None)
    try:
        return ask(memory.resolver(found))
    except NotServed:
        number = memory.attempt_for_miss(wanted)
        if number is None:
            raise
    yield number
    try:
        return ask(memory.resolver(memory.answer()))
    except NotServed:
        memory.missed(wanted)
        raise


def resolved(
    memory: Memory, text: str, *, strict: bool, verb: str | None, namespaced: bool | None
) -> "Operation[Resolution]":
    """Return the resource that a name means."""
    return looked_up(
        memory,
        ("name", text, verb, namespaced),
        lambda known: known.resolve(text, strict=strict, verb=verb, namespaced=namespaced),
    )


def kind_resolved(
    memory: Memory,
    kind: str,
    group: str | None,
    version: str | Sequence[str] | None,
    *,
    strict: bool,
) -> "Operation[Resolution]":
    """Return the resource of a kind."""
    versions = version if version is None or isinstance(version, str) else tuple(version)
    return looked_up(
        memory,
        ("kind", kind, group, versions),
        lambda known: known.resolve_kind(kind, group, versions, strict=strict),
    )


def category(memory: Memory, name: str) -> Operation[tuple[Resource, ...]]:
    """Return the resources of a category."""
    return looked_up(memory, ("category", name), lambda known: known.category(name))


def explained(memory: Memory, text: str) -> "Operation[Explanation]":
    """Return the explanation of a name."""
    with contextlib.suppress(NotServed, AmbiguousResource):
        yield from resolved(memory, text, strict=False, verb=None, namespaced=None)
    return memory.resolver(memory.answer()).explain(text)
