"""The documents of one view, made again when a cluster changes what it serves."""

import asyncio
from collections.abc import Mapping
from threading import Lock

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Group
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.group_forms import Member
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.fleet.view_groups import Merger, ViewKind


class View:
    """The documents of a view. Not thread-safe: used in the event loop.

    Args:
        kind: Union or common.
        publisher: Holds equal groups once.
    """

    def __init__(self, kind: ViewKind, publisher: Publisher) -> None:
        self._kind = kind
        self._publisher = publisher
        self._turn = asyncio.Lock()
        self._clusters: Mapping[str, Cluster] | None = None
        self._groups: tuple[Group, ...] = ()
        # What was merged last, which a thread may change.
        self._merging = Lock()
        self._merger = Merger(kind)
        self._members: dict[str, Cluster] = {}
        self._encoded = EncodedSnapshot(Snapshot())

    def encoded(self, clusters: Mapping[str, Cluster]) -> EncodedSnapshot:
        """Return the documents of the view: the former ones while they would be equal.

        Args:
            clusters: What it is made of, by name; another object when they are others.
        """
        if self._clusters is not clusters:
            self._take(clusters, self._merge(clusters))
        return self._encoded

    async def prepared(self, clusters: Mapping[str, Cluster]) -> EncodedSnapshot:
        """Return what `encoded` does, merged in a thread, by one caller at a time."""
        async with self._turn:
            if self._clusters is not clusters:
                found = await asyncio.to_thread(self._merge, clusters)
                self._take(clusters, found)
            return self._encoded

    def _merge(self, clusters: Mapping[str, Cluster]) -> tuple[Group, ...]:
        with self._merging:
            gone = self._members.keys() - clusters.keys()
            changed = [
                cluster
                for name, cluster in clusters.items()
                if self._members.get(name) is not cluster
            ]
            self._members = dict(clusters)
            return self._merger.merged((_member(one, self._kind) for one in changed), gone)

    def _take(self, clusters: Mapping[str, Cluster], groups: tuple[Group, ...]) -> None:
        is_same = groups == self._groups
        self._clusters, self._groups = clusters, groups
        if not is_same:
            core = [group for group in groups if group.name == CORE_GROUP]
            named = [group for group in groups if group.name != CORE_GROUP]
            document = self._publisher.document
            self._encoded = EncodedSnapshot(Snapshot(document(core), document(named)))


def _member(cluster: Cluster, kind: ViewKind) -> Member:
    """Return a cluster as a view takes it.

    In a union, the groups of a cluster that does not answer are stale. In a common view they are
    not: clients leave out stale versions, and one cluster that is down must not take everything
    from them.
    """
    is_stale = kind is ViewKind.UNION and cluster.status.state is not SourceState.CURRENT
    unknown = (CORE_GROUP,) if cluster.core is None else ()
    return Member(cluster.name, cluster.groups, is_stale, unknown)
