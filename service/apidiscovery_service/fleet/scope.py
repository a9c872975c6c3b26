"""What one caller may see of the fleet: clusters, their matrix, and views over them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from apidiscovery_formats.matrix import Column, Matrix

from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.cells import CellMaker, ClusterCells
from apidiscovery_service.fleet.matrix_state import MatrixState
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.fleet.view_spec import BUILT_IN_VIEWS, ViewSpec
from apidiscovery_service.fleet.view_state import View
from apidiscovery_service.kube.objects.selectors import LabelSelector
from apidiscovery_service.recent import Recent

# Selections that are kept with their matrices; callers may ask for any.
_MAX_SELECTIONS = 16


class Origin(Protocol):
    """Where a scope has its clusters from: the fleet, or a wider scope."""

    @property
    def revision(self) -> int:
        """Changes with every cluster."""
        ...

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The clusters by name."""
        ...

    async def wait(self, revision: int) -> int:
        """Return the revision once it is another."""
        ...


@dataclass(frozen=True, slots=True)
class Makers:
    """The objects that all scopes of a fleet share.

    Attributes:
        views: Those of the configuration.
    """

    publisher: Publisher
    views: tuple[ViewSpec, ...] = ()
    cells: CellMaker = field(default_factory=CellMaker)


class Scope:
    """The part of a fleet that one caller may see. Not thread-safe: used in the event loop.

    Nothing is made until somebody asks, and then only what has changed.

    Args:
        origin: Where its clusters are from.
        sees: Whether a cluster is seen.
        makers: Shared with all scopes of the fleet.
    """

    def __init__(self, origin: Origin, sees: Callable[[Cluster], bool], makers: Makers) -> None:
        self._origin = origin
        self._sees = sees
        self._makers = makers
        self._views = {spec.name: spec for spec in (*BUILT_IN_VIEWS, *makers.views)}
        self._revision = 0
        # The revision of the origin that was looked at last.
        self._seen = -1
        self._clusters: Mapping[str, Cluster] = MappingProxyType({})
        # The clusters as cells of the matrix, and the revision that has them.
        self._cells: tuple[int, tuple[ClusterCells, ...]] = (0, ())
        self._matrix = MatrixState()
        self._selections: Recent[LabelSelector, Scope] = Recent(_MAX_SELECTIONS)
        self._made_views: dict[str, tuple[Scope, View]] = {}

    @classmethod
    def of_patterns(cls, origin: Origin, patterns: Iterable[str], makers: Makers) -> "Scope":
        """Return the scope of clusters whose names match a pattern, in which `*` is special."""
        pattern = matching(patterns)
        return cls(origin, lambda cluster: pattern.fullmatch(cluster.name) is not None, makers)

    @property
    def revision(self) -> int:
        """Changes with any cluster that is seen, and with no other."""
        self._look()
        return self._revision

    @property
    def clusters(self) -> Mapping[str, Cluster]:
        """The clusters that are seen by name, in the order of names.

        It is another object for each revision.
        """
        self._look()
        return self._clusters

    def _look(self) -> None:
        """Take what has changed since the last look."""
        now = self._origin.revision
        if now == self._seen:
            return
        self._seen = now
        before = self._clusters
        found = {
            name: cluster
            for name, cluster in sorted(self._origin.clusters.items())
            if self._sees(cluster)
        }
        if before.keys() != found.keys() or any(before[n] is not found[n] for n in found):
            self._clusters = MappingProxyType(found)
            self._revision += 1

    def columns(self) -> tuple[Column, ...]:
        """Return the columns of the matrix, in the order of names; no row is made."""
        return tuple(cluster.column for cluster in self._cluster_cells())

    def matrix(self) -> Matrix:
        """Return the matrix, the same object while nothing has changed."""
        return self._matrix.matrix(self._cluster_cells())

    def _cluster_cells(self) -> tuple[ClusterCells, ...]:
        clusters = self.clusters
        if self._cells[0] != self._revision:
            made = tuple(map(self._makers.cells.of, clusters.values()))
            self._cells = self._revision, made
        return self._cells[1]

    def selected(self, labels: LabelSelector) -> "Scope":
        """Return the part of this scope with such labels."""
        if not labels.requirements:
            return self
        found = self._selections.get(labels)
        if found is None:
            found = self._labelled(labels)
            self._selections.put(labels, found)
        return found

    def _labelled(self, labels: LabelSelector) -> "Scope":
        return Scope(self, lambda cluster: labels.matches(cluster.labels), self._makers)

    def view_names(self) -> tuple[str, ...]:
        """Return the names of all views, sorted."""
        return tuple(sorted(self._views))

    def view(self, name: str) -> EncodedSnapshot | None:
        """Return the documents of a view over what is seen; None if there is no such view.

        They are the same object until a cluster changes what it serves.
        """
        if name not in self._views:
            return None
        scope, view = self._view(name)
        return view.encoded(scope.clusters)

    async def prepared_view(self, name: str) -> EncodedSnapshot | None:
        """Return what `view` does, made in a thread, as many clusters need some milliseconds."""
        if name not in self._views:
            return None
        scope, view = self._view(name)
        return await view.prepared(scope.clusters)

    def view_clusters(self, name: str) -> Mapping[str, Cluster]:
        """Return the clusters that a view is made of, by name, in the order of names.

        Raises:
            KeyError: There is no such view.
        """
        scope, _ = self._view(name)
        return scope.clusters

    def _view(self, name: str) -> tuple["Scope", View]:
        found = self._made_views.get(name)
        if found is None:
            spec = self._views[name]
            scope = self._labelled(spec.clusters) if spec.clusters.requirements else self
            found = self._made_views[name] = scope, View(spec.kind, self._makers.publisher)
        return found

    async def wait(self, revision: int) -> int:
        """Return the revision once it is another."""
        while True:
            seen = self._origin.revision
            if self.revision != revision:
                return self.revision
            await self._origin.wait(seen)
