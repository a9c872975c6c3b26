"""Tells what a release of Kubernetes serves, without a server.

The facts in `releases.json` are made by tools/release_facts.py from what Kubernetes publishes.
Group-versions, resources, kinds, scopes and verbs are those of the typed clients of each release.
What is inferred: which beta versions are on by default (KEP-3136), short names and categories of
releases other than 1.15 and the newest, the first release of some subresources, and until when
alpha versions were there. Storage version hashes are not known at all.
"""

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client.model import (
    NAMESPACED,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Subresource,
    Version,
)

PREFIX = "kubernetes:"  # what a snapshot's `server` begins with

_RELEASE = re.compile(r"v?1\.(\d{1,3})(?:\.\d+)?", re.ASCII)
_UNTIMED = datetime.fromtimestamp(0, UTC)  # facts have no time, and equal snapshots are to be equal


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
    facts, minor = _facts(), _minor(version)
    rows = [row for row in facts.rows if row.is_in(minor) and (row.is_on or all_versions)]
    groups = {row.group for row in rows}
    ranked = sorted(groups, key=lambda name: (-_priority(facts, name, minor), name))
    return Snapshot(
        groups=tuple(_group(facts, name, rows) for name in ranked),
        server=f"{PREFIX}1.{minor}",
        checked_at=_UNTIMED,
    )


@functools.cache
def _facts() -> _Facts:
    told: dict[str, Any] = json.loads(
        files("apidiscovery_client.snapshots").joinpath("releases.json").read_bytes()
    )
    rows = [_Row(*row) for row in told.pop("resources")]
    return _Facts(rows=rows, **told)


def _minor(version: str) -> int:
    facts, matched = _facts(), _RELEASE.fullmatch(version)
    minor = int(matched[1]) if matched else -1
    if not facts.oldest <= minor <= facts.newest:
        raise InvalidConfiguration(
            f"{version!r} is no known release of Kubernetes;"
            f" want one of 1.{facts.oldest} to 1.{facts.newest}, such as {PREFIX}1.{facts.newest}"
        )
    return minor


def _priority(facts: _Facts, group: str, minor: int) -> int:
    return [priority for since, priority in facts.priorities[group] if since <= minor][-1]


def _group(facts: _Facts, name: str, rows: list[_Row]) -> Group:
    found = (_version(facts, GroupVersion(name, one), rows) for one in facts.versions[name])
    return Group(name, tuple(version for version in found if version.resources))


def _version(facts: _Facts, gv: GroupVersion, rows: list[_Row]) -> Version:
    mine = (row for row in rows if row.group == gv.group and row.version == gv.version)
    resources = tuple(_resource(facts, gv, row) for row in mine)
    return Version(gv, resources, stated_freshness="Current")


def _resource(facts: _Facts, gv: GroupVersion, row: _Row) -> Resource:
    return Resource(
        gv=gv,
        name=row.name,
        singular_name=row.kind.lower(),
        scope=NAMESPACED if row.is_namespaced else "Cluster",
        response_kind=GroupVersionKind("", "", row.kind),
        verbs=tuple(facts.verbs[row.verbs]),
        short_names=tuple(row.short_names),
        categories=tuple(row.categories),
        subresources=tuple(_subresources(facts, row)),
    )


def _subresources(facts: _Facts, row: _Row) -> Iterator[Subresource]:
    for name, kind, verbs in row.subresources:
        group_version, _, bare = kind.rpartition("/")
        group, _, version = group_version.rpartition("/")
        response_kind = GroupVersionKind(group, version, bare)
        yield Subresource(name, response_kind, tuple(facts.verbs[verbs]))
