"""What a fake API server serves and what is wrong with it, as one frozen fact."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from apidiscovery_client.model import Group, GroupVersion, Version
from apidiscovery_client.testing._releases import Release

T = TypeVar("T")

ANY_PATH = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """What is answered instead.

    Attributes:
        body: None for what Kubernetes says with that status.
        retry_after_s: What Retry-After says; None for no such header.
        left: How many more requests it is for; None for all.
    """

    status: int
    body: bytes | None = None
    content_type: str = "text/plain; charset=utf-8"
    retry_after_s: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that an answer depends on, beside the request.

    Where something is said by path, it is without a slash at the end, and `ANY_PATH` means all
    paths of which nothing else is said.

    Attributes:
        groups: In the order in which they are listed.
        releases: By path, `/api` and `/apis`, where that is another than `release`.
        failures: What is answered instead, by path.
        stale: Versions that the aggregated documents call stale, and whether with resources.
        delays: Seconds before an answer, by path.
        truncated: Paths whose answers break off in the middle.
        garbled: Paths whose answers are not what their Content-Type says.
        drops_accept: Whether requests are taken as if they had no Accept.
        is_never_modified: Whether each request for `/api` and `/apis` is answered by 304.
    """

    groups: tuple[Group, ...]
    release: Release
    releases: Mapping[str, Release] = field(default_factory=dict[str, Release])
    failures: Mapping[str, Failure] = field(default_factory=dict[str, Failure])
    stale: Mapping[GroupVersion, bool] = field(default_factory=dict[GroupVersion, bool])
    delays: Mapping[str, float] = field(default_factory=dict[str, float])
    truncated: frozenset[str] = frozenset()
    garbled: frozenset[str] = frozenset()
    refuses_aggregated: bool = False
    drops_accept: bool = False
    is_unauthorized: bool = False
    is_never_modified: bool = False

    def release_at(self, path: str) -> Release:
        """Return the release that answers for `/api` or `/apis`."""
        return self.releases.get(path, self.release)

    def delay_at(self, path: str) -> float:
        """Return how many seconds an answer is held back."""
        return self.delays.get(path, self.delays.get(ANY_PATH, 0.0))

    def group(self, name: str) -> Group | None:
        """Return the group of that name, the core group for the empty string."""
        return next((found for found in self.groups if found.name == name), None)

    def aggregated_groups(self, path: str) -> tuple[Group, ...]:
        """Return what the aggregated document of `/api` or `/apis` lists."""
        is_dated = self.release_at(path).writes_creation
        return tuple(
            _dated(self._as_listed(group)) if is_dated else self._as_listed(group)
            for group in self.groups
            if (not group.name) == (path == "/api")
        )

    def healthy(self) -> "State":
        """Return the same server with nothing wrong with it."""
        return State(self.groups, self.release, self.releases)

    def without_faults_at(self, paths: Iterable[str], gvs: Iterable[GroupVersion]) -> "State":
        """Return the same server with nothing wrong with these paths and group-versions."""
        mended, known = frozenset(paths), frozenset(gvs)
        return replace(
            self,
            failures=_without(self.failures, mended),
            delays=_without(self.delays, mended),
            stale={gv: told for gv, told in self.stale.items() if gv not in known},
            truncated=self.truncated - mended,
            garbled=self.garbled - mended,
        )

    def _as_listed(self, group: Group) -> Group:
        if not any(version.gv in self.stale for version in group.versions):
            return group
        return replace(group, versions=tuple(map(self._version_as_listed, group.versions)))

    def _version_as_listed(self, version: Version) -> Version:
        with_resources = self.stale.get(version.gv)
        if with_resources is None:
            return version
        resources = version.resources if with_resources else ()
        return replace(version, resources=resources, stated_freshness="Stale")


def _dated(group: Group) -> Group:
    """Return the group as k8s.io/api wrote its metadata before 0.34."""
    return replace(group, extra={**group.extra, "metadata": {"creationTimestamp": None}})


def _without(faults: Mapping[str, T], paths: frozenset[str]) -> dict[str, T]:
    return {path: fault for path, fault in faults.items() if path not in paths}
