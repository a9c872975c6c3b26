"""The members: API servers whose identity lease is in the store.

An API server is a member until its lease is removed, not until it should be. Only the store says
whether a lease is there; a read that failed says nothing.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_service.errors import DiscoveryError, FieldViolation, InvalidFields
from apidiscovery_service.kube.objects import formats
from apidiscovery_service.storage_versions import leases
from apidiscovery_service.storage_versions.background import Backoff
from apidiscovery_service.storage_versions.collection import (
    Collection,
    StoredObject,
    Unreadable,
)
from apidiscovery_service.storage_versions.model import utc_now
from apidiscovery_service.store import ABSENT, Conflict, Guard

MAX_DURATION_S = 86_400

# kube-apiserver's interval (k8s.io/apiserver pkg/server/config.go), or a third of a shorter lease.
_RENEW_AFTER_S = 10.0
_HEARTBEATS_PER_LEASE = 3

_INSTANCE_MAX_BYTES = 253


class NotMember(DiscoveryError):
    """An API server has no lease; it must send a heartbeat before it reports.

    Attributes:
        api_server_id: Its identity.
    """

    def __init__(self, api_server_id: str) -> None:
        super().__init__(
            f"API server {api_server_id!r} is not a member: it has no lease, or another instance "
            "of it has one. Send a heartbeat first, then report"
        )
        self.api_server_id = api_server_id


class Superseded(DiscoveryError):
    """A later instance of an API server has taken the place of this one.

    Attributes:
        api_server_id: The identity of both.
    """

    def __init__(self, api_server_id: str) -> None:
        super().__init__(
            f"another process has become API server {api_server_id!r} since, and this one is no "
            "longer a member. Restart it, and do not let two processes share a hostname"
        )
        self.api_server_id = api_server_id


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat of an API server.

    Attributes:
        hostname: Decides the identity, together with the component.
        component: The kind of API server; empty for kube-apiserver.
        instance: Differs between two runs of the API server, so that the later one joins anew;
            empty for whichever instance holds the lease.
        lease_duration_s: The longest time until the next heartbeat, whole seconds from 1 to 86,400.
    """

    hostname: str
    component: str = ""
    instance: str = ""
    lease_duration_s: float = leases.DEFAULT_DURATION_S


@dataclass(frozen=True, slots=True)
class Beat:
    """The result of a heartbeat.

    Attributes:
        lease: As stored. Its `metadata.uid` identifies the membership: when an answer with `joined`
            is lost, the next answer has another uid than the last one received.
        joined: Whether the API server became a member.
        renew_after_s: When to send the next heartbeat.
    """

    lease: StoredObject
    joined: bool
    renew_after_s: float

    @property
    def api_server_id(self) -> str:
        """The identity to report with."""
        return self.lease.name


class Members:
    """The API servers, by their leases.

    Every method that uses the store may raise StoreUnavailable and StoreRefused; the change may
    have happened then, and the call can be repeated.

    Args:
        collection: The leases.
        now: Returns the time for `renewTime`.
    """

    def __init__(self, collection: Collection, *, now: Callable[[], datetime] = utc_now) -> None:
        self._leases = collection
        self._now = now

    async def heartbeat(self, heartbeat: Heartbeat) -> Beat:
        """Make an API server a member, or renew its lease; the latest instance holds the lease.

        A new instance joins anew: requests of the earlier one, heartbeats too, are refused from
        then on.

        Raises:
            InvalidFields: Naming `hostname`, `component`, `instance` or `lease_duration`.
            Superseded: A later instance has joined.
        """
        holder = _lease_holder(heartbeat)
        backoff = Backoff()
        while True:
            lease = await self._leases.read(holder.api_server_id)
            if lease is not None and holder.identity in leases.earlier_holders(lease.object):
                raise Superseded(holder.api_server_id)
            try:
                if lease is not None and _is_held_by(lease, holder, heartbeat.instance):
                    joined = False
                    value = leases.renewed(lease.object, holder, self._now())
                    stored = await self._leases.replace(lease, value)
                else:
                    joined = True
                    stored = await self._join(lease, holder)
            except Conflict:
                await backoff.pause()
            else:
                renew_after_s = min(_RENEW_AFTER_S, holder.duration_s / _HEARTBEATS_PER_LEASE)
                return Beat(stored, joined, renew_after_s)

    async def _join(self, lease: StoredObject | None, holder: leases.LeaseHolder) -> StoredObject:
        """Create a lease, in place of that of an earlier instance if there is one.

        The earlier lease is removed first: writes of its holder that are still under way depend on
        it, and fail from then on.
        """
        if lease is None:
            return await self._leases.create(leases.created(holder, self._now()))
        await self._leases.remove(lease)
        return await self._leases.create(leases.succeeding(lease.object, holder, self._now()))

    async def depart(self, api_server_id: str, instance: str = "") -> bool:
        """End a membership; return False when there is none.

        Args:
            api_server_id: The member.
            instance: Its instance, so that a late request of an earlier one ends nothing; empty for
                whichever holds the lease.

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

    async def membership(self, api_server_id: str, instance: str = "") -> Guard:
        """Return a guard that holds for as long as the API server stays a member.

        Args:
            api_server_id: The API server.
            instance: Its instance; empty for whichever holds the lease.

        Raises:
            NotMember: It is not a member.
        """
        lease = await self._leases.read(api_server_id)
        if lease is None:
            raise NotMember(api_server_id)
        if instance and leases.holder(lease.object) != _holder(api_server_id, instance):
            raise NotMember(api_server_id)
        return Guard(lease.key, lease.created)

    def absence(self, api_server_id: str) -> Guard:
        """Return a guard that holds while the API server is not a member."""
        return Guard(self._leases.prefix + api_server_id, ABSENT)

    async def has_lease(self, api_server_id: str) -> bool:
        """Ask the store whether an API server is a member now."""
        try:
            return await self._leases.read(api_server_id) is not None
        except Unreadable:
            return True  # there is something under its key


class MembershipCache:
    """Asks the store for the lease of each API server once, until it is cleared.

    An answer may be outdated, so every removal of an entry also carries the guards.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._is_member: dict[str, bool] = {}
        self._lock = asyncio.Lock()

    async def gone(self, api_server_ids: Iterable[str]) -> frozenset[str]:
        """Return those that are not members.

        Raises:
            StoreUnavailable: It is not known of all; none may be taken for gone.
        """
        wanted = frozenset(api_server_ids)
        async with self._lock:
            known = self._is_member  # `clear` may replace it while the store is asked
            for each in sorted(wanted - known.keys()):
                known[each] = await self._members.has_lease(each)
            return frozenset(each for each in wanted if not known[each])

    def clear(self) -> None:
        """Forget all answers."""
        self._is_member = {}

    def guards(self, api_server_ids: Iterable[str]) -> tuple[Guard, ...]:
        """Return the guards under which entries of API servers may be removed."""
        return tuple(self._members.absence(each) for each in sorted(api_server_ids))


def check_id(api_server_id: str) -> None:
    """Check that a text can be the identity of an API server.

    Raises:
        InvalidFields: Naming `api_server_id`.
    """
    if errors := formats.dns_subdomain(api_server_id):
        raise InvalidFields(
            FieldViolation("api_server_id", f"{api_server_id!r}: {'; '.join(errors)}")
        )


def _lease_holder(heartbeat: Heartbeat) -> leases.LeaseHolder:
    violations = list(_violations(heartbeat))
    if violations:
        raise InvalidFields(*violations)
    component = heartbeat.component or leases.KUBE_APISERVER
    api_server_id = leases.identity(heartbeat.hostname, component)
    return leases.LeaseHolder(
        api_server_id,
        _holder(api_server_id, heartbeat.instance or str(uuid.uuid4())),
        {leases.COMPONENT_LABEL: component, leases.HOSTNAME_LABEL: heartbeat.hostname},
        int(heartbeat.lease_duration_s),
    )


def _is_held_by(lease: StoredObject, holder: leases.LeaseHolder, instance: str) -> bool:
    return not instance or leases.holder(lease.object) == holder.identity


def _holder(api_server_id: str, instance: str) -> str:
    return f"{api_server_id}_{instance}"


def _violations(heartbeat: Heartbeat) -> Iterator[FieldViolation]:
    if not heartbeat.hostname:
        yield FieldViolation("hostname", "must not be empty: it decides the identity")
    for field, value in (("hostname", heartbeat.hostname), ("component", heartbeat.component)):
        for error in formats.label_value(value):
            yield FieldViolation(field, f"{value!r} is not a label value: {error}")
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
