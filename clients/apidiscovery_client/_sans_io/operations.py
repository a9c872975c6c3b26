"""What both clients do, without I/O: generators whose requests a client carries out.

An operation yields the number of an attempt that must have ended before it goes on. An attempt
yields what is to be read, asked or written, and is sent what came of that.
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

# Of one attempt, while changes come faster than answers.
_MOST_QUESTIONS = 3


@dataclass(frozen=True, slots=True)
class Load:
    """Read the cache; send what was in it."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Ask the server; send what it said."""

    fetched: FetchedSnapshot | None


@dataclass(frozen=True, slots=True)
class Save:
    """Write to the cache."""

    fetched: FetchedSnapshot


IO: TypeAlias = Load | Fetch | Save
Steps: TypeAlias = Generator[IO, FetchedSnapshot | None, None]
Operation: TypeAlias = Generator[int, None, T]


@dataclass(frozen=True, slots=True)
class Shelf:
    """A place in a cache, which never does harm."""

    cache: SnapshotCache | None
    key: str

    @classmethod
    def of(cls, cache: SnapshotCache | None, key: str, server: str) -> "Shelf":
        """Return the place of that key, by default the one of that server for everybody."""
        if cache is not None and not key:
            from apidiscovery_client.cache.keys import key as key_for  # noqa: PLC0415 - few need it

            key = key_for(server)
        return cls(cache, key)

    def load(self) -> FetchedSnapshot | None:
        """Return what is there; None also where that cannot be read."""
        try:
            return self.cache.get(self.key) if self.cache else None
        except Exception as error:  # noqa: BLE001 - a cache of any kind, whose errors nobody knows
            logger.warning("the cache cannot be read: %s", error)
            return None

    def save(self, fetched: FetchedSnapshot) -> None:
        """Put it there if that is possible."""
        try:
            if self.cache:
                self.cache.put(self.key, fetched)
        except Exception as error:  # noqa: BLE001 - as above
            logger.warning("the cache cannot be written: %s", error)


# --------------------------------------------------------------------------------------------------
# One attempt, and signs of life.


def attempt(memory: Memory) -> Steps:
    """Ask once, or look into the cache if that was not done yet; remember what came of it."""
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
    except Exception as error:  # noqa: BLE001 - everyone who waits for this attempt is told
        memory.failed(error)
    memory.end(turn)
    yield from saved(memory)


def _asked(memory: Memory, began: float) -> Steps:
    """Ask, and again while the server says something else by itself at the same time."""
    for _ in range(_MOST_QUESTIONS):
        fetched = yield Fetch(memory.fetched)
        if fetched is None or memory.arrived(fetched, began):
            return
        began = memory.clock.monotonic()


def saved(memory: Memory) -> Steps:
    """Write to the cache what it lacks."""
    while (unsaved := memory.unsaved()) is not None:
        try:
            yield Save(unsaved)
        finally:
            memory.saved()


# --------------------------------------------------------------------------------------------------
# What users ask for.


def remembered(memory: Memory) -> Operation[Snapshot | None]:
    """Return what is held, in memory or in the cache, whatever its age."""
    if memory.ended < FROM_CACHE:
        yield FROM_CACHE
    return memory.latest


def snapshot(memory: Memory, max_age_s: float | None) -> Operation[Snapshot]:
    """Return a snapshot that is no older than that, or the last one when there is no answer."""
    yield from remembered(memory)
    number = memory.attempt_for_age(max_age_s)
    if number is not None:
        yield number
    return memory.answer()


def refreshed(memory: Memory) -> Operation[Snapshot]:
    """Return what the server says when it is asked now; raise what keeps it from answering."""
    found = yield from snapshot(memory, 0.0)
    if memory.error is not None:
        raise memory.error.with_traceback(None)
    return found


def looked_up(memory: Memory, wanted: Hashable, ask: "Callable[[Resolver], T]") -> Operation[T]:
    """Return what `ask` returns; where it finds nothing, it is asked again of what is served now.

    Raises:
        NotServed: Of what is served now, or was a moment ago, or, when the name was looked for in
            vain within `negative_ttl_s`, then.
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
    """Return what a name means."""
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
    """Return why a name means what it means, or nothing."""
    with contextlib.suppress(NotServed, AmbiguousResource):
        yield from resolved(memory, text, strict=False, verb=None, namespaced=None)
    return memory.resolver(memory.answer()).explain(text)
