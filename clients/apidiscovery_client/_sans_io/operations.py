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
from apidiscovery_client._sans_io.client_state import FROM_CACHE, ClientState, logger
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


def attempt(state: ClientState) -> Steps:
    """Read the cache if that was not done yet, else ask the server; remember the result."""
    turn = state.begin()
    try:
        if turn.number == FROM_CACHE:
            state.found((yield Load()))
            state.end(turn)
            return
        yield from _asked(state, turn.began)
    except GeneratorExit:
        state.give_up(turn)
        raise
    except Exception as error:  # noqa: BLE001 - all who wait for this attempt get it
        state.failed(error)
    state.end(turn)
    yield from saved(state)


def _asked(state: ClientState, began: float) -> Steps:
    """Ask the server, and again while it pushes another state at the same time."""
    for _ in range(_MAX_REQUESTS):
        fetched = yield Fetch(state.fetched)
        if fetched is None or state.arrived(fetched, began):
            return
        began = state.clock.monotonic()


def saved(state: ClientState) -> Steps:
    """Write unsaved snapshots to the cache."""
    while (unsaved := state.unsaved()) is not None:
        try:
            yield Save(unsaved)
        finally:
            state.saved()


# --------------------------------------------------------------------------------------------------
# Operations of the clients.


def remembered(state: ClientState) -> Operation[Snapshot | None]:
    """Return the snapshot in memory or in the cache, of any age."""
    if state.ended < FROM_CACHE:
        yield FROM_CACHE
    return state.latest


def snapshot(state: ClientState, max_age_s: float | None) -> Operation[Snapshot]:
    """Return a snapshot no older than that, or the last one when there is no answer."""
    yield from remembered(state)
    number = state.attempt_for_age(max_age_s)
    if number is not None:
        yield number
    return state.answer()


def refreshed(state: ClientState) -> Operation[Snapshot]:
    """Return the server's answer to a new request; raise the error without one."""
    found = yield from snapshot(state, 0.0)
    if state.error is not None:
        raise state.error.with_traceback(None)
    return found


def looked_up(state: ClientState, wanted: Hashable, ask: "Callable[[Resolver], T]") -> Operation[T]:
    """Return the result of `ask`; where it finds nothing, it is called again with a new snapshot.

    Raises:
        NotServed: In a snapshot of now or of a moment ago, or, when the name was not found within
            `negative_ttl_s`, of then.
    """
    found = yield from snapshot(state, None)
    try:
        return ask(state.resolver(found))
    except NotServed:
        number = state.attempt_for_miss(wanted)
        if number is None:
            raise
    yield number
    try:
        return ask(state.resolver(state.answer()))
    except NotServed:
        state.missed(wanted)
        raise


def resolved(
    state: ClientState, text: str, *, strict: bool, verb: str | None, namespaced: bool | None
) -> "Operation[Resolution]":
    """Return the resource that a name means."""
    return looked_up(
        state,
        ("name", text, verb, namespaced),
        lambda known: known.resolve(text, strict=strict, verb=verb, namespaced=namespaced),
    )


def kind_resolved(
    state: ClientState,
    kind: str,
    group: str | None,
    version: str | Sequence[str] | None,
    *,
    strict: bool,
) -> "Operation[Resolution]":
    """Return the resource of a kind."""
    versions = version if version is None or isinstance(version, str) else tuple(version)
    return looked_up(
        state,
        ("kind", kind, group, versions),
        lambda known: known.resolve_kind(kind, group, versions, strict=strict),
    )


def category(state: ClientState, name: str) -> Operation[tuple[Resource, ...]]:
    """Return the resources of a category."""
    return looked_up(state, ("category", name), lambda known: known.category(name))


def explained(state: ClientState, text: str) -> "Operation[Explanation]":
    """Return the explanation of a name."""
    with contextlib.suppress(NotServed, AmbiguousResource):
        yield from resolved(state, text, strict=False, verb=None, namespaced=None)
    return state.resolver(state.answer()).explain(text)
