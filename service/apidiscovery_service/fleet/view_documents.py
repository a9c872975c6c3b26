"""The OpenAPI documents of views: of each group-version that of the first cluster by name."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from apidiscovery_formats.openapi.keys import group_of, key_of

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP, Group
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.making import Observer
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.recent import Recent

# Documents of other views are read from the store again.
_MAX_VIEWS = 32
_CACHE_BYTES = 4 * 1024 * 1024


class Published(Protocol):
    """What clusters publish, by their sources."""

    def recipe(self, source: str, key: str) -> Recipe | None:
        """Return the document that a source publishes for a path; None for none."""
        ...

    def all_of(self, source: str) -> Mapping[str, Recipe]:
        """Return all documents that a source publishes, by path."""
        ...

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call a listener with the groups whose documents have changed."""
        ...


class ViewDocuments:
    """Keeps the documents of the views that were asked for last. Used in the event loop.

    Args:
        published: What the clusters publish.
        observe: Called with what was made and the seconds it took.
    """

    def __init__(self, published: Published, observe: Observer) -> None:
        self._published = published
        self._observe = observe
        self._kept: Recent[tuple[Scope, str], _View] = Recent(_MAX_VIEWS)
        published.on_change(self._changed)

    def of(self, scope: Scope, name: str, encoded: EncodedSnapshot) -> Documents:
        """Return the documents of a view, always the same object while it is kept.

        Args:
            scope: The scope of the caller.
            name: The name of the view, which is there.
            encoded: Its documents of discovery.
        """
        key = scope, name
        found = self._kept.get(key)
        if found is None:
            found = _View(self._published, self._observe)
            self._kept.put(key, found)
        found.take(scope.view_clusters(name), encoded)
        return found.documents

    def _changed(self, groups: frozenset[str]) -> None:
        for view in self._kept.values():
            view.documents.changed(groups)


class _View:
    """The recipes of one view, and the documents that they make."""

    def __init__(self, published: Published, observe: Observer) -> None:
        self._published = published
        self._clusters: Mapping[str, Cluster] = {}
        self._groups: Mapping[str, Group] = {}
        self.documents = Documents(self, observe, cache_bytes=_CACHE_BYTES)

    def take(self, clusters: Mapping[str, Cluster], encoded: EncodedSnapshot) -> None:
        """Take what the view is made of now."""
        if clusters is self._clusters:
            return
        before = self._groups
        served = (*encoded.snapshot.core.groups, *encoded.snapshot.named.groups)
        self._clusters, self._groups = clusters, {each.name: each.group for each in served}
        self.documents.changed(before.keys() | self._groups.keys())

    def groups(self) -> Iterable[str]:
        return self._groups

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        served = self._groups.get(group)
        missing = {v.version for v in served.versions} if served else set[str]()
        found: dict[str, Recipe] = {}
        for cluster in self._clusters.values():
            if not missing:
                break
            for version in missing & _versions(cluster, group):
                key = key_of(group, version)
                recipe = self._published.recipe(cluster.status.name, key)
                if recipe is not None:
                    found[key] = recipe
                    missing.discard(version)
        return found

    def common(self) -> Mapping[str, Recipe]:
        for cluster in self._clusters.values():
            documents = self._published.all_of(cluster.status.name)
            if documents:
                return {key: each for key, each in documents.items() if group_of(key) is None}
        return {}


def _versions(cluster: Cluster, group: str) -> set[str]:
    groups = (cluster.core or ()) if group == CORE_GROUP else (cluster.named or ())
    return {v.version for each in groups if each.name == group for v in each.versions}
