"""Makes the documents of clusters and views from their groups."""

from collections.abc import Iterable
from weakref import WeakValueDictionary

from apidiscovery_service.core import chunks
from apidiscovery_service.core.chunks import Chunk, PublishedGroup
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.snapshot import Document, Snapshot


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
            # The document has the order of the groups, so the key has only the name.
            key = (0, 0, group.name)
            known = PublishedGroup(group, key, key, has_creation_timestamp=has_timestamp)
            self._groups[group, has_timestamp] = known
        return known
