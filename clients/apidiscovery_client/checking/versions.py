"""Where a kind is served, until which release of Kubernetes, and what replaces it."""

import functools
from dataclasses import dataclass

from apidiscovery_client.model import CURRENT, GroupVersion, GroupVersionKind, Resource, Snapshot
from apidiscovery_client.snapshots.releases import known_groups, known_releases, release


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The releases of Kubernetes that serve a built-in kind by default.

    Attributes:
        first: The first one, such as `1.16`.
        last: The last one; empty where the newest known release serves it.
    """

    first: str
    last: str


class ServedKinds:
    """The kinds of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._failures = snapshot.failures
        self._resources = dict[GroupVersionKind, Resource]()
        self._by_kind = dict[str, list[Resource]]()
        self._doubtful = dict[GroupVersion, str]()
        for version in snapshot.versions:
            if version.freshness != CURRENT:
                reason = getattr(version.freshness, "reason", "")
                self._doubtful[version.gv] = reason or "it is stale"
            for resource in version.resources:
                gvk = GroupVersionKind(version.gv.group, version.gv.version, resource.kind)
                self._resources.setdefault(gvk, resource)
                self._by_kind.setdefault(resource.kind, []).append(resource)

    def resource(self, gvk: GroupVersionKind) -> Resource | None:
        """Return the resource of a kind; None where it is not served."""
        return self._resources.get(gvk)

    def doubt(self, gvk: GroupVersionKind) -> str:
        """Return why it is not known whether a kind is served; empty where that is known."""
        part = "/apis" if gvk.group else "/api"
        found = self._doubtful.get(GroupVersion(gvk.group, gvk.version), "")
        return found or self._failures.get(part, "")

    def versions_of_group(self, gvk: GroupVersionKind) -> bool:
        """Tell whether the kind's group has the version at all."""
        return any(
            (known.group, known.version) == (gvk.group, gvk.version) for known in self._resources
        )

    def replacement(self, gvk: GroupVersionKind) -> str:
        """Return the group-version that serves the same kind, preferred first; empty for none.

        Another group counts only where both are groups of Kubernetes, as elsewhere equal names mean
        nothing.
        """
        found = self._by_kind.get(gvk.kind, [])
        own = next((one for one in found if one.gv.group == gvk.group), None)
        if own is not None:
            return str(own.gv)
        if gvk.group not in known_groups():
            return ""
        other = next((one for one in found if one.gv.group in known_groups()), None)
        return str(other.gv) if other else ""


@functools.cache
def _kinds_of(name: str) -> ServedKinds:
    return ServedKinds(release(name))


@functools.cache
def lifetime(gvk: GroupVersionKind) -> Lifetime | None:
    """Return which releases serve a kind; None for a kind that none of them serves."""
    if gvk.group not in known_groups():
        return None
    releases = known_releases()
    serving = [name for name in releases if _kinds_of(name).resource(gvk)]
    if not serving:
        return None
    return Lifetime(serving[0], "" if serving[-1] == releases[-1] else serving[-1])


def replaced_after(gvk: GroupVersionKind, last: str) -> str:
    """Return what serves a kind in the release after its last one; empty for nothing."""
    releases = known_releases()
    return _kinds_of(releases[releases.index(last) + 1]).replacement(gvk)


def following(last: str) -> str:
    """Return the release after one, such as `1.25`."""
    major, _, minor = last.partition(".")
    return f"{major}.{int(minor) + 1}"
