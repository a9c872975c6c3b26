"""Which API servers there are: those whose identity lease stands in the store.

A server is a member until its lease is gone, not until it should be: whether it is gone is told by
the store alone, and never by a read that failed.
"""

import math
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

import structlog

from apidiscovery_service.errors import DiscoveryError, FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import formats
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions import leases, timestamps
from apidiscovery_service.storage_versions.backoff import Backoff
from apidiscovery_service.storage_versions.collection import (
    Collection,
    Event,
    Stored,
    Unreadable,
)
from apidiscovery_service.storage_versions.expiry import Sightings
from apidiscovery_service.storage_versions.following import beside, note_events
from apidiscovery_service.storage_versions.identity import KUBE_APISERVER, identity
from apidiscovery_service.store import ABSENT, Conflict, Guard, StoreUnavailable
from apidiscovery_service.store.wakeup import Wakeup, rings_within

__all__ = ["Beat", "Heartbeat", "Members", "NotMember", "Superseded", "identity"]

MAX_DURATION_S = 86_400

# kube-apiserver renews so often (k8s.io/apiserver pkg/server/config.go); who may be silent for less
# than half a minute must be heard of three times in that.
_RENEW_AFTER_S = 10.0
_BEATS = 3

_INSTANCE_MAX_BYTES = 253

# A sleep that takes so much longer than asked for was that of the whole process.
_STANDSTILL_S = 1.0

_log = structlog.get_logger(__name__)


class NotMember(DiscoveryError):
    """An API server has no lease, or not any more; it must send a heartbeat before it reports.

    Attributes:
        api_server_id: Which.
    """

    def __init__(self, api_server_id: str) -> None:
        super().__init__(
            f"API server {api_server_id!r} is no member: it has no lease, or another life of it "
            "has one. Send a heartbeat first, then report"
        )
        self.api_server_id = api_server_id


class Superseded(DiscoveryError):
    """A life of an API server is over: a later one has taken its place.

    Attributes:
        api_server_id: Of which.
    """

    def __init__(self, api_server_id: str) -> None:
        super().__init__(
            f"another process has become API server {api_server_id!r} since, and this one is no "
            "member any more. Start it again, and let no two share a hostname"
        )
        self.api_server_id = api_server_id


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What an API server says of itself.

    Attributes:
        hostname: Decides the identity, together with the component.
        component: What kind of API server it is; empty for kube-apiserver.
        instance: Differs between two of its lives, and another one joins anew; empty for whichever
            life holds the lease.
        lease_duration_s: How long it may be silent, in whole seconds from 1 to 86 400.
    """

    hostname: str
    component: str = ""
    instance: str = ""
    lease_duration_s: float = leases.DEFAULT_DURATION_S


@dataclass(frozen=True, slots=True)
class Beat:
    """What a heartbeat has brought about.

    Attributes:
        lease: As it stands now. Its `metadata.uid` is that of the membership: an answer can get
            lost, and with it `joined`, but another uid tells the same.
        joined: Whether the API server has become a member with it.
        renew_after_s: When to send the next one.
    """

    lease: Stored
    joined: bool
    renew_after_s: float

    @property
    def api_server_id(self) -> str:
        """By which the API server reports."""
        return self.lease.name


class Members:
    """The API servers, by their leases.

    Every method that asks the store may raise StoreUnavailable and StoreRefused; what was asked for
    may have happened then, and can be asked for again.

    Args:
        collection: The leases.
        now: Tells the time for `renewTime`.
        monotonic: Tells how time passes, in seconds, for the end of leases.
    """

    def __init__(
        self,
        collection: Collection,
        *,
        now: Callable[[], datetime] = timestamps.utc_now,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._leases = collection
        self._now = now
        self._monotonic = monotonic

    # Being a member.

    async def heartbeat(self, heartbeat: Heartbeat) -> Beat:
        """Make an API server a member, or keep it one; the last that does holds the lease.

        Another life of it joins anew, so that nothing late of the earlier one is taken any more,
        not its heartbeats either.

        Raises:
            InvalidFields: Naming `hostname`, `component`, `instance` or `lease_duration`.
            Superseded: By a later life.
        """
        holding = _holding(heartbeat)
        backoff = Backoff()
        while True:
            lease = await self._leases.read(holding.api_server_id)
            is_its_own = lease is not None and (
                not heartbeat.instance or leases.holder(lease.object) == holding.holder
            )
            if lease is not None and holding.holder in leases.earlier_holders(lease.object):
                raise Superseded(holding.api_server_id)
            try:
                if lease is not None and is_its_own:
                    value = leases.renewed(lease.object, holding, self._now())
                    held = await self._leases.replace(lease, value)
                else:
                    held = await self._join(lease, holding)
            except Conflict:
                await backoff.pause()
            else:
                renew_after_s = min(_RENEW_AFTER_S, holding.duration_s / _BEATS)
                return Beat(held, not is_its_own, renew_after_s)

    async def _join(self, lease: Stored | None, holding: leases.Holding) -> Stored:
        """Put a lease where none is, or where that of an earlier life is.

        That one is removed first: what its holder has sent and has not been written yet names it,
        and is refused from then on.
        """
        if lease is None:
            return await self._leases.create(leases.created(holding, self._now()))
        await self._leases.remove(lease)
        return await self._leases.create(leases.succeeding(lease.object, holding, self._now()))

    async def depart(self, api_server_id: str, instance: str = "") -> bool:
        """End a membership; False when there is none.

        Args:
            api_server_id: Whose.
            instance: Of which of its lives, so that a late word of an earlier one ends nothing;
                empty for whichever it is.

        Raises:
            InvalidFields: Naming `api_server_id`.
        """
        check_id(api_server_id)
        backoff = Backoff()
        while lease := await self._leases.read(api_server_id):
            if instance and leases.holder(lease.object) != _holder(api_server_id, instance):
                return False
            try:
                await self._leases.remove(lease)
            except Conflict:
                await backoff.pause()
            else:
                return True
        return False

    # Who is a member, for whoever writes on the strength of it.

    async def membership(self, api_server_id: str, instance: str = "") -> Guard:
        """Return what holds for as long as an API server, in one life, goes on being a member.

        Args:
            api_server_id: Which.
            instance: In which life; empty for whichever holds the lease.

        Raises:
            NotMember: It is none.
        """
        lease = await self._leases.read(api_server_id)
        if lease is None:
            raise NotMember(api_server_id)
        if instance and leases.holder(lease.object) != _holder(api_server_id, instance):
            raise NotMember(api_server_id)
        return Guard(lease.key, lease.created)

    def absence(self, api_server_id: str) -> Guard:
        """Return what holds while an API server is no member."""
        return Guard(self._leases.prefix + api_server_id, ABSENT)

    async def gone(self, api_server_ids: Iterable[str]) -> frozenset[str]:
        """Return those that are no members now, each asked of the store."""
        return frozenset(
            [each for each in sorted(set(api_server_ids)) if not await self._is_member(each)]
        )

    async def _is_member(self, api_server_id: str) -> bool:
        try:
            return await self._leases.read(api_server_id) is not None
        except Unreadable:
            return True  # something stands there

    # The end of leases.

    async def expire(self, claim: Guard) -> None:
        """Remove each lease that has been seen unchanged for its duration, until cancelled.

        One that does not say its duration, or has never been renewed, lasts an hour.

        Args:
            claim: Of whoever does this; others may do it too, to no effect.

        Raises:
            Fenced: The claim is lost.
        """
        sightings, news = Sightings(), Wakeup()

        def note(event: Event) -> None:
            name = leases.name(event.object)
            if event.type is EventType.DELETED:
                sightings.forget(name, None)
            elif event.type is not EventType.BOOKMARK:
                duration_s = leases.duration_s(event.object)
                sightings.see(name, event.revision, duration_s, self._monotonic())
            news.ring()

        await beside(self._remove_ended(sightings, news, claim), note_events(self._leases, note))

    async def _remove_ended(self, sightings: Sightings, news: Wakeup, claim: Guard) -> None:
        backoff = Backoff(0.1, 5.0)
        while True:
            await self._sleep(sightings, news)
            try:
                for name, revision in sightings.due(self._monotonic()):
                    await self._look(name, revision, sightings, claim)
            except StoreUnavailable as error:
                _log.warning("leases cannot be looked at, they last on", error=str(error))
                await backoff.pause()
                sightings.restart(self._monotonic())
            else:
                backoff.restart()

    async def _sleep(self, sightings: Sightings, news: Wakeup) -> None:
        """Wait until a look is due or there are news."""
        changed = news.next()
        begun = self._monotonic()
        seconds = sightings.next_look - begun
        if seconds <= 0:
            return
        has_news = await rings_within(changed, None if seconds == math.inf else seconds)
        now = self._monotonic()
        if not has_news and now - begun > seconds + _STANDSTILL_S:
            _log.warning("this process stood still, leases last on", seconds=now - begun - seconds)
            sightings.restart(now)

    async def _look(self, name: str, revision: int, sightings: Sightings, claim: Guard) -> None:
        try:
            lease = await self._leases.read(name)
        except Unreadable:
            lease = None
        if lease is None:
            sightings.forget(name, revision)
        elif lease.revision != revision:
            duration_s = leases.duration_s(lease.object)
            sightings.see(name, lease.revision, duration_s, self._monotonic())
        elif sightings.looked(name, revision):
            await self._remove(lease, claim)
            sightings.forget(name, revision)

    async def _remove(self, lease: Stored, claim: Guard) -> None:
        told = {
            "lease": lease.name,
            "holder": leases.holder(lease.object),
            "seconds": leases.duration_s(lease.object),
        }
        try:
            await self._leases.remove(lease, claim)
        except Conflict:
            _log.info("lease was renewed at the last moment", **told)
        else:
            _log.info("lease has ended", **told)


def check_id(api_server_id: str) -> None:
    """Refuse what can be no identity.

    Raises:
        InvalidFields: Naming `api_server_id`.
    """
    if errors := formats.dns_subdomain(api_server_id):
        raise InvalidFields(
            FieldViolation("api_server_id", f"{api_server_id!r}: {'; '.join(errors)}")
        )


def _holding(heartbeat: Heartbeat) -> leases.Holding:
    violations = list(_violations(heartbeat))
    if violations:
        raise InvalidFields(*violations)
    component = heartbeat.component or KUBE_APISERVER
    api_server_id = identity(heartbeat.hostname, component)
    return leases.Holding(
        api_server_id,
        _holder(api_server_id, heartbeat.instance or str(uuid.uuid4())),
        {leases.COMPONENT_LABEL: component, leases.HOSTNAME_LABEL: heartbeat.hostname},
        int(heartbeat.lease_duration_s),
    )


def _holder(api_server_id: str, instance: str) -> str:
    return f"{api_server_id}_{instance}"


def _violations(heartbeat: Heartbeat) -> Iterator[FieldViolation]:
    if not heartbeat.hostname:
        yield FieldViolation("hostname", "must not be empty: it decides the identity")
    for field, value in (("hostname", heartbeat.hostname), ("component", heartbeat.component)):
        for error in formats.label_value(value):
            yield FieldViolation(field, f"{value!r} is to be a label's value: {error}")
    size = len(heartbeat.instance.encode())
    if size > _INSTANCE_MAX_BYTES:
        yield FieldViolation(
            "instance", f"has {size} bytes, must be no more than {_INSTANCE_MAX_BYTES}"
        )
    duration_s = heartbeat.lease_duration_s
    # A Lease has whole seconds.
    if not 1 <= duration_s <= MAX_DURATION_S or duration_s != int(duration_s):
        yield FieldViolation(
            "lease_duration",
            f"is {duration_s:.15g} s, must be whole seconds from 1 s to {MAX_DURATION_S} s",
        )
