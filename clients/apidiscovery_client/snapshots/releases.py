"""Tells what a release of Kubernetes serves, without a server.

Since 1.25 that is what a kube-apiserver of the release answered (`apidiscovery_releases`). Of older
releases, and of what is off by default, the facts in `releases.json` tell, which docs/releases.md
describes: tools/release_facts.py makes them from what Kubernetes publishes. Group-versions,
resources, kinds, scopes and verbs are those of the typed clients of each release. Inferred are:
which beta versions are on by default (KEP-3136), short names and categories of releases other than
1.15 and the newest, the first release of some subresources, and until when alpha versions were
there. Storage version hashes are known only where they were recorded.
"""

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

from apidiscovery_formats.media_types import JSON, aggregated
from apidiscovery_releases import Release, UnknownRelease, facts_text, minor_of, releases

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._reading import read_document, read_resources
from apidiscovery_client.model import (
    NAMESPACED,
    PATHS,
    DiscoveryPath,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Subresource,
    Version,
)

_Key: TypeAlias = tuple[str, str, str]  # group, version and name of a resource
_Below: TypeAlias = tuple[str, str, str, str]  # and the name of a subresource

UNTIMED = datetime.fromtimestamp(0, UTC)  # releases have no time, and equal ones are to be equal
PREFIX = "kubernetes:"  # what a snapshot's `server` begins with


@dataclass(frozen=True, slots=True)
class _Row:
    """A resource as a range of releases serves it.

    Attributes:
        verbs: Which of the table.
        subresources: Name, kind and verbs of each.
        releases: The first and the last of each range.
    """

    group: str
    version: str
    name: str
    kind: str
    is_namespaced: int
    verbs: int
    short_names: list[str]
    categories: list[str]
    subresources: list[tuple[str, str, int]]
    is_on: int
    releases: list[tuple[int, int]]

    @property
    def key(self) -> _Key:
        """Return group, version and name."""
        return self.group, self.version, self.name

    def is_in(self, release: int) -> bool:
        """Whether that release has it, on or off."""
        return any(first <= release <= last for first, last in self.releases)


@dataclass(frozen=True, slots=True)
class _Facts:
    oldest: int
    newest: int
    priorities: dict[str, list[tuple[int, int]]]
    versions: dict[str, list[str]]
    verbs: list[list[str]]
    gated: list[tuple[str, str, str, str, list[tuple[int, int]]]]
    rows: list[_Row]


def known_releases() -> tuple[str, ...]:
    """Return the releases that `release` knows, the oldest first, such as `1.30`."""
    facts = _facts()
    return tuple(f"1.{minor}" for minor in range(facts.oldest, facts.newest + 1))


def known_groups() -> frozenset[str]:
    """Return the groups that any known release has: of others no release says anything."""
    return frozenset(_facts().versions)


def release(version: str, *, all_versions: bool = False) -> Snapshot:
    """Return what a release of Kubernetes serves.

    Args:
        version: Such as `1.30`, `v1.30` or `1.30.4`; only the minor version counts.
        all_versions: Also alpha and beta versions that are off by default.

    Raises:
        InvalidConfiguration: It is none of `known_releases`.
    """
    minor = _minor(version)
    name = f"1.{minor}"
    groups = recorded_groups(Release(name)) if name in releases() else None
    if groups is None:
        groups = _of_facts(minor, all_versions=all_versions)
    elif all_versions:
        groups = _with_what_is_off(groups, minor)
    return Snapshot(groups=groups, server=f"{PREFIX}{name}", checked_at=UNTIMED)


@functools.cache
def recorded_groups(release: Release) -> tuple[Group, ...]:
    """Return all groups of a release in its order, with the hashes of storage versions.

    They are read from the aggregated documents, or where the release has none (1.26 and older) from
    the lists. What a document says of itself, such as the `creationTimestamp` of groups, is left
    out.
    """
    return tuple(
        _complete(release, group)
        for path in PATHS
        for group in read_document(path, *_answer(release, path), UNTIMED).groups
    )


def _answer(release: Release, path: DiscoveryPath) -> tuple[str, bytes]:
    """Return Content-Type and body of the best answer of a release."""
    if not release.aggregated_versions:
        return JSON, release.plain(path)
    version = release.aggregated_versions[0]
    return aggregated(JSON, version), release.aggregated(path, version)


def _complete(release: Release, group: Group) -> Group:
    """Return a group with the storage version hashes, which only the lists have."""
    return Group(group.name, tuple(_listed(release, version) for version in group.versions))


def _listed(release: Release, version: Version) -> Version:
    listed = read_resources(version.gv, JSON, release.plain(version.gv.path))
    if not release.aggregated_versions:
        return Version(version.gv, listed, stated_freshness="Current")
    hashes = {resource.name: resource.storage_version_hash for resource in listed}
    return replace(version, resources=tuple(_hashed(one, hashes) for one in version.resources))


def _hashed(resource: Resource, hashes: dict[str, str]) -> Resource:
    return replace(resource, storage_version_hash=hashes.get(resource.name, ""))


def _of_facts(minor: int, *, all_versions: bool) -> tuple[Group, ...]:
    facts = _facts()
    rows = [row for row in facts.rows if row.is_in(minor) and (row.is_on or all_versions)]
    ranked = sorted({row.group for row in rows}, key=lambda name: (-_priority(name, minor), name))
    gated = set[_Below]() if all_versions else _gated(minor)
    return tuple(_group(name, rows, gated) for name in ranked)


def _gated(minor: int) -> set[_Below]:
    """Return the subresources whose feature gate is off by default in a release."""
    return {
        (group, version, resource, name)
        for group, version, resource, name, ranges in _facts().gated
        if any(first <= minor <= last for first, last in ranges)
    }


def _with_what_is_off(recorded: tuple[Group, ...], minor: int) -> tuple[Group, ...]:
    """Return the recorded groups with what the facts have besides, if that is off by default.

    Groups and versions are in the order of the facts.
    """
    known = {
        resource.gvr: resource
        for group in recorded
        for version in group.versions
        for resource in version.resources
    }
    off = {row.key for row in _facts().rows if row.is_in(minor) and not row.is_on}
    gated = _gated(minor)
    groups: list[Group] = []
    for group in _of_facts(minor, all_versions=True):
        versions: list[Version] = []
        for version in group.versions:
            told = (_either(fact, known.get(fact.gvr), off, gated) for fact in version.resources)
            if resources := tuple(resource for resource in told if resource):
                versions.append(replace(version, resources=resources))
        if versions:
            groups.append(replace(group, versions=tuple(versions)))
    return tuple(groups)


def _either(
    fact: Resource, recorded: Resource | None, off: set[_Key], gated: set[_Below]
) -> Resource | None:
    """Return a resource as it was recorded, with gated subresources; else the fact if it is off."""
    key = (fact.gv.group, fact.gv.version, fact.name)
    if recorded is None:
        return fact if key in off else None
    more = [found for found in fact.subresources if (*key, found.name) in gated]
    together = sorted((*recorded.subresources, *more), key=lambda found: found.name)
    return replace(recorded, subresources=tuple(together)) if more else recorded


@functools.cache
def _facts() -> _Facts:
    told: dict[str, Any] = json.loads(facts_text())
    rows = [_Row(*row) for row in told.pop("resources")]
    return _Facts(rows=rows, **told)


def _minor(version: str) -> int:
    facts = _facts()
    try:
        minor = minor_of(version)
    except UnknownRelease:
        minor = -1
    if not facts.oldest <= minor <= facts.newest:
        raise InvalidConfiguration(
            f"{version!r} is not a known release of Kubernetes;"
            f" want one of 1.{facts.oldest} to 1.{facts.newest}, such as {PREFIX}1.{facts.newest}"
        )
    return minor


def _priority(group: str, minor: int) -> int:
    return [priority for since, priority in _facts().priorities[group] if since <= minor][-1]


def _group(name: str, rows: list[_Row], gated: set[_Below]) -> Group:
    versions: list[Version] = []
    for version in _facts().versions[name]:
        gv = GroupVersion(name, version)
        mine = (row for row in rows if (row.group, row.version) == (name, version))
        if resources := tuple(_resource(gv, row, gated) for row in mine):
            versions.append(Version(gv, resources, stated_freshness="Current"))
    return Group(name, tuple(versions))


def _resource(gv: GroupVersion, row: _Row, gated: set[_Below]) -> Resource:
    return Resource(
        gv=gv,
        name=row.name,
        singular_name=row.kind.lower(),
        scope=NAMESPACED if row.is_namespaced else "Cluster",
        response_kind=GroupVersionKind("", "", row.kind),
        verbs=tuple(_facts().verbs[row.verbs]),
        short_names=tuple(row.short_names),
        categories=tuple(row.categories),
        subresources=tuple(_subresources(row, gated)),
    )


def _subresources(row: _Row, gated: set[_Below]) -> Iterator[Subresource]:
    for name, kind, verbs in row.subresources:
        if (*row.key, name) not in gated:
            group_version, _, bare = kind.rpartition("/")
            group, _, version = group_version.rpartition("/")
            response_kind = GroupVersionKind(group, version, bare)
            yield Subresource(name, response_kind, tuple(_facts().verbs[verbs]))
