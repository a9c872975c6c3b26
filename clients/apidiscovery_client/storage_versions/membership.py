"""What an API server may believe of its membership and of what has been recorded of it.

No I/O and no tasks: what happened is told, and the gate that follows from it is asked for, from
any thread.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from apidiscovery_client.storage_versions.gate import WriteGate
from apidiscovery_client.storage_versions.resources import GroupResource, StoredResource

Clock = Callable[[], float]


def boot_clock() -> float:
    """Return seconds that never go back and, where the system can, go on while it sleeps.

    A server that slept through its lease must know that; CLOCK_MONOTONIC of Linux stands still.
    """
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


@dataclass(frozen=True, slots=True)
class SentReport:
    """A report that is under way, and the membership for which it is made."""

    membership: int
    resources: tuple[StoredResource, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    """Everything at one moment; replaced whole, so that other threads see no half of it.

    Attributes:
        membership: Counts up whenever earlier reports stop counting; 0: no member yet.
        lease: Tells one lease from another of the same name; empty when it is not known.
        trusted_until: When the lease may be over for all that is known, by the clock.
        encodings: What has been confirmed in this membership.
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
        """Return what would be written in a version that has not been confirmed."""
        encodings = self.encodings
        return tuple(
            r for r in self.resources if encodings.get(r.group_resource) != r.encoding_version
        )


@dataclass(frozen=True, slots=True)
class _Gates:
    """What the gate is until a certain time and what it is afterwards; made once, asked often."""

    trusted: WriteGate
    until: float
    lapsed: WriteGate


class Membership:
    """Follows heartbeats and reports, and derives the gate.

    Args:
        resources: What the server stores.
        trusted_s: How long after a heartbeat was sent the server is surely still a member.
        clock: In seconds; never goes back.
    """

    def __init__(
        self,
        resources: Iterable[StoredResource],
        trusted_s: float,
        clock: Clock = boot_clock,
    ) -> None:
        self._trusted_s = trusted_s
        self.clock = clock
        self._keep(_Known(tuple(resources)))

    @property
    def is_member(self) -> bool:
        """Whether the service has said so and has not taken it back."""
        return self._known.is_member

    @property
    def resources(self) -> tuple[StoredResource, ...]:
        """Return what the server stores."""
        return self._known.resources

    def gate(self) -> WriteGate:
        """Return the gate of this moment."""
        gates = self._gates
        return gates.trusted if self.clock() < gates.until else gates.lapsed

    def _keep(self, known: _Known) -> None:
        """Go on from here; one assignment makes it visible to other threads."""
        pending = known.pending()
        open_ = known.reported and not pending
        self._known = known
        self._gates = _Gates(
            _gate(known, pending, confirmed=open_),
            known.trusted_until,
            _gate(known, known.resources, confirmed=False),
        )

    def remaining_s(self) -> float | None:
        """Return in how many seconds the gate closes by itself; None when it is closed."""
        known = self._known
        left = known.trusted_until - self.clock()
        return left if known.reported and left > 0 else None

    def beat(self, sent_at: float, lease: str, *, joined: bool) -> bool:
        """Take the answer to a heartbeat; return whether to report now.

        Args:
            sent_at: When it was sent, by the clock: the lease lasts at least from then.
            lease: What tells the lease from another one of the same name. A heartbeat whose
                answer was lost may have joined, and the next one does not say so.
            joined: What the service says.
        """
        known = self._known
        lapsed = self.clock() >= known.trusted_until
        is_new = joined or lapsed or not known.is_member or lease != known.lease
        if is_new:
            known = _without_reports(known)
        known = replace(known, is_member=True, lease=lease, heartbeat_error=None)
        self._keep(replace(known, trusted_until=sent_at + self._trusted_s))
        return is_new

    def beat_failed(self, error: str) -> None:
        """Keep what went wrong with a heartbeat."""
        self._keep(replace(self._known, heartbeat_error=error))

    def begin_report(self) -> SentReport:
        """Return what to report.

        From here on nothing is certain of what is reported otherwise than before, whatever
        becomes of the report.
        """
        known = self._known
        differing = {resource.group_resource for resource in known.pending()}
        certain = {name: v for name, v in known.encodings.items() if name not in differing}
        self._keep(replace(known, encodings=certain))
        return SentReport(known.membership, known.resources)

    def confirm(self, sent: SentReport) -> bool:
        """Take the acknowledgement of a report; return whether it still counts.

        It does not when the membership for which it was made is not, or may not be, the same.
        """
        known = self._known
        if sent.membership != known.membership or self.clock() >= known.trusted_until:
            return False
        confirmed = {r.group_resource: r.encoding_version for r in sent.resources}
        known = replace(known, reported=True, encodings=confirmed, report_error=None)
        self._keep(replace(known, was_confirmed=known.was_confirmed or not known.pending()))
        return True

    def report_failed(self, error: str) -> None:
        """Keep what went wrong with a report; what was confirmed before still stands."""
        self._keep(replace(self._known, report_error=error))

    def end(self) -> None:
        """Be no member any more: the service says so, or the server is going to depart."""
        self._keep(replace(_without_reports(self._known), is_member=False))

    def update(self, resources: Iterable[StoredResource]) -> None:
        """Store other resources, or the same in other versions, from now on."""
        self._keep(replace(self._known, resources=tuple(resources)))


def _gate(known: _Known, pending: Iterable[StoredResource], *, confirmed: bool) -> WriteGate:
    return WriteGate(
        confirmed=confirmed,
        pending=frozenset(name for resource in pending for name in resource.names()),
        last_error=known.report_error or known.heartbeat_error,
        was_confirmed=known.was_confirmed,
    )


def _without_reports(known: _Known) -> _Known:
    return replace(
        known,
        membership=known.membership + 1,
        reported=False,
        encodings={},
        trusted_until=float("-inf"),
    )
