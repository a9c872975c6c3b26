"""The documents of one view, made again when a cluster changes what it serves."""

import asyncio
from collections.abc import Mapping

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Group
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.fleet.views import Member, Merger, ViewKind


class View:
    """The documents of a view. Not thread-safe: used in the event loop.

    Args:
        kind: Union or common.
        publisher: Holds equal groups once.
    """

    def __init__(self, kind: ViewKind, publisher: Publisher) -> None:
        self._kind = kind
        self._publisher = publisher
        self._merger = Merger(kind)
        self._turn = asyncio.Lock()
        self._clusters: Mapping[str, Cluster] | None = None
        self._groups: tuple[Group, ...] = ()
        self._encoded = EncodedSnapshot(Snapshot())

    async def encoded(self, clusters: Mapping[str, Cluster]) -> EncodedSnapshot:
        """Return the documents of the view: the former ones while they would be equal.

        Clusters are merged in a thread, as a thousand need some milliseconds.

        Args:
            clusters: The clusters by name; another object when they are others.
        """
        async with self._turn:
            if self._clusters is not clusters:
                members = [_member(one, self._kind) for one in clusters.values()]
                groups = await asyncio.to_thread(self._merger.merged, members)
                if groups != self._groups:
                    self._encoded = EncodedSnapshot(self._snapshot(groups))
                self._clusters, self._groups = clusters, groups
            return self._encoded

    def _snapshot(self, groups: tuple[Group, ...]) -> Snapshot:
        core = [group for group in groups if group.name == CORE_GROUP]
        named = [group for group in groups if group.name != CORE_GROUP]
        return Snapshot(self._publisher.document(core), self._publisher.document(named))


def _member(cluster: Cluster, kind: ViewKind) -> Member:
    """Return a cluster as a view takes it.

    A union is stale where a cluster does not answer. Common is not: clients leave out stale
    versions, and one cluster that is down must not take everything from them.
    """
    is_stale = kind is ViewKind.UNION and cluster.status.state is not SourceState.CURRENT
    unknown = (CORE_GROUP,) if cluster.core is None else ()
    return Member(cluster.name, cluster.groups, is_stale, unknown)
