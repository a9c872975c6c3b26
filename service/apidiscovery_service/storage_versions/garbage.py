"""Removes what API servers reported that are no members any more.

Unlike k8s.io/kubernetes pkg/controller/storageversiongc, which takes every failed read of a lease
for its absence, nothing is removed unless the store says that the lease is absent: once when it is
asked, and once more as a condition of the write. So it does not matter how many collect, or how
late one learns what has happened; an entry of a member is never removed.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

import structlog

from apidiscovery_service.kube.objects import reading
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions import status_fields, timestamps
from apidiscovery_service.storage_versions.agreement import without
from apidiscovery_service.storage_versions.backoff import Backoff
from apidiscovery_service.storage_versions.collection import Collection, Event, Stored, Unreadable
from apidiscovery_service.storage_versions.following import beside, for_each, note_events
from apidiscovery_service.storage_versions.members import Members
from apidiscovery_service.storage_versions.presence import Presence
from apidiscovery_service.store import Conflict, Fenced, Guard, StoreUnavailable
from apidiscovery_service.store.wakeup import Wakeup, rings_within

_AT_ONCE = 16

_log = structlog.get_logger(__name__)


class Garbage:
    """Removes entries of API servers that are gone, and objects of which no entry is left.

    Args:
        objects: The StorageVersions.
        lease_objects: The leases, of the same store.
        members: Of the same leases.
        every_s: From one look at all objects to the next, whatever the events say.
        now: Tells the time of transitions.
    """

    def __init__(
        self,
        objects: Collection,
        lease_objects: Collection,
        members: Members,
        *,
        every_s: float = 600.0,
        now: Callable[[], datetime] = timestamps.utc_now,
    ) -> None:
        self._objects = objects
        self._leases = lease_objects
        self._members = members
        self._every_s = every_s
        self._now = now

    async def collect(self, claim: Guard) -> None:
        """Remove what is garbage whenever there is some, until cancelled.

        Args:
            claim: Of whoever does this.

        Raises:
            Fenced: The claim is lost.
        """
        suspects = Suspects(self._objects, self._leases)
        await beside(
            self._clear(suspects, claim),
            note_events(self._objects, suspects.note_object),
            note_events(self._leases, suspects.note_lease),
        )

    async def _clear(self, suspects: "Suspects", claim: Guard) -> None:
        backoff = Backoff(0.1, 5.0)
        loop = asyncio.get_running_loop()
        next_round = loop.time() + self._every_s
        while True:
            news = suspects.news.next()
            if not suspects.names and not await rings_within(news, next_round - loop.time()):
                suspects.note_all()
                next_round = loop.time() + self._every_s
            names, suspects.names = suspects.names, set()
            try:
                await self.clear(names, claim)
            except StoreUnavailable as error:
                _log.warning("nothing is collected, trying again", error=str(error))
                suspects.names |= names
                await backoff.pause()
            else:
                backoff.restart()

    async def clear(self, names: set[str], claim: Guard) -> None:
        """Remove what is garbage of some objects.

        Raises:
            Fenced: The claim is lost.
            StoreUnavailable: Some of it may be removed.
        """
        presence = Presence(self._members)

        async def clear_one(name: str) -> None:
            await self._clear_one(name, presence, claim)

        await for_each(sorted(names), clear_one, _AT_ONCE)

    async def _clear_one(self, name: str, presence: Presence, claim: Guard) -> None:
        backoff = Backoff()
        while stored := await self._read(name):
            gone = await presence.gone(status_fields.server_ids(stored.object))
            if not gone and not _is_husk(stored.object):
                return
            try:
                await self._remove(stored, gone, (claim, *presence.guards(gone)))
            except Conflict:
                await backoff.pause()
            except Fenced as fenced:
                if fenced.guard == claim:
                    raise
                presence.forget()
                await backoff.pause()
            else:
                return

    async def _read(self, name: str) -> Stored | None:
        try:
            return await self._objects.read(name)
        except Unreadable:
            return None  # an operator is told of it

    async def _remove(
        self, stored: Stored, gone: frozenset[str], guards: tuple[Guard, ...]
    ) -> None:
        left = self._left(stored.object, gone)
        if left == stored.object:
            return
        if left is None:
            await self._objects.remove(stored, guards)
        else:
            await self._objects.replace(stored, left, guards)
        _log.info("entries collected", name=stored.name, gone=sorted(gone))

    def _left(self, value: Object, gone: frozenset[str]) -> Object | None:
        """Return what is left of an object without some entries; None for nothing."""
        now = self._now()
        if gone.issuperset(status_fields.server_ids(value)):
            if not _has_finalizers(value):
                return None
            value = _deleting(value, now)
        generation = status_fields.generation_of(value)
        status = without(status_fields.status_of(value), gone, generation=generation, now=now)
        return status_fields.with_status(value, status)


class Suspects:
    """Names of objects that may be garbage, by what the events and views tell.

    Args:
        objects: The StorageVersions.
        lease_objects: The leases.

    Attributes:
        names: To be taken, and emptied, by whoever looks at them.
        news: Rings when there may be more.
    """

    def __init__(self, objects: Collection, lease_objects: Collection) -> None:
        self.names: set[str] = set()
        self.news = Wakeup()
        self._objects = objects
        self._leases = lease_objects

    def note_object(self, event: Event) -> None:
        """Take note of a StorageVersion."""
        if event.type in {EventType.ADDED, EventType.MODIFIED}:
            name = reading.text(reading.mapping(event.object, "metadata"), "name")
            self._suspect([(name, event.object)])

    def note_lease(self, event: Event) -> None:
        """Take note of a lease that is gone, or that some may be gone of which nothing was told."""
        if event.type is EventType.DELETED or _has_begun(event):
            self.note_all()

    def note_all(self) -> None:
        """Look at all that is known."""
        self._suspect((stored.name, stored.object) for stored in self._objects.view.values())

    def _suspect(self, objects: Iterable[tuple[str, Object]]) -> None:
        self.names.update(name for name, value in objects if self._may_be_garbage(value))
        self.news.ring()

    def _may_be_garbage(self, value: Object) -> bool:
        ids = status_fields.server_ids(value)
        return not all(each in self._leases.view for each in ids) or _is_husk(value)


def _has_begun(event: Event) -> bool:
    return event.type is EventType.BOOKMARK and event.initial


def _is_husk(value: Object) -> bool:
    """Tell whether there was an entry once, and none is left."""
    return not status_fields.server_ids(value) and bool(status_fields.status_of(value).condition)


def _has_finalizers(value: Object) -> bool:
    return bool(reading.strings(reading.mapping(value, "metadata"), "finalizers"))


def _deleting(value: Object, now: datetime) -> Object:
    """Return the object marked as one that goes when its last finalizer does.

    Source: k8s.io/apiserver pkg/registry/rest/delete.go, `BeforeDelete`.
    """
    metadata = dict(reading.mapping(value, "metadata"))
    if metadata.get("deletionTimestamp") is not None:
        return value
    marks: Object = {"deletionTimestamp": timestamps.seconds(now), "deletionGracePeriodSeconds": 0}
    if generation := status_fields.generation_of(value):
        marks["generation"] = generation + 1
    return value | {"metadata": metadata | marks}
