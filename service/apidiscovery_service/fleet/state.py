"""The clusters of the fleet as they are now, and the documents that each would answer with."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.fleet.scope import Makers, Scope
from apidiscovery_service.fleet.view_spec import ViewSpec
from apidiscovery_service.recent import Recent
from apidiscovery_service.waiting import Wakeup

# The documents of so many clusters are kept; those of others are made again when asked for, which
# takes some milliseconds.
_MAX_ENCODED = 128


class Fleet:
    """All clusters. Not thread-safe: used in the event loop.

    Args:
        views: Views besides the built-in ones.

    Attributes:
        revision: Changes with every cluster.
    """

    def __init__(self, views: Iterable[ViewSpec] = ()) -> None:
        self.revision = 0
        self._clusters: dict[str, Cluster] = {}
        self._publisher = Publisher()
        self._makers = Makers(self._publisher, tuple(views))
        self._encoded: Recent[str, EncodedSnapshot] = Recent(_MAX_ENCODED)
        self._scopes: dict[tuple[str, ...], Scope] = {}
        self._news = Wakeup()

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """All clusters by name."""
        return MappingProxyType(self._clusters)

    def scope(self, patterns: Iterable[str] = ("*",)) -> Scope:
        """Return the scope of a caller who may see the clusters with such names.

        Args:
            patterns: Of whole names; `*` stands for any text, and nothing else is special.

        Returns:
            The same object for the same patterns.
        """
        key = tuple(sorted(set(patterns)))
        found = self._scopes.get(key)
        if found is None:
            found = self._scopes[key] = Scope.of_patterns(self, key, self._makers)
        return found

    def update(self, changed: Iterable[Cluster], gone: Iterable[str] = ()) -> None:
        """Take clusters that are new or changed, and the names of those that are gone.

        It makes nothing: documents and matrices are made when somebody asks.
        """
        is_same = True
        for name in gone:
            is_same &= self._clusters.pop(name, None) is None
            self._encoded.drop(name)
        for cluster in changed:
            before = self._clusters.get(cluster.name)
            if before == cluster:
                continue
            is_same = False
            self._clusters[cluster.name] = cluster
            if before is None or _content(before) != _content(cluster):
                self._encoded.drop(cluster.name)
        if not is_same:
            self.revision += 1
            self._news.ring()

    async def wait(self, revision: int) -> int:
        """Return the revision once it is another."""
        await self._news.until(lambda: self.revision != revision)
        return self.revision

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
            self._encoded.put(name, found)
        return found


def _content(cluster: Cluster) -> object:
    """Return what the documents of a cluster are made of."""
    return cluster.core, cluster.named, cluster.listed, cluster.dialect
