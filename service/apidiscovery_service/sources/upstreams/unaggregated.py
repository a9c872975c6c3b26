"""What only unaggregated documents tell of an upstream that has aggregated ones.

Those are the storage version hashes of resources, which storage migrators read, and the order of
lists: that of groups breaks ties otherwise, and that of resources is any for definitions, which are
sorted in the aggregated document. What the lists say besides is in the aggregated document, too; so
with these the lists that are served are the upstream's, to the byte.

Sources: k8s.io/apiserver pkg/endpoints/installer.go:ConvertGroupVersionIntoToDiscovery,
k8s.io/kube-aggregator pkg/apis/apiregistration/v1/helper/helpers.go:SortedByGroupAndVersion.
"""

import asyncio
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus

import structlog
from apidiscovery_formats.media_types import JSON

from apidiscovery_service.core.model import Freshness, Group, Resource, Version
from apidiscovery_service.sources.upstreams.answers import (
    Reading,
    list_lines,
    read_group_list,
    read_noting,
    read_resource_list,
)
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.legacy import (
    GroupVersion,
    list_path,
    name_of,
    versions_of,
)
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

# Lists have no ETag, and a storage version may change without a trace in the aggregated document.
# So in each round some are asked for, and all of them in so many rounds.
EVERYTHING_WITHIN_ROUNDS = 10
# Who fails so often in a round is left alone until the next.
_MOST_FAILURES = 3

_log = structlog.get_logger(__name__)


def with_known_lists(groups: Iterable[Group], before: Iterable[Group]) -> tuple[Group, ...]:
    """Return groups of an aggregated document with what is known of the lists of the same versions.

    A version that is as it was is the same object.
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
    """Return a version with the hashes of a list of it, and with the order of its lines."""
    hashes = {r.resource: r.storage_version_hash for r in of_list.resources}

    def one(resource: Resource) -> Resource:
        now = hashes.get(resource.resource, "")
        same = now == resource.storage_version_hash
        return resource if same else replace(resource, storage_version_hash=now)

    return replace(version, resources=tuple(map(one, version.resources)), listed=order)


@dataclass(slots=True)
class _Round:
    """What the lists of one path have brought.

    Attributes:
        had: Group-versions with the hashes of now.
    """

    had: dict[GroupVersion, Version]
    failed: set[GroupVersion]


class UnaggregatedLists:
    """Asks one upstream for its lists, few at a time.

    Args:
        spec: The upstream.
        exchange: How it is asked.
    """

    def __init__(self, spec: UpstreamSpec, exchange: Exchange) -> None:
        self._spec = spec
        self._exchange = exchange
        self._turn = 0
        # As they were when their lists were had, by path.
        self._seen: dict[str, dict[GroupVersion, Version]] = {}
        self._seen_groups: dict[str, list[str]] = {}
        self._failed: dict[str, set[GroupVersion]] = {}

    async def look(self, known: Known, wanted: Container[GroupVersion] | None) -> Known:
        """Return what is known together with what the lists that are due say.

        Those are the ones of group-versions that have changed or were not had, and some others. It
        takes as long as one exchange may; what is not had by then is due the next time.

        Args:
            known: What a round of discovery has found.
            wanted: The group-versions of a service that have an APIService; None for all.
        """
        self._turn = (self._turn + 1) % EVERYTHING_WITHIN_ROUNDS
        roots = await asyncio.gather(*(self._root(root, wanted) for root in known.roots))
        return Known(known.claim, tuple(roots))

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
        self._failed[root.path] = found.failed
        if found.failed:
            names = sorted(name_of(*gv) for gv in found.failed)
            _log.debug("lists not had", upstream=self._spec.name, path=root.path, lists=names)
        return replace(
            root,
            groups=_replaced(root.groups, found.had),
            listed=root.listed if groups is None else groups,
        )

    async def _groups(self, root: Root) -> tuple[str, ...] | None:
        """Return the names of the groups as they are listed; None where that is not known."""
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
            read = partial(read_noting, read_group_list, reading)
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
        due = [
            gv
            for place, gv in enumerate(sorted(versions))
            if versions[gv].freshness != Freshness.STALE
            and (place % EVERYTHING_WITHIN_ROUNDS == self._turn or seen.get(gv) != versions[gv])
        ]
        # What failed before is asked for last, so that it keeps no other from being asked for.
        due.sort(key=lambda gv: gv in self._failed.get(root.path, ()))
        waiting = iter(due)

        async def some() -> None:
            for gv in waiting:
                if len(found.failed) >= _MOST_FAILURES:
                    return
                try:
                    found.had[gv] = await self._version(root, gv, versions[gv])
                    seen[gv] = found.had[gv]
                except UpstreamFailed:
                    found.failed.add(gv)
                except Exception:  # noqa: BLE001 - one odd answer must not end the polling
                    _log.exception("list cannot be read", upstream=self._spec.name, list=gv)
                    found.failed.add(gv)

        async with asyncio.TaskGroup() as tasks:
            for _ in range(min(self._spec.limits.concurrent, len(due))):
                tasks.create_task(some())

    async def _version(self, root: Root, gv: GroupVersion, version: Version) -> Version:
        path = list_path(self._spec, root, gv)
        as_master = self._spec.kind is not Kind.SERVICE
        answer = await self._exchange.get(path, JSON, as_master=as_master)
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            raise answer.wrong(JSON)
        read = partial(read_resource_list, version.version)
        listed = await self._exchange.read(answer, read)
        order = listed.listed or tuple(list_lines(listed.resources))
        is_same = order == tuple(list_lines(version.resources))
        return _with_list(version, listed, () if is_same else order)


def _replaced(
    groups: tuple[Group, ...], versions: Mapping[GroupVersion, Version]
) -> tuple[Group, ...]:
    if not versions:
        return groups
    return tuple(
        Group(
            group.name,
            tuple(versions.get((group.name, one.version), one) for one in group.versions),
        )
        for group in groups
    )
