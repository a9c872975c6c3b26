"""The OpenAPI documents of each mirrored server by itself, as it publishes them."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from apidiscovery_service.openapi.documents import Documents, Limits
from apidiscovery_service.openapi.entries import group_of
from apidiscovery_service.openapi.making import Observer
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.upstreams.openapi import UpstreamDocuments
from apidiscovery_service.sources.upstreams.openapi_record import Published

# Documents of other clusters are read from the store again.
_MAX_CLUSTERS = 128
_CACHE_BYTES = 1024 * 1024


class ClusterDocuments:
    """Keeps the documents of the clusters that were asked for last.

    Args:
        upstreams: What all of them publish.
        observe: Called with what was made and the seconds it took.
    """

    def __init__(self, upstreams: UpstreamDocuments, observe: Observer) -> None:
        self._upstreams = upstreams
        self._observe = observe
        self._kept: OrderedDict[str, tuple[Published, Documents]] = OrderedDict()

    def of(self, name: str) -> Documents | None:
        """Return the documents of a cluster, by its name; None while none are known.

        It is the same object until the cluster publishes other documents.
        """
        source = f"upstream:{name}"
        published = self._upstreams.published(source)
        if published is None:
            return None
        known, documents = self._kept.get(name, (None, None))
        if documents is None or known is not published:
            recipes = FixedRecipes(self._upstreams.all_of(source))
            documents = Documents(recipes, self._observe, limits=Limits(cache_bytes=_CACHE_BYTES))
            self._kept[name] = published, documents
        self._kept.move_to_end(name)
        if len(self._kept) > _MAX_CLUSTERS:
            self._kept.popitem(last=False)
        return documents


class FixedRecipes:
    """Recipes that stay as they are: those of one server's documents.

    Args:
        recipes: By path.
    """

    def __init__(self, recipes: Mapping[str, Recipe]) -> None:
        self._by_group: dict[str | None, dict[str, Recipe]] = {}
        for key, recipe in recipes.items():
            self._by_group.setdefault(group_of(key), {})[key] = recipe

    def groups(self) -> Iterable[str]:
        """Return the groups that have documents."""
        return [group for group in self._by_group if group is not None]

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        """Return the recipes of a group by path."""
        return self._by_group.get(group, {})

    def common(self) -> Mapping[str, Recipe]:
        """Return the recipes of paths that belong to no group."""
        return self._by_group.get(None, {})
