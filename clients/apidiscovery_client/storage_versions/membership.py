"""The state of a membership, and the gate derived from it.

No I/O and no tasks: the reporter passes in what happened, and any thread may read the gate.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from apidiscovery_client.storage_versions.gate import GroupResource, StoredResource, WriteGate

Clock = Callable[[], float]


def boot_clock() -> float:
    """Return monotonic seconds that, where possible, include the time the system was suspended.

    A server must notice that it was suspended beyond its lease; CLOCK_MONOTONIC of Linux stops.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class SentReport:
    """A report in progress, and its membership."""

    membership: int
    resources: tuple[StoredResource, ...]


@dataclass(frozen=True, slots=True)
class _State:
    """The whole state; replaced as one, so that other threads see a consistent one.

    Attributes:
        resources: The resources that the server stores.
        membership: Incremented when earlier reports become invalid; 0 before the first heartbeat.
        is_member: Whether the service has said so last.
        lease: Identifies the lease; empty when unknown.
        trusted_until: Until then the lease cannot have expired, by the clock.
        reported: Whether a report has been acknowledged in this membership.
        encodings: The encoding versions acknowledged in this membership.
        was_confirmed: Whether all resources had been acknowledged at any time.
        heartbeat_error: The error of the last heartbeat.
        report_error: The error of the last report.
    """

    resources: tuple[StoredResource, ...]
    membership: int = 0
    is_member: bool = False
    lease: str = ""
    trusted_until: float = float("-inf")
    reported: bool = False
    encodings: Mapping[GroupResource, str] = field(default_factory=dict[GroupResource, str])
    was_confirmed: bool = False
    heartbeat_error: str | None = None
    report_error: str | None = None

    def pending(self) -> tuple[StoredResource, ...]:
        """Return the resources whose encoding version has not been acknowledged."""
        encodings = self.encodings
        return tuple(
            r for r in self.resources if encodings.get(r.group_resource) != r.encoding_version
        )


@dataclass(frozen=True, slots=True)
class _Gates:
    """The gate until a time and the gate after it; computed once, read often."""

    trusted: WriteGate
    until: float
    lapsed: WriteGate


class Membership:
    """Tracks heartbeats and reports, and derives the gate.

    Args:
        resources: The resources that the server stores.
        trusted_s: Time after sending a heartbeat during which the server is certainly a member.
        clock: Monotonic clock in seconds.
    """

    def __init__(
        self,
        resources: Iterable[StoredResource],
        trusted_s: float,
        clock: Clock = boot_clock,
    ) -> None:
        self._trusted_s = trusted_s
        self.clock = clock
        self._set(_State(tuple(resources)))

    @property
    def is_member(self) -> bool:
        """Whether the server is a member by the last answer of the service."""
        return self._state.is_member

    @property
    def resources(self) -> tuple[StoredResource, ...]:
        """The resources that the server stores."""
        return self._state.resources

    def gate(self) -> WriteGate:
        """Return the current gate."""
        gates = self._gates
        return gates.trusted if self.clock() < gates.until else gates.lapsed

    def _set(self, state: _State) -> None:
        """Replace the state and the gates; the assignment makes them visible to other threads."""
        pending = state.pending()
        open_ = state.reported and not pending
        self._state = state
        self._gates = _Gates(
            _gate(state, pending, confirmed=open_),
            state.trusted_until,
            _gate(state, state.resources, confirmed=False),
        )

    def remaining_s(self) -> float | None:
        """Return the seconds until the gate closes unless renewed; None when it is closed."""
        state = self._state
        left = state.trusted_until - self.clock()
        return left if state.reported and left > 0 else None

    def beat(self, sent_at: float, lease: str, *, joined: bool) -> bool:
        """Handle the answer to a heartbeat; return whether to report now.

        Args:
            sent_at: When it was sent, by the clock; the duration of the lease starts no earlier.
            lease: Identifies the lease. A heartbeat whose answer was lost may have joined, which
                only another lease shows.
            joined: Whether the service says that the server has joined.
        """
        state = self._state
        lapsed = self.clock() >= state.trusted_until
        is_new = joined or lapsed or not state.is_member or lease != state.lease
        if is_new:
            state = _without_reports(state)
        state = replace(state, is_member=True, lease=lease, heartbeat_error=None)
        self._set(replace(state, trusted_until=sent_at + self._trusted_s))
        return is_new

    def beat_failed(self, error: str) -> None:
        """Record the error of a heartbeat."""
        self._set(replace(self._state, heartbeat_error=error))

    def begin_report(self) -> SentReport:
        """Return the report to send.

        Resources that it reports differently than before are pending from now on, whatever the
        result of the report.
        """
        state = self._state
        differing = {resource.group_resource for resource in state.pending()}
        certain = {name: v for name, v in state.encodings.items() if name not in differing}
        self._set(replace(state, encodings=certain))
        return SentReport(state.membership, state.resources)

    def confirm(self, sent: SentReport) -> bool:
        """Handle the acknowledgement of a report; return whether it is still valid.

        It is not when the membership has changed since, or may have changed.
        """
        state = self._state
        if sent.membership != state.membership or self.clock() >= state.trusted_until:
            return False
        confirmed = {r.group_resource: r.encoding_version for r in sent.resources}
        state = replace(state, reported=True, encodings=confirmed, report_error=None)
        self._set(replace(state, was_confirmed=state.was_confirmed or not state.pending()))
        return True

    def report_failed(self, error: str) -> None:
        """Record the error of a report; earlier acknowledgements remain valid."""
        self._set(replace(self._state, report_error=error))

    def end(self) -> None:
        """End the membership: the service says so, or the server departs."""
        self._set(replace(_without_reports(self._state), is_member=False))

    def update(self, resources: Iterable[StoredResource]) -> None:
        """Replace the resources that the server stores."""
        self._set(replace(self._state, resources=tuple(resources)))


def _gate(state: _State, pending: Iterable[StoredResource], *, confirmed: bool) -> WriteGate:
    return WriteGate(
        confirmed=confirmed,
        pending=frozenset(name for resource in pending for name in resource.names()),
        last_error=state.report_error or state.heartbeat_error,
        was_confirmed=state.was_confirmed,
    )


def _without_reports(state: _State) -> _State:
    return replace(
        state,
        membership=state.membership + 1,
        reported=False,
        encodings={},
        trusted_until=float("-inf"),
    )
