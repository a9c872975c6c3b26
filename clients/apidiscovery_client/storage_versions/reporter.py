"""Keeps an API server a member, and recorded what it writes, for as long as it runs.

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

from apidiscovery_client.storage_versions.gate import Refusal, RequestAttributes
from apidiscovery_client.storage_versions.membership import (
    Clock,
    Membership,
    SentReport,
    boot_clock,
)
from apidiscovery_client.storage_versions.resources import StoredResource
from apidiscovery_client.storage_versions.service_channels import (
    CallFailed,
    ServiceChannels,
    Target,
)
from apidiscovery_client.storage_versions.timing import DEFAULT_TIMING, Timing

_log = logging.getLogger(__name__)

_SHORTEST_WAIT_S = 0.1  # whatever the service answers
_END_S = 2.0  # for calls under way, and again for the departure


class ReporterEnded(RuntimeError):
    """The reporter has ended, or has not begun: nothing will be confirmed any more."""


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A report whose end is not known, and until when it may still be carried out."""

    resources: tuple[StoredResource, ...]
    until: float


@dataclass(frozen=True, slots=True)
class _Lease:
    """What tells one lease, and one life of the store, from another.

    Attributes:
        uid: Another one: the server has joined anew, though that answer was lost.
        created: For services that give out no uid, in seconds.
        transitions: More of them: somebody else has held it, and reported under our identity.
        revision: No greater one: the store is what it was before, and so may be the report.
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
    """Sends heartbeats and reports, and is the gate that follows from the answers.

    Use it as an asynchronous context manager around everything that serves requests: when the
    body ends the gate closes and the server departs, so nothing may be writing by then. The gate
    may be asked from any thread, everything else only from the event loop.

    The gate is closed until all resources have been reported; again when the service says that
    the server has joined anew, since entries of those who are no members are removed, that another
    process has held the lease, or a revision that is older than the last one; and when no
    heartbeat has been acknowledged for so long that the lease may be over. It opens with the next
    report that is acknowledged. While the service cannot be reached for a shorter time, it stays
    as it is.

    Args:
        target: Addresses of the service as `host:port`, tried in turn; or a channel; or
            `ServiceChannels`, for TLS and tokens.
        hostname: Of the machine, or whatever tells the server from others of its kind and stays
            when it is started again. No two processes may use the same one at a time, such as the
            workers of one server: each would overwrite what the other reports.
        resources: What the server stores.
        component: What kind of server it is; empty for kube-apiserver.
        timing: How often it does what.
        clock: In seconds, never goes back.

    Raises:
        ValueError: There is no hostname, or no address.
    """

    def __init__(  # noqa: PLR0913 - each is another thing to be told
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
        self._doubt: _Doubt | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._report_now = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def api_server_id(self) -> str | None:
        """By which the server is known; None until the first heartbeat is acknowledged."""
        return self._api_server_id

    @property
    def confirmed(self) -> bool:
        """Whether all resources have been reported in this membership: nothing is refused."""
        return self._membership.gate().confirmed

    @property
    def was_confirmed(self) -> bool:
        """Whether that has ever been so."""
        return self._membership.gate().was_confirmed

    @property
    def last_error(self) -> str | None:
        """What went wrong with the last report, or else with the last heartbeat."""
        return self._membership.gate().last_error

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        """Say why a request is not let through; None when it is."""
        return self._membership.gate().refusal(attributes)

    def update_resources(self, resources: Iterable[StoredResource]) -> None:
        """Store other resources, or in other versions, from now on: an upgrade in place.

        The gate closes at once for resources that are new or are written in another version, and
        opens when that has been acknowledged. Writes that it let through before must have ended.
        """
        self._membership.update(resources)
        self._report_now.set()
        self._notify()

    async def wait_joined(self) -> str:
        """Return the identity once the server is a member; raise `ReporterEnded`."""
        async for _ in self.changes():
            if self._membership.is_member and self._api_server_id is not None:
                return self._api_server_id
        raise ReporterEnded("the reporter has ended before the server became a member")

    async def wait_confirmed(self) -> None:
        """Return once the gate is open; raise `ReporterEnded`."""
        async for _ in self.changes():
            if self.confirmed:
                return
        raise ReporterEnded("the reporter has ended before its report was acknowledged")

    async def changes(self) -> AsyncGenerator[bool]:
        """Yield whether the gate is open: now, and whenever that may have changed, until the end.

        A slow reader misses states between.
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
        """Close the gate for good when a loop has failed, which leaving the reporter raises."""
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
        """Close the gate, let calls that are under way end, and depart."""
        self._membership.end()
        self._ended.set()
        self._beat_now.set()
        self._report_now.set()
        self._notify()
        try:
            # A heartbeat that is cut off may still be carried out, after the departure.
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
        """Send a heartbeat; return how long to wait for the next one."""
        sent_at = self._membership.clock()
        try:
            answer = await self._service.call(
                lambda stub: stub.Heartbeat, self._heartbeat, self._timeout_s
            )
        except CallFailed as error:
            self._warn("heartbeat", error)
            self._membership.beat_failed(str(error))
            if error.code == grpc.StatusCode.FAILED_PRECONDITION:  # another process is this one now
                self._membership.end()
            self._notify()
            return self._timing.retry_s
        self._take(answer, sent_at)
        return self._until_next_beat(answer)

    def _take(self, answer: storage_version_pb2.HeartbeatResponse, sent_at: float) -> None:
        """Take the answer to a heartbeat."""
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
        """Report; return how long to wait before doing so again."""
        await self._wait_out_doubt()
        sent = self._membership.begin_report()
        request = storage_version_pb2.ReportRequest(
            api_server_id=self._api_server_id or "",
            resources=[resource.message() for resource in sent.resources],
            instance=self._heartbeat.instance,
        )
        try:
            await self._service.call(
                lambda stub: stub.Report, request, self._timeout_s, lambda: self._doubt_of(sent)
            )
        except CallFailed as error:
            return self._report_failed(error)
        was_confirmed = self.confirmed
        if self._membership.confirm(sent) and not was_confirmed:
            _log.info("reported %s", _written(sent.resources))
        self._notify()
        return self._timing.report_again_s if self.confirmed else self._timing.retry_s

    def _report_failed(self, error: CallFailed) -> float:
        self._warn("report", error)
        self._membership.report_failed(str(error))
        wait_s = self._timing.retry_s
        if error.code == grpc.StatusCode.FAILED_PRECONDITION:  # no member
            self._membership.end()
            self._beat_now.set()
            wait_s = self._timing.not_a_member_s
        self._notify()
        return wait_s

    def _doubt_of(self, sent: SentReport) -> None:
        """Take note that a report may still be carried out, also after one that goes well."""
        self._doubt = _Doubt(sent.resources, self._membership.clock() + self._timeout_s)

    async def _wait_out_doubt(self) -> None:
        """Let a report of something else come to its end, so that it cannot overwrite the next."""
        doubt = self._doubt
        if doubt and _versions(doubt.resources) != _versions(self._membership.resources):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, doubt.until - self._membership.clock())):
                    await self._ended.wait()

    async def _pause(self, hurry: asyncio.Event, seconds: float | None) -> None:
        """Wait, but not longer than until somebody hurries or all ends; and never for nothing.

        Args:
            hurry: Set when there is reason to go on.
            seconds: None for as long as it takes.
        """
        await self._wait(self._ended, _SHORTEST_WAIT_S)
        left_s = None if seconds is None else max(0.0, seconds - _SHORTEST_WAIT_S)
        await self._wait(hurry, left_s)

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
        except CallFailed as error:
            self._warn("departure", error)
        else:
            _log.info("departed")

    def _warn(self, what: str, error: CallFailed) -> None:
        """Log an error, unless it is the one that was seen last."""
        if str(error) != self.last_error:
            _log.warning("%s failed: %s", what, error)

    def _notify(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _written(resources: Iterable[StoredResource]) -> str:
    return ", ".join(f"{r.group_resource} in {r.encoding_version}" for r in resources)


def _versions(resources: Iterable[StoredResource]) -> set[tuple[str, str, str]]:
    return {(r.group, r.resource, r.encoding_version) for r in resources}
