"""Waiting until something is served: what is waited for, whether it is there, and pauses."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from apidiscovery_client._errors import AmbiguousResource, NotServed
from apidiscovery_client.core.clock import Clock
from apidiscovery_client.core.memory import Memory
from apidiscovery_client.model import (
    CURRENT,
    Freshness,
    GroupVersion,
    GroupVersionKind,
    Snapshot,
    Version,
)

Wanted: TypeAlias = str | GroupVersion | GroupVersionKind

# Source: apimachinery pkg/version/helpers.go `kubeVersionRegex`.
_VERSION = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 2.0


@dataclass(frozen=True, slots=True)
class Goal:
    """What is waited for.

    Attributes:
        gv: None for a name, which may be any that can be resolved.
        kind: Empty for the whole group-version.
        may_be_name: Whether it is a name after all where there is no such group-version.
    """

    text: str
    gv: GroupVersion | None
    kind: str = ""
    may_be_name: bool = False

    @classmethod
    def of(cls, wanted: Wanted) -> "Goal":
        """Return the goal; a text such as `v1` or `apps/v1` is a group-version.

        With another version than Kubernetes has, as in `pods/log`, it may be a subresource.
        """
        if isinstance(wanted, GroupVersionKind):
            return cls(str(wanted), GroupVersion(wanted.group, wanted.version), wanted.kind)
        if isinstance(wanted, GroupVersion):
            return cls(str(wanted), wanted)
        group, slash, version = wanted.rpartition("/")
        is_usual = _VERSION.fullmatch(version) is not None
        if "/" not in group and (slash or is_usual):
            return cls(wanted, GroupVersion(group, version), may_be_name=not is_usual)
        return cls(wanted, None)

    def missing_in(self, memory: Memory) -> str:
        """Return why it is not there by what is known now; empty when it is."""
        error, snapshot = memory.error, memory.latest
        if error is not None:
            return str(error)
        if snapshot is None:
            return "no answer yet"
        version = snapshot.version(self.gv) if self.gv else None
        if self.gv is None or (self.may_be_name and version is None):
            return self._missing_name(memory, snapshot)
        return self._missing_of(version) if version else _absence(snapshot, self.gv)

    def _missing_of(self, version: Version) -> str:
        if version.freshness != CURRENT:
            return _not_current(version.freshness)
        if self.kind and all(self.kind != found.kind for found in version.resources):
            return f"{version.gv} is served without that kind"
        return ""

    def _missing_name(self, memory: Memory, snapshot: Snapshot) -> str:
        try:
            return _not_current(memory.resolver(snapshot).resolve(self.text).freshness)
        except (NotServed, AmbiguousResource) as error:
            return str(error)


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
