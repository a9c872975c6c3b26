"""Waiting until something is served: what is waited for, whether it is there, and pauses."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client._sans_io.clock import Clock
from apidiscovery_client._sans_io.memory import Memory
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
    """What is waited for: a name as in `resolve`, a kind, or a whole group-version."""

    wanted: str | GroupVersion | GroupVersionKind

    def missing_in(self, memory: Memory) -> str:
        """Return why it is not there by what is known now; empty when it is."""
        error, snapshot = memory.error, memory.latest
        if error is not None:
            return str(error)
        if snapshot is None:
            return "no answer yet"
        if isinstance(self.wanted, str):
            return self._missing_name(memory, snapshot, self.wanted)
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

    def _missing_name(self, memory: Memory, snapshot: Snapshot, name: str) -> str:
        try:
            return _not_current(memory.resolver(snapshot).resolve(name).freshness)
        except (NotServed, AmbiguousResource) as error:
            return str(error)

    def found_in(self, memory: Memory) -> "Resolution | Version":
        """Return what was waited for; raise `DiscoveryError` when it has gone meanwhile."""
        snapshot, wanted = memory.answer(), self.wanted
        resolver = memory.resolver(snapshot)
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
    """Yield how long to wait before each next look, in seconds, the last one at the deadline."""
    pause_s = _FIRST_PAUSE_S
    while True:
        yield max(min(pause_s, deadline - clock.monotonic()), 0.0)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
