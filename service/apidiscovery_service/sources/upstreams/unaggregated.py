"""Reads from unaggregated lists what the aggregated documents of an upstream do not have.

These are the storage version hashes of resources, which storage migrators read, and the order of
lists: groups with equal priority are in another order, and resources of definitions in any order,
while the aggregated document sorts them. With these, our lists equal the upstream's to the byte.

Sources: k8s.io/apiserver pkg/endpoints/installer.go:ConvertGroupVersionIntoToDiscovery,
k8s.io/kube-aggregator pkg/apis/apiregistration/v1/helper/helpers.go:SortedByGroupAndVersion.
"""

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

import structlog
from apidiscovery_formats.media_types import JSON

from apidiscovery_service.core.model import (
    Freshness,
    Group,
    Resource,
    Version,
    shared,
    shared_version,
)
from apidiscovery_service.sources.upstreams.answers import (
    Reading,
    list_lines,
    read_group_list,
    read_resource_list,
    read_with_warnings,
)
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.legacy import (
    GroupVersion,
    digest,
    get_list,
    name_of,
    versions_of,
)
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

# Lists have no ETag, and a storage version may change without a change of the aggregated document.
# So each round requests some lists. All are requested within so many rounds, and within more in a
# large fleet, since most of what an unchanged cluster costs is its lists.
EVERYTHING_WITHIN_ROUNDS = 10
_MORE_ROUNDS_ABOVE_UPSTREAMS = 100
# As many connections as are kept.
_AT_ONCE = 4
# After so many failures a round ends.
_MOST_FAILURES = 3

_log = structlog.get_logger(__name__)


def with_known_lists(groups: Iterable[Group], before: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups of an aggregated document with what is known from lists of the same versions.

    An unchanged version is the same object as before.
    """
    known = versions_of(before)

    def one(group: str, version: Version) -> Version:
        former = known.get((group, version.version))
        if former is None:
            return version
        now = _with_list(version, former, former.listed)
        return former if now == former else now

    return tuple(
        Group(group.name, tuple([one(group.name, version) for version in group.versions]))
        for group in groups
    )


def _with_list(version: Version, of_list: Version, order: tuple[str, ...]) -> Version:
    """Return a version with the hashes of its list, and with the order of the list."""
    hashes = {r.resource: r.storage_version_hash for r in of_list.resources}

    def one(resource: Resource) -> Resource:
        now = hashes.get(resource.resource, "")
        same = now == resource.storage_version_hash
        return resource if same else replace(resource, storage_version_hash=now)

    return replace(version, resources=tuple(map(one, version.resources)), listed=order)


@dataclass(frozen=True, slots=True)
class _Seen:
    """A list that was read.

    Attributes:
        version: The group-version with what the list says.
        digest: Digest of the body of the list.
    """

    version: Version
    digest: bytes


@dataclass(slots=True)
class _Round:
    """The results of one round for one path.

    Attributes:
        had: The versions whose lists have changed, with what these say.
    """

    had: dict[GroupVersion, Version]
    failed: set[GroupVersion]


def rounds_for_all_lists(upstreams: int) -> int:
    """Return within how many rounds all lists of an upstream are requested.

    Args:
        upstreams: How many of them there are.
    """
    factor = max(upstreams / _MORE_ROUNDS_ABOVE_UPSTREAMS, 1)
    return int(EVERYTHING_WITHIN_ROUNDS * factor)


class UnaggregatedLists:
    """Requests the lists of one upstream, a few in each round.

    Args:
        spec: The upstream.
        exchange: Sends the requests.
        rounds: Returns within how many rounds all are requested.
    """

    def __init__(
        self,
        spec: UpstreamSpec,
        exchange: Exchange,
        rounds: Callable[[], int] = lambda: EVERYTHING_WITHIN_ROUNDS,
    ) -> None:
        self._spec = spec
        self._exchange = exchange
        self._rounds = rounds
        self._turn = 0
        self._of_rounds = 1
        self._seen: dict[str, dict[GroupVersion, _Seen]] = {}  # by path
        self._seen_groups: dict[str, list[str]] = {}
        self._failed: dict[str, set[GroupVersion]] = {}

    async def read(self, known: Known, wanted: Container[GroupVersion] | None) -> Known:
        """Return what is known, with the content of the lists that are due.

        Due are the lists of group-versions that have changed or failed, and some others. This takes
        at most the time of one exchange; lists that are not read by then are due the next time.

        Args:
            known: The result of a round of discovery.
            wanted: The group-versions of a service that have an APIService; None for all.
        """
        self._of_rounds = self._rounds()
        self._turn = (self._turn + 1) % self._of_rounds
        roots = await asyncio.gather(*(self._root(root, wanted) for root in known.roots))
        return replace(known, roots=tuple(roots))

    async def _root(self, root: Root, wanted: Container[GroupVersion] | None) -> Root:
        if root.old or not root.is_current:
            return root
        found = _Round({}, set())
        groups: tuple[str, ...] | None = None
        try:
            async with asyncio.timeout(self._spec.limits.exchange_s):
                await self._versions(root, wanted, found)
                groups = await self._groups(root)
        except TimeoutError:
            pass
        # Until they are read, so that a round does not end before lists that were never asked for.
        self._failed.setdefault(root.path, set()).update(found.failed)
        if found.failed:
            names = sorted(name_of(*gv) for gv in found.failed)
            _log.debug("lists not had", upstream=self._spec.name, path=root.path, lists=names)
        merged = root.groups
        if found.had:
            merged = await asyncio.to_thread(shared, _replaced(root.groups, found.had))
        listed = root.listed if groups is None else groups
        return replace(root, groups=merged, listed=listed)

    async def _groups(self, root: Root) -> tuple[str, ...] | None:
        """Return the names of the groups in the order of the list; None if unknown."""
        names = [group.name for group in root.groups]
        is_due = self._turn == 0 or self._seen_groups.get(root.path) != names
        if root.core or self._spec.kind is Kind.SERVICE or not is_due:
            return None
        self._seen_groups[root.path] = names
        try:
            answer = await self._exchange.get(root.path, JSON)
            if answer.status != HTTPStatus.OK or not answer.is_plain_json:
                raise answer.wrong(JSON)
            reading = Reading(self._spec.limits)
            read = partial(read_with_warnings, read_group_list, reading)
            listed, _ = await self._exchange.read(answer, read)
        except UpstreamFailed as failure:
            _log.debug("list of groups not had", upstream=self._spec.name, reason=str(failure))
            return None
        return tuple(group.name for group in listed)

    async def _versions(
        self, root: Root, wanted: Container[GroupVersion] | None, found: _Round
    ) -> None:
        seen = self._seen.setdefault(root.path, {})
        versions = {
            gv: version
            for gv, version in versions_of(root.groups).items()
            if wanted is None or gv in wanted
        }
        for gv in seen.keys() - versions.keys():
            del seen[gv]

        def changed(gv: GroupVersion) -> bool:
            return gv not in seen or seen[gv].version != versions[gv]

        due = [
            gv
            for place, gv in enumerate(sorted(versions))
            if versions[gv].freshness != Freshness.STALE
            and (place % self._of_rounds == self._turn or changed(gv))
        ]
        # Lists that failed before come last, so that they do not end the round too early.
        failed = self._failed.setdefault(root.path, set())
        failed &= versions.keys()
        due.sort(key=lambda gv: gv in failed)
        waiting = iter(due)

        async def some() -> None:
            for gv in waiting:
                if len(found.failed) >= _MOST_FAILURES:
                    return
                try:
                    former = None if changed(gv) else seen[gv]
                    now = await self._version(root, gv, versions[gv], former)
                    failed.discard(gv)
                    if now is not former:
                        seen[gv], found.had[gv] = now, now.version
                except UpstreamFailed:
                    found.failed.add(gv)
                except Exception:  # noqa: BLE001 - one odd answer must not end the polling
                    _log.exception("list cannot be read", upstream=self._spec.name, list=gv)
                    found.failed.add(gv)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._spec.limits.concurrent, _AT_ONCE, len(due))):
                tasks.create_task(some())

    async def _version(
        self, root: Root, gv: GroupVersion, version: Version, former: _Seen | None
    ) -> _Seen:
        """Request the list of a version; `former` is what was read for the same version."""
        answer = await get_list(self._exchange, self._spec, root, gv)
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            raise answer.wrong(JSON)
        body_digest = digest(answer.body)
        if former and former.digest == body_digest:
            return former
        read = partial(read_resource_list, version.version)
        listed = await self._exchange.read(answer, read)
        order = listed.listed or tuple(list_lines(listed.resources))
        is_same = order == tuple(list_lines(version.resources))
        now = shared_version(_with_list(version, listed, () if is_same else order))
        return _Seen(now, body_digest)


def _replaced(
    groups: tuple[Group, ...], versions: Mapping[GroupVersion, Version]
) -> tuple[Group, ...]:
    return tuple(
        Group(
            group.name,
            tuple(versions.get((group.name, one.version), one) for one in group.versions),
        )
        for group in groups
    )
