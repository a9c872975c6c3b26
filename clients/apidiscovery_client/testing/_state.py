"""The state of a fake API server: its groups, its release and its faults."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import apidiscovery_releases
from apidiscovery_releases import wire_versions

from apidiscovery_client.model import Group, GroupVersion, Snapshot, Version
from apidiscovery_client.testing.building import builtin_groups

DEFAULT_RELEASE = apidiscovery_releases.newest().name

_OMITS_CREATION_FROM = 34  # ObjectMeta.creationTimestamp is `omitzero` since k8s.io/api 0.34


@dataclass(frozen=True, slots=True)
class Release:
    """A minor release of Kubernetes 1."""

    minor: int

    @property
    def aggregated_versions(self) -> tuple[str, ...]:
        """Return the versions of the aggregated document that it has by default."""
        return wire_versions(self.minor)

    @property
    def writes_creation(self) -> bool:
        """Whether groups have a `creationTimestamp` of null in aggregated documents."""
        return self.minor < _OMITS_CREATION_FROM

    @property
    def version_document(self) -> dict[str, str]:
        """Return the document of `/version`: as recorded, else as a release build has it."""
        if (name := f"1.{self.minor}") in apidiscovery_releases.releases():
            return apidiscovery_releases.Release(name).version
        return {
            "major": "1",
            "minor": str(self.minor),
            "gitVersion": f"v1.{self.minor}.0",
            "gitCommit": "",
            "gitTreeState": "clean",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": "",
            "compiler": "gc",
            "platform": "linux/amd64",
        }


def parse_release(text: str) -> Release:
    """Return the release of a name such as `1.30`.

    Raises:
        ValueError: There is none.
    """
    return Release(apidiscovery_releases.minor_of(text))


# Groups, a snapshot, or the file of a saved one.
Serves: TypeAlias = Iterable[Group] | Snapshot | str | os.PathLike[str]


def read_groups(serves: Serves | None, release: Release) -> tuple[Group, ...]:
    """Return the groups to serve; for None those that are built into a release of Kubernetes.

    For an unknown release these are the groups of the nearest known one.

    Raises:
        InvalidConfiguration: A file is not a snapshot.
    """
    if serves is None:
        from apidiscovery_client.snapshots.releases import known_releases  # noqa: PLC0415 - as below

        known = [apidiscovery_releases.minor_of(name) for name in known_releases()]
        return builtin_groups(f"1.{min(max(release.minor, known[0]), known[-1])}")
    if isinstance(serves, Snapshot):
        return serves.groups
    if isinstance(serves, (str, os.PathLike)):
        from apidiscovery_client.snapshots.file import load  # noqa: PLC0415 - only for saved ones

        path = Path(serves)
        return load(path.read_bytes(), str(path)).groups
    return tuple(serves)


def added(groups: tuple[Group, ...], more: Iterable[Group]) -> tuple[Group, ...]:
    """Return the groups with more; new versions of a known group come first."""
    merged = {group.name: group for group in groups}
    for group in more:
        before = merged.get(group.name)
        merged[group.name] = _merged(before, group) if before else group
    return tuple(merged.values())


def _merged(before: Group, group: Group) -> Group:
    new: dict[str, Version] = {version.name: version for version in group.versions}
    kept = tuple(version for version in before.versions if version.name not in new)
    return replace(before, versions=(*new.values(), *kept), stated_preference="")


def removed(groups: tuple[Group, ...], gvs: set[GroupVersion]) -> tuple[Group, ...]:
    """Return the groups without these versions; a group without versions is dropped."""
    left = (
        replace(group, versions=tuple(found for found in group.versions if found.gv not in gvs))
        for group in groups
    )
    return tuple(group for group in left if group.versions)


T = TypeVar("T")

ANY_PATH = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that is answered in place of a document.

    Attributes:
        body: None for Kubernetes' text for that status.
        retry_after_s: The value of Retry-After; None for no such header.
        left: For how many more requests; None for all.
    """

    status: int
    body: bytes | None = None
    content_type: str = "text/plain; charset=utf-8"
    retry_after_s: int | None = None
    left: int | None = None


@dataclass(frozen=True, slots=True)
class State:
    """Everything that an answer depends on, besides the request.

    Paths have no slash at the end; `ANY_PATH` stands for all paths without an entry of their own.

    Attributes:
        groups: In the order in which they are listed.
        releases: By path, `/api` or `/apis`, where it differs from `release`.
        failures: The errors that are answered, by path.
        stale: Versions that the aggregated documents mark as stale, and whether with resources.
        delays: Seconds before an answer, by path.
        truncated: Paths whose answers end in the middle.
        garbled: Paths whose answers do not match their Content-Type.
        drops_accept: Whether the Accept header is ignored.
        is_never_modified: Whether every answer of `/api` and `/apis` is 304.
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
        """Return by how many seconds an answer is delayed."""
        return self.delays.get(path, self.delays.get(ANY_PATH, 0.0))

    def group(self, name: str) -> Group | None:
        """Return the group of that name, the core group for the empty string."""
        return next((found for found in self.groups if found.name == name), None)

    def aggregated_groups(self, path: str) -> tuple[Group, ...]:
        """Return the groups of the aggregated document of `/api` or `/apis`."""
        is_dated = self.release_at(path).writes_creation
        return tuple(
            _dated(self._as_listed(group)) if is_dated else self._as_listed(group)
            for group in self.groups
            if (not group.name) == (path == "/api")
        )

    def healthy(self) -> "State":
        """Return the same server without faults."""
        return State(self.groups, self.release, self.releases)

    def without_faults_at(self, paths: Iterable[str], gvs: Iterable[GroupVersion]) -> "State":
        """Return the same server without faults of these paths and group-versions."""
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
