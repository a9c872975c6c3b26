"""The reporter: keeps an API server a member and its storage versions recorded.

Source: k8s.io/apiserver pkg/storageversion/manager.go; Kubernetes
pkg/controlplane/apiserver/server.go for the lease.
"""

import asyncio
import contextlib
import logging
import random
import uuid
from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.service.v1 import storage_version_pb2
from google.protobuf.duration_pb2 import Duration

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._grpc.errors import CallRefused
from apidiscovery_client.storage_versions.gate import Refusal, RequestAttributes, StoredResource
from apidiscovery_client.storage_versions.membership import (
    Clock,
    Membership,
    SentReport,
    boot_clock,
)
from apidiscovery_client.storage_versions.service import ServiceChannels, Target

_log = logging.getLogger(__name__)

_MAX_LEASE_S = 86400  # storage_version.proto HeartbeatRequest
_LONGEST_WRITE_S = 60.0  # kube-apiserver --request-timeout
_WRITE_SHARE = 0.1
_HEARTBEATS_A_LEASE = 3  # so that one may be lost

_SHORTEST_WAIT_S = 0.1  # whatever the service answers
_END_S = 2.0  # timeout of the calls in progress at the end, and of the departure


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Durations of a reporter, in seconds.

    Sources of the defaults: k8s.io/apiserver pkg/server/config.go and Kubernetes
    pkg/controlplane/apiserver/server.go (lease of an hour, renewed every 10 s); k8s.io/apiserver
    pkg/storageversion (report retried after 1 s, repeated every 10 minutes).

    Attributes:
        lease_duration_s: How long the server stays a member without a heartbeat.
        heartbeat_s: Interval of heartbeats unless the service gives another one; at most a third
            of the lease.
        jitter: Random deviation from that interval, as a share of it, up or down.
        report_again_s: Interval of repeated reports, which repair changes by others.
        retry_s: Pause after a failure.
        not_a_member_s: Pause before another report when the service knows no lease.
        call_timeout_s: Timeout of each call to each address; at most a third of the lease.
        write_within_s: How long an admitted write may take; the gate closes so long before the
            lease can expire. None for a tenth of the lease, at most a minute.
    """

    lease_duration_s: int = 3600
    heartbeat_s: float = 10.0
    jitter: float = 0.04
    report_again_s: float = 600.0
    retry_s: float = 1.0
    not_a_member_s: float = 0.1
    call_timeout_s: float = 10.0
    write_within_s: float | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.lease_duration_s <= _MAX_LEASE_S:
            seen = self.lease_duration_s
            raise ValueError(f"a lease of {seen} s is not from 1 to {_MAX_LEASE_S} s")
        if not 0 <= self.jitter < 1:
            raise ValueError(f"a jitter of {self.jitter} is not a share below 1")
        if not 0 <= self.margin_s < self.lease_duration_s:
            raise ValueError(
                f"writes of {self.margin_s} s do not fit into a lease of {self.lease_duration_s} s"
            )
        waits = (self.heartbeat_s, self.report_again_s, self.retry_s, self.not_a_member_s)
        if min(*waits, self.call_timeout_s) <= 0:
            raise ValueError("every wait must be positive")

    @property
    def margin_s(self) -> float:
        """How long before the possible end of the lease the gate closes."""
        if self.write_within_s is not None:
            return self.write_within_s
        return min(_LONGEST_WRITE_S, self.lease_duration_s * _WRITE_SHARE)

    @property
    def longest_wait_s(self) -> float:
        """The longest call and the longest interval of heartbeats."""
        return self.lease_duration_s / _HEARTBEATS_A_LEASE


DEFAULT_TIMING = Timing()


class ReporterEnded(DiscoveryError):
    """The reporter has ended or has not begun, so no report will be acknowledged."""


@dataclass(frozen=True, slots=True)
class _FailedReport:
    """A report with an unknown result, and until when the service may still carry it out."""

    resources: tuple[StoredResource, ...]
    until: float


@dataclass(frozen=True, slots=True)
class _Lease:
    """The identity of a lease and of the state of the store.

    Attributes:
        uid: Differs after the server has joined anew, even if that answer was lost.
        created: The same for services without a uid, in seconds.
        transitions: Greater after another process has held the lease, and reported with our
            identity.
        revision: Not greater than before if the store was restored, which the report may predate.
    """

    uid: str = ""
    created: int = 0
    transitions: int = 0
    revision: int = 0

    @classmethod
    def of(cls, lease: lease_pb2.Lease) -> Self:
        metadata = lease.metadata
        version = metadata.resource_version
        return cls(
            metadata.uid,
            metadata.creation_timestamp.seconds,
            lease.spec.lease_transitions,
            int(version) if version.isdecimal() else 0,
        )

    def is_before(self, other: "_Lease") -> bool:
        return 0 < self.revision <= other.revision


class StorageVersionReporter:
    """Sends heartbeats and reports, and implements the write gate.

    Use it as an asynchronous context manager around everything that serves requests. When the body
    ends, the gate closes and the server departs, so all writes must have ended by then. Any thread
    may use the gate, only the event loop everything else.

    The gate opens when a report of all resources is acknowledged. It closes when
    - the server has joined anew, as entries of servers that are not members are removed;
    - another process has held the lease;
    - the revision of the store goes back, as after a restored backup;
    - the lease may have expired because no heartbeat was acknowledged.
    It opens again with the next acknowledged report. A shorter outage of the service changes
    nothing.

    Args:
        target: Addresses of the service as `host:port`, tried in turn; or a channel; or
            `ServiceChannels`, for TLS and tokens.
        hostname: Identifies the server among those of its component, across restarts. No two
            processes may use one at the same time, such as the workers of a server: each would
            overwrite the reports of the other.
        resources: The resources that the server stores.
        component: The kind of API server; empty for kube-apiserver.
        timing: Intervals and timeouts.
        clock: Monotonic clock in seconds.

    Raises:
        ValueError: There is no hostname, or no address.
    """

    def __init__(  # noqa: PLR0913 - keyword-only
        self,
        target: Target | ServiceChannels,
        *,
        hostname: str,
        resources: Iterable[StoredResource],
        component: str = "",
        timing: Timing = DEFAULT_TIMING,
        clock: Clock = boot_clock,
    ) -> None:
        if not hostname:
            raise ValueError("no hostname is given: it tells this server from the others")
        self._service = target if isinstance(target, ServiceChannels) else ServiceChannels(target)
        self._timing = timing
        self._timeout_s = min(timing.call_timeout_s, timing.longest_wait_s)
        trusted_s = timing.lease_duration_s - timing.margin_s
        self._membership = Membership(resources, trusted_s, clock)
        self._heartbeat = storage_version_pb2.HeartbeatRequest(
            hostname=hostname,
            component=component,
            instance=str(uuid.uuid4()),
            lease_duration=Duration(seconds=timing.lease_duration_s),
        )
        self._api_server_id: str | None = None
        self._lease = _Lease()
        self._failed: _FailedReport | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._report_now = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def api_server_id(self) -> str | None:
        """The identity of the server; None until the first heartbeat is acknowledged."""
        return self._api_server_id

    @property
    def confirmed(self) -> bool:
        """Whether all resources have been reported in this membership: nothing is refused."""
        return self._membership.gate().confirmed

    @property
    def was_confirmed(self) -> bool:
        """Whether that has been the case at any time."""
        return self._membership.gate().was_confirmed

    @property
    def last_error(self) -> str | None:
        """The error of the last report, or else of the last heartbeat."""
        return self._membership.gate().last_error

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Return the refusal of a request; None if it is admitted."""
        return self._membership.gate().refusal(attributes)

    def update_resources(self, resources: Iterable[StoredResource]) -> None:
        """Replace the resources that the server stores: an upgrade in place.

        The gate closes at once for resources that are new or are written in another version, and
        opens when a report of them is acknowledged. Writes admitted before must have ended.
        """
        self._membership.update(resources)
        self._report_now.set()
        self._notify()

    async def wait_joined(self) -> str:
        """Wait until the server is a member, and return its identity.

        Raises:
            ReporterEnded: The reporter has ended before.
        """
        async for _ in self.changes():
            if self._membership.is_member and self._api_server_id is not None:
                return self._api_server_id
        raise ReporterEnded("the reporter has ended before the server became a member")

    async def wait_confirmed(self) -> None:
        """Wait until the gate is open.

        Raises:
            ReporterEnded: The reporter has ended before.
        """
        async for _ in self.changes():
            if self.confirmed:
                return
        raise ReporterEnded("the reporter has ended before its report was acknowledged")

    async def changes(self) -> AsyncGenerator[bool]:
        """Yield whether the gate is open, now and after each possible change, until the end.

        A slow reader misses states in between.
        """
        while self._tasks and not self._ended.is_set():
            changed = self._changed
            yield self.confirmed
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._membership.remaining_s()):
                    await changed.wait()

    async def __aenter__(self) -> Self:
        if self._tasks or self._ended.is_set():
            raise RuntimeError("a reporter can be entered once; make another one")
        self._service.open()
        loops = (self._keep_alive(), self._keep_reported())
        self._tasks = [asyncio.create_task(loop) for loop in loops]
        for task in self._tasks:
            task.add_done_callback(self._has_ended)
        return self

    def _has_ended(self, task: asyncio.Task[None]) -> None:
        """Close the gate for good after a loop has failed; `__aexit__` raises the error."""
        if not task.cancelled() and task.exception() is not None:
            self._membership.end()
            self._ended.set()
            self._notify()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the gate, wait for calls in progress, and depart."""
        self._membership.end()
        self._ended.set()
        self._beat_now.set()
        self._report_now.set()
        self._notify()
        try:
            # A cancelled heartbeat might still be carried out, after the departure.
            await asyncio.wait(self._tasks, timeout=_END_S)
            if self._api_server_id is not None:
                await self._depart()
        finally:
            try:
                await self._stop_tasks()
            finally:
                self._membership.end()
                await self._service.close()

    async def _stop_tasks(self) -> None:
        for task in self._tasks:
            task.cancel()
        for ended in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def _keep_alive(self) -> None:
        while not self._ended.is_set():
            self._beat_now.clear()
            wait_s = await self._beat()
            await self._pause(self._beat_now, wait_s)

    async def _beat(self) -> float:
        """Send a heartbeat; return the pause before the next one."""
        sent_at = self._membership.clock()
        try:
            answer = await self._service.call(
                lambda stub: stub.Heartbeat, self._heartbeat, self._timeout_s
            )
        except DiscoveryError as error:
            self._warn("heartbeat", error)
            self._membership.beat_failed(str(error))
            if _is_failed_precondition(error):  # superseded
                self._membership.end()
            self._notify()
            return self._timing.retry_s
        self._handle(answer, sent_at)
        return self._until_next_beat(answer)

    def _handle(self, answer: storage_version_pb2.HeartbeatResponse, sent_at: float) -> None:
        """Handle the answer to a heartbeat."""
        before, self._lease = self._lease, _Lease.of(answer.lease)
        self._api_server_id = answer.api_server_id
        is_new = answer.joined or self._lease.is_before(before)
        if before.uid and before.transitions < self._lease.transitions:
            _log.warning(
                "another process is %s too: no two may share a hostname", answer.api_server_id
            )
        lease = self._lease
        name = f"{lease.uid} {lease.created} {lease.transitions}"
        if self._membership.beat(sent_at, name, joined=is_new):
            _log.info("joined as %s", answer.api_server_id)
            self._report_now.set()
        self._notify()

    def _until_next_beat(self, answer: storage_version_pb2.HeartbeatResponse) -> float:
        wanted_s = answer.renew_after.ToNanoseconds() / 1e9 or self._timing.heartbeat_s
        wait_s = min(wanted_s, self._timing.longest_wait_s)
        jitter = self._timing.jitter
        return wait_s * random.uniform(1 - jitter, 1 + jitter)  # noqa: S311 - it only spreads load

    async def _keep_reported(self) -> None:
        while not self._ended.is_set():
            self._report_now.clear()
            wait_s = await self._report() if self._membership.is_member else None
            await self._pause(self._report_now, wait_s)

    async def _report(self) -> float:
        """Send a report; return the pause before the next one."""
        await self._wait_for_failed()
        sent = self._membership.begin_report()
        request = storage_version_pb2.ReportRequest(
            api_server_id=self._api_server_id or "",
            resources=[resource.message() for resource in sent.resources],
            instance=self._heartbeat.instance,
        )
        try:
            await self._service.call(
                lambda stub: stub.Report,
                request,
                self._timeout_s,
                lambda: self._note_failed(sent),
            )
        except DiscoveryError as error:
            return self._report_failed(error)
        was_confirmed = self.confirmed
        if self._membership.confirm(sent) and not was_confirmed:
            _log.info("reported %s", _written(sent.resources))
        self._notify()
        return self._timing.report_again_s if self.confirmed else self._timing.retry_s

    def _report_failed(self, error: DiscoveryError) -> float:
        self._warn("report", error)
        self._membership.report_failed(str(error))
        wait_s = self._timing.retry_s
        if _is_failed_precondition(error):  # not a member
            self._membership.end()
            self._beat_now.set()
            wait_s = self._timing.not_a_member_s
        self._notify()
        return wait_s

    def _note_failed(self, sent: SentReport) -> None:
        """Note that a report may still be carried out, even after a later successful one."""
        self._failed = _FailedReport(sent.resources, self._membership.clock() + self._timeout_s)

    async def _wait_for_failed(self) -> None:
        """Wait until a failed report of other versions cannot overwrite the next report."""
        failed = self._failed
        if failed and _versions(failed.resources) != _versions(self._membership.resources):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, failed.until - self._membership.clock())):
                    await self._ended.wait()

    async def _pause(self, wake: asyncio.Event, seconds: float | None) -> None:
        """Wait for an event, a timeout or the end, but at least `_SHORTEST_WAIT_S`."""
        await self._wait(self._ended, _SHORTEST_WAIT_S)
        left_s = None if seconds is None else max(0.0, seconds - _SHORTEST_WAIT_S)
        await self._wait(wake, left_s)

    async def _wait(self, event: asyncio.Event, seconds: float | None) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()

    async def _depart(self) -> None:
        request = storage_version_pb2.DepartRequest(
            api_server_id=self._api_server_id or "", instance=self._heartbeat.instance
        )
        timeout_s = min(self._timeout_s, _END_S)
        try:
            await self._service.call(lambda stub: stub.Depart, request, timeout_s)
        except DiscoveryError as error:
            self._warn("departure", error)
        else:
            _log.info("departed")

    def _warn(self, what: str, error: DiscoveryError) -> None:
        """Log an error unless it equals the last one."""
        if str(error) != self.last_error:
            _log.warning("%s failed: %s", what, error)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _is_failed_precondition(error: DiscoveryError) -> bool:
    return isinstance(error, CallRefused) and error.code == grpc.StatusCode.FAILED_PRECONDITION


def _written(resources: Iterable[StoredResource]) -> str:
    return ", ".join(f"{r.group_resource} in {r.encoding_version}" for r in resources)


def _versions(resources: Iterable[StoredResource]) -> set[tuple[str, str, str]]:
    return {(r.group, r.resource, r.encoding_version) for r in resources}
