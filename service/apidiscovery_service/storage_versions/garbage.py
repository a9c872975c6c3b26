"""Removes what API servers reported that are no longer members.

Unlike k8s.io/kubernetes pkg/controller/storageversiongc, which takes every failed read of a lease
for its absence, this removes nothing unless the store says that the lease is absent: once when
asked, and again as a condition of the write. So several collectors, or late ones, do no harm: the
entry of a member is never removed.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import structlog

from apidiscovery_service.kube.objects import json_fields
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import finalizers_of, is_terminating, metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions.background import (
    Backoff,
    follow_events,
    for_each,
)
from apidiscovery_service.storage_versions.collection import (
    Collection,
    Event,
    StoredObject,
    Unreadable,
)
from apidiscovery_service.storage_versions.members import Members, MembershipCache
from apidiscovery_service.storage_versions.model import (
    generation_of,
    marked_for_deletion,
    server_ids,
    status_of,
    utc_now,
    with_status,
    without_servers,
)
from apidiscovery_service.store import Conflict, Fenced, Guard, StoreUnavailable
from apidiscovery_service.waiting import Wakeup, happens_within, run_until_one_ends

_CONCURRENCY = 16

_log = structlog.get_logger(__name__)


class Garbage:
    """Removes entries of API servers that are gone, and objects without an entry left.

    Args:
        objects: The StorageVersions.
        lease_objects: The leases, in the same store.
        members: The members by the same leases.
        every_s: Interval between checks of all objects, whatever the events say.
        now: Returns the time of transitions.
    """

    def __init__(
        self,
        objects: Collection,
        lease_objects: Collection,
        members: Members,
        *,
        every_s: float = 600.0,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._objects = objects
        self._leases = lease_objects
        self._members = members
        self._every_s = every_s
        self._now = now

    async def collect(self, claim: Guard) -> None:
        """Remove garbage whenever there is some, until cancelled.

        Args:
            claim: The claim of this process.

        Raises:
            Fenced: The claim is lost.
        """
        candidates = _Candidates(self._objects, self._leases)
        await run_until_one_ends(
            self._clear_candidates(candidates, claim),
            follow_events(self._objects, candidates.handle_object),
            follow_events(self._leases, candidates.handle_lease),
        )

    async def _clear_candidates(self, candidates: "_Candidates", claim: Guard) -> None:
        backoff = Backoff(0.1, 5.0)
        loop = asyncio.get_running_loop()
        next_round = loop.time() + self._every_s
        while True:
            news = candidates.news.next()
            pause_s = next_round - loop.time()
            if not candidates.names and not await happens_within(pause_s, news.wait()):
                candidates.add_all()
                next_round = loop.time() + self._every_s
            names, candidates.names = candidates.names, set()
            try:
                await self.clear(names, claim)
            except StoreUnavailable as error:
                _log.warning("garbage not collected, trying again", error=str(error))
                candidates.names |= names
                await backoff.pause()
            else:
                backoff.reset()

    async def clear(self, names: set[str], claim: Guard) -> None:
        """Remove the garbage of some objects.

        Raises:
            Fenced: The claim is lost.
            StoreUnavailable: Some of it may be removed.
        """
        membership = MembershipCache(self._members)

        async def clear_one(name: str) -> None:
            await self._clear_one(name, membership, claim)

        await for_each(sorted(names), clear_one, _CONCURRENCY)

    async def _clear_one(self, name: str, membership: MembershipCache, claim: Guard) -> None:
        backoff = Backoff()
        while stored := await self._read(name):
            gone = await membership.gone(server_ids(stored.object))
            if not gone and not _is_abandoned(stored.object):
                return
            try:
                await self._remove(stored, gone, (claim, *membership.guards(gone)))
            except Conflict:
                await backoff.pause()
            except Fenced as fenced:
                if fenced.guard == claim:
                    raise
                membership.clear()
                await backoff.pause()
            else:
                return

    async def _read(self, name: str) -> StoredObject | None:
        try:
            return await self._objects.read(name)
        except Unreadable:
            return None  # the warnings of the collection name it

    async def _remove(
        self, stored: StoredObject, gone: frozenset[str], guards: tuple[Guard, ...]
    ) -> None:
        remainder = self._without(stored.object, gone)
        if remainder == stored.object:
            return
        if remainder is None:
            await self._objects.remove(stored, guards)
        else:
            await self._objects.replace(stored, remainder, guards)
        _log.info("entries collected", name=stored.name, gone=sorted(gone))

    def _without(self, value: Object, gone: frozenset[str]) -> Object | None:
        """Return an object without some entries; None if it is to be removed."""
        now = self._now()
        if gone.issuperset(server_ids(value)):
            if not finalizers_of(value):
                return None
            if not is_terminating(value):
                value = marked_for_deletion(value, now)
        generation = generation_of(value)
        status = without_servers(status_of(value), gone, generation=generation, now=now)
        return with_status(value, status)


class _Candidates:
    """Names of objects that may be garbage, judged by events and views.

    Args:
        objects: The StorageVersions.
        lease_objects: The leases.

    Attributes:
        names: Taken, and emptied, by the consumer.
        news: Rings when there may be more.
    """

    def __init__(self, objects: Collection, lease_objects: Collection) -> None:
        self.names: set[str] = set()
        self.news = Wakeup()
        self._objects = objects
        self._leases = lease_objects

    def handle_object(self, event: Event) -> None:
        """Take an event of a StorageVersion."""
        if event.type in {EventType.ADDED, EventType.MODIFIED}:
            name = json_fields.text(metadata_of(event.object), "name")
            self._add([(name, event.object)])

    def handle_lease(self, event: Event) -> None:
        """Take an event of a lease; after a new listing, leases may be gone unseen."""
        is_end_of_state = event.type is EventType.BOOKMARK and event.initial
        if event.type is EventType.DELETED or is_end_of_state:
            self.add_all()

    def add_all(self) -> None:
        """Judge all known objects."""
        self._add((stored.name, stored.object) for stored in self._objects.view.values())

    def _add(self, objects: Iterable[tuple[str, Object]]) -> None:
        self.names.update(name for name, value in objects if self._may_be_garbage(value))
        self.news.ring()

    def _may_be_garbage(self, value: Object) -> bool:
        ids = server_ids(value)
        return not all(each in self._leases.view for each in ids) or _is_abandoned(value)


def _is_abandoned(value: Object) -> bool:
    """Return whether an object had entries once, and has none left."""
    return not server_ids(value) and bool(status_of(value).condition)
