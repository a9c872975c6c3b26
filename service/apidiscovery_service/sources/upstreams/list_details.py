"""Reads from unaggregated lists what the aggregated documents of an upstream do not have.

These are the storage version hashes of resources, which storage migrators read, and the order of
lists: groups with equal priority are in another order, and resources of definitions in any order,
while the aggregated document sorts them. With these, our lists equal the upstream's to the byte.

Sources: k8s.io/apiserver pkg/endpoints/installer.go:ConvertGroupVersionIntoToDiscovery,
k8s.io/kube-aggregator pkg/apis/apiregistration/v1/helper/helpers.go:SortedByGroupAndVersion.
"""

import asyncio
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field, replace
from functools import partial

import structlog

from apidiscovery_service.core.model import (
    Freshness,
    Group,
    Resource,
    Version,
    shared,
    shared_version,
)
from apidiscovery_service.sources.upstreams.discovery_answers import (
    Reading,
    list_lines,
    read_group_list,
    read_with,
)
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.list_reader import (
    GroupVersion,
    ListReader,
    name_of,
    versions_of,
    with_versions,
)
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

# Lists have no ETag, and a storage version may change without a change of the aggregated document.
# So each round requests some lists. All are requested within so many rounds; within more in a large
# fleet, and where rounds are so short that it would take less than these seconds, since lists are
# most of the cost of an unchanged cluster.
EVERYTHING_WITHIN_ROUNDS = 10
EVERYTHING_TAKES_S = 60.0
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

    def one(gv: GroupVersion, version: Version) -> Version:
        former = known.get(gv)
        if former is None:
            return version
        now = _with_list(version, former, former.listed)
        return former if now == former else now

    return with_versions(groups, one)


def _with_list(version: Version, of_list: Version, order: tuple[str, ...]) -> Version:
    """Return a version with the hashes of its list, and with the order of the list."""
    hashes = {r.resource: r.storage_version_hash for r in of_list.resources}

    def one(resource: Resource) -> Resource:
        now = hashes.get(resource.resource, "")
        same = now == resource.storage_version_hash
        return resource if same else replace(resource, storage_version_hash=now)

    return replace(version, resources=tuple(map(one, version.resources)), listed=order)


def rounds_for_all_lists(upstreams: int, poll_s: float) -> int:
    """Return within how many rounds all lists of an upstream are requested.

    Args:
        upstreams: The number of upstreams.
        poll_s: The interval of its rounds.
    """
    factor = max(upstreams / _MORE_ROUNDS_ABOVE_UPSTREAMS, 1)
    return int(max(EVERYTHING_WITHIN_ROUNDS * factor, EVERYTHING_TAKES_S / poll_s))


@dataclass(slots=True)
class _Memory:
    """The memory of one process for one path between rounds.

    Attributes:
        reader: Reads the lists of group-versions.
        versions: The versions with what their lists say.
        names: The names of the groups when their list was read; None before.
        failed: The group-versions whose lists failed last.
    """

    reader: ListReader
    versions: dict[GroupVersion, Version] = field(default_factory=dict[GroupVersion, Version])
    names: list[str] | None = None
    failed: set[GroupVersion] = field(default_factory=set[GroupVersion])


class UnaggregatedLists:
    """Requests the lists of one upstream, a few in each round.

    Args:
        spec: The upstream.
        exchange: Sends the requests.
        rounds: Returns within how many rounds all are requested.
    """

    def __init__(self, spec: UpstreamSpec, exchange: Exchange, rounds: Callable[[], int]) -> None:
        self._spec = spec
        self._exchange = exchange
        self._rounds = rounds
        self._log = _log.bind(upstream=spec.name)
        self._turn = 0
        self._of_rounds = 1
        self._memories = {path: _Memory(ListReader(exchange, spec, path)) for path, _ in spec.paths}

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
        names, versions = await asyncio.gather(self._order(root), self._changed(root, wanted))
        groups = root.groups
        if versions:
            changed = with_versions(groups, versions.get)
            groups = await asyncio.to_thread(shared, changed)
        return replace(root, groups=groups, listed=root.listed if names is None else names)

    async def _order(self, root: Root) -> tuple[str, ...] | None:
        """Return the names of the groups in the order of their list; None if it is not known."""
        names = [group.name for group in root.groups]
        memory = self._memories[root.path]
        is_due = self._turn == 0 or memory.names != names
        if root.core or self._spec.kind is UpstreamKind.SERVICE or not is_due:
            return None
        memory.names = names
        read = partial(read_with, read_group_list, Reading(self._spec.limits))
        try:
            listed, _ = await self._exchange.plain(root.path, read)
        except UpstreamFailed as failure:
            self._log.debug("list of groups not read", path=root.path, reason=str(failure))
            return None
        return tuple(group.name for group in listed)

    async def _changed(
        self, root: Root, wanted: Container[GroupVersion] | None
    ) -> dict[GroupVersion, Version]:
        """Request the lists that are due; return the versions of which they say something new."""
        memory = self._memories[root.path]
        versions = {
            gv: version
            for gv, version in versions_of(root.groups).items()
            if wanted is None or gv in wanted
        }
        known = memory.versions
        same = {gv for gv, version in versions.items() if known.get(gv) == version}
        memory.reader.forget(memory.reader.digests.keys() - same)
        failed = memory.failed & versions.keys()
        due = [
            gv
            for place, gv in enumerate(sorted(versions))
            if versions[gv].freshness != Freshness.STALE
            and (place % self._of_rounds == self._turn or gv not in same)
        ]
        limits = self._spec.limits
        # Lists that failed before come last, so that they do not end the round too early.
        found = await memory.reader.fetch(
            sorted(due, key=lambda gv: gv in failed),
            at_once=min(limits.concurrent, _AT_ONCE),
            within_s=limits.exchange_s,
            most_failures=_MOST_FAILURES,
        )
        now = {
            gv: _with_own_list(versions[gv], listed)
            for gv, listed in found.items()
            if isinstance(listed, Version)
        }
        failures = {gv for gv, each in found.items() if isinstance(each, UpstreamFailed)}
        memory.failed = (failed - found.keys()) | failures
        if failures:
            names = sorted(name_of(*gv) for gv in failures)
            self._log.debug("lists not read", path=root.path, lists=names)
        memory.versions = {gv: known[gv] for gv in same} | now
        return now


def _with_own_list(version: Version, listed: Version) -> Version:
    """Return a version with what its list says."""
    order = listed.listed or tuple(list_lines(listed.resources))
    is_same = order == tuple(list_lines(version.resources))
    return shared_version(_with_list(version, listed, () if is_same else order))
