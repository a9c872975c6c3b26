"""Following a server: waiting for a resource, and the changes for a watcher."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apidiscovery_client._errors import AmbiguousResource, NotServed, ServerUnreachable
from apidiscovery_client._sans_io.client_state import ClientState
from apidiscovery_client._sans_io.options import Clock
from apidiscovery_client.changes import Change, changes
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    GroupVersion,
    GroupVersionKind,
    Snapshot,
    Version,
)

if TYPE_CHECKING:  # imported when the first name is resolved
    from apidiscovery_client.resolving import Resolution

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What `wait_for` waits for: a name as in `resolve`, a kind, or a group-version."""

    wanted: str | GroupVersion | GroupVersionKind

    def missing_in(self, state: ClientState) -> str:
        """Return why it is not served yet, by the current state; empty when it is."""
        error, snapshot = state.error, state.latest
        if error is not None:
            return str(error)
        if snapshot is None:
            return "no answer yet"
        if isinstance(self.wanted, str):
            return self._missing_name(state, snapshot, self.wanted)
        gv = GroupVersion(self.wanted.group, self.wanted.version)
        version = snapshot.version(gv)
        return self._missing_of(version) if version else _absence(snapshot, gv)

    def _missing_of(self, version: Version) -> str:
        if version.freshness != CURRENT:
            return _not_current(version.freshness)
        if isinstance(self.wanted, GroupVersionKind):
            kinds = {found.kind for found in version.resources}
            return "" if self.wanted.kind in kinds else f"{version.gv} is served without that kind"
        return ""

    def _missing_name(self, state: ClientState, snapshot: Snapshot, name: str) -> str:
        try:
            return _not_current(state.resolver(snapshot).resolve(name).freshness)
        except (NotServed, AmbiguousResource) as error:
            return str(error)

    def found_in(self, state: ClientState) -> "Resolution | Version":
        """Return what was waited for; raise `DiscoveryError` when it is no longer served."""
        snapshot, wanted = state.answer(), self.wanted
        resolver = state.resolver(snapshot)
        if isinstance(wanted, str):
            return resolver.resolve(wanted)
        if isinstance(wanted, GroupVersionKind):
            return resolver.resolve_kind(wanted.kind, wanted.group, wanted.version)
        version = snapshot.version(wanted)
        if version is None:
            raise NotServed(str(wanted), checked_at=snapshot.checked_at)
        return version


def _absence(snapshot: Snapshot, gv: GroupVersion) -> str:
    if snapshot.failures:
        return ", ".join(f"{path}: {why}" for path, why in snapshot.failures.items())
    group = snapshot.group(gv.group)
    if group is None:
        return "the group is not served"
    return f"the group is served in {', '.join(version.name for version in group.versions)}"


def _not_current(freshness: Freshness) -> str:
    return "" if freshness == CURRENT else f"not current: {getattr(freshness, 'reason', '')}"


def growing_pauses(clock: Clock, deadline: float) -> Iterator[float]:
    """Yield the pauses between requests in seconds, the last one up to the deadline."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield max(min(pause_s, deadline - clock.monotonic()), 0.0)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


# A server sends a heartbeat every 30 s (WatchDiscoveryRequest.heartbeat_interval).
PUSH_SILENCE_S = 90.0
_POLL_SLACK_S = 1.0
_JITTER = 0.1


def silence_s(interval_s: float, *, is_pushed: bool) -> float:
    """Return how long after an answer or heartbeat the snapshot counts as current."""
    return PUSH_SILENCE_S if is_pushed else 2 * interval_s + _POLL_SLACK_S


def jittered_pauses(interval_s: float) -> Iterator[float]:
    """Yield the interval with jitter, so that clients do not ask at the same time."""
    while True:
        yield interval_s * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311 - no secret


class Follower:
    """Tracks which changes one watcher has received.

    Args:
        state: The state of the client.
        seen: The snapshot that the watcher knows; None for none.
        tells_all: Whether a watcher without a snapshot gets everything as added.
    """

    def __init__(self, state: ClientState, seen: Snapshot | None, *, tells_all: bool) -> None:
        self._state = state
        self._seen = seen
        self._is_quiet = seen is None and not tells_all

    def news(self) -> tuple[Change, ...]:
        """Return the changes since the last call.

        Raises:
            DiscoveryError: The server did not answer, and there is no snapshot.
        """
        now = self._state.latest
        if now is None:
            error = self._state.error
            raise error or ServerUnreachable("no answer", url=self._state.server)
        told = () if self._is_quiet else changes(self._seen, now)
        self._seen, self._is_quiet = now, False
        return told
