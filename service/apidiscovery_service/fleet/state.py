"""The clusters of the fleet as they are now, and the documents that each would answer with."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from weakref import WeakValueDictionary

from apidiscovery_service.core import chunks
from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.snapshot import Document, Snapshot
from apidiscovery_service.encoding import EncodedSnapshot

# The documents of so many clusters are kept; those of others are made again when asked for, which
# takes some milliseconds.
_MAX_ENCODED = 128


class Publisher:
    """Makes the documents of clusters; equal groups of several clusters are held once."""

    def __init__(self) -> None:
        self._groups: WeakValueDictionary[tuple[Group, bool], PublishedGroup] = (
            WeakValueDictionary()
        )
        self._chunks: WeakValueDictionary[tuple[PublishedGroup, ...], Chunk] = WeakValueDictionary()

    def snapshot(self, cluster: Cluster) -> Snapshot:
        """Return a cluster's own documents, which are empty where nothing is known."""
        has_timestamps = cluster.dialect.has_creation_timestamps
        return Snapshot(
            self.document(cluster.core or (), has_timestamps=has_timestamps),
            self.document(cluster.named or (), cluster.listed, has_timestamps=has_timestamps),
        )

    def document(
        self, groups: Iterable[Group], listed: Iterable[str] = (), *, has_timestamps: bool = False
    ) -> Document:
        """Return the document of groups in this order.

        Args:
            groups: The groups.
            listed: Their names in the order of the unaggregated list; empty for the same order.
            has_timestamps: Whether groups have `"creationTimestamp":null`.
        """
        published = tuple(self._group(group, has_timestamps) for group in groups)
        order = tuple(listed) or tuple(group.name for group in published)
        cut = chunks.cut(published)
        return Document([self._chunks.setdefault(c.groups, c) for c in cut], listed=order)

    def _group(self, group: Group, has_timestamp: bool) -> PublishedGroup:  # noqa: FBT001 - of a key
        known = self._groups.get((group, has_timestamp))
        if known is None:
            # The place of the group is that in its document, so the key tells no other.
            key = (0, 0, group.name)
            known = PublishedGroup(group, key, key, has_creation_timestamp=has_timestamp)
            self._groups[group, has_timestamp] = known
        return known


class Fleet:
    """All clusters. Not thread-safe: used in the event loop.

    Attributes:
        revision: Changes with every cluster.
    """

    def __init__(self) -> None:
        self.revision = 0
        self._clusters: dict[str, Cluster] = {}
        self._publisher = Publisher()
        self._encoded: OrderedDict[str, EncodedSnapshot] = OrderedDict()

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """All clusters by name."""
        return MappingProxyType(self._clusters)

    def update(self, changed: Iterable[Cluster], gone: Iterable[str] = ()) -> None:
        """Take clusters that are new or changed, and the names of those that are gone."""
        for name in gone:
            self._clusters.pop(name, None)
            self._encoded.pop(name, None)
        for cluster in changed:
            before = self._clusters.get(cluster.name)
            self._clusters[cluster.name] = cluster
            if before is None or _content(before) != _content(cluster):
                self._encoded.pop(cluster.name, None)
        self.revision += 1

    def etag(self, name: str) -> str:
        """Return the ETag of a cluster's `/apis`; empty when there is no such cluster."""
        return self.encoded(name).snapshot.named.etag if name in self._clusters else ""

    def encoded(self, name: str) -> EncodedSnapshot:
        """Return the documents of a cluster, by its name.

        Raises:
            KeyError: There is no such cluster.
        """
        found = self._encoded.get(name)
        if found is None:
            found = EncodedSnapshot(self._publisher.snapshot(self._clusters[name]))
            self._encoded[name] = found
        self._encoded.move_to_end(name)
        if len(self._encoded) > _MAX_ENCODED:
            self._encoded.popitem(last=False)
        return found


def _content(cluster: Cluster) -> object:
    """Return what the documents of a cluster are made of."""
    return cluster.core, cluster.named, cluster.listed, cluster.dialect
