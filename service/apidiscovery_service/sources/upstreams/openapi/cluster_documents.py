"""The OpenAPI documents of each mirrored server by itself, as it publishes them."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from apidiscovery_formats.openapi.keys import group_of

from apidiscovery_service.core.source import UPSTREAM
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.openapi.body import Body, DocumentForm, Index, Packed, PackedBody
from apidiscovery_service.openapi.body_cache import WHOLE_KEY
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.making import DocumentUnavailable, Observer
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.recent import Recent
from apidiscovery_service.sources.upstreams.openapi.documents import UpstreamDocuments
from apidiscovery_service.sources.upstreams.openapi.record import OwnV2, Published

# Documents of other clusters are read from the store again.
_MAX_CLUSTERS = 128
_CACHE_BYTES = 1024 * 1024


class ClusterDocuments:
    """Keeps the documents of the clusters that were requested last.

    Args:
        upstreams: The documents of all of them.
        observe: Called with the kind of a document that was made, and the seconds it took.
    """

    def __init__(self, upstreams: UpstreamDocuments, observe: Observer) -> None:
        self._upstreams = upstreams
        self._observe = observe
        self._kept: Recent[str, OfCluster] = Recent(_MAX_CLUSTERS)

    @property
    def revision(self) -> int:
        """A counter that changes when any cluster publishes other documents."""
        return self._upstreams.revision

    def of(self, name: str) -> "OfCluster | None":
        """Return the documents of a cluster, by its name; None while none are known.

        It is the same object until the cluster publishes other documents.
        """
        source = f"{UPSTREAM}{name}"
        published = self._upstreams.published(source)
        if published is None or not published.is_known:
            return None
        found = self._kept.get(name)
        if found is None or found.published is not published:
            recipes = FixedRecipes(self._upstreams.all_of(source))
            documents = Documents(recipes, self._observe, cache_bytes=_CACHE_BYTES)
            found = OfCluster(documents, published, partial(self._upstreams.v2, source))
            self._kept.put(name, found)
        return found


class OfCluster:
    """The documents of one cluster.

    Args:
        documents: Its v3 documents.
        published: The index of them.
        own_v2: Returns the v2 document that it published; None if none is kept.

    Attributes:
        published: The index.
    """

    def __init__(
        self,
        documents: Documents,
        published: Published,
        own_v2: Callable[[], Awaitable[Packed | None]],
    ) -> None:
        self.published = published
        self._documents = documents
        self._own_v2 = own_v2

    @property
    def is_untyped(self) -> bool:
        """Whether it names media types as kube-apiservers before 1.27."""
        return self.published.is_untyped

    @property
    def generation(self) -> int:
        """A counter that changes with any answer."""
        return self._documents.generation

    async def index(self) -> Index:
        """Return the list of all v3 documents."""
        return await self._documents.index()

    async def hash_of(self, key: str) -> str | None:
        """Return the hash of a v3 document, as `Documents.hash_of`."""
        return await self._documents.hash_of(key)

    async def body(self, key: str, form: DocumentForm, coding: Coding) -> Body | None:
        """Return a v3 document, as `Documents.body`."""
        return await self._documents.body(key, form, coding)

    async def merged_v2(self, form: DocumentForm, coding: Coding) -> Body | PackedBody | None:
        """Return the v2 document that the cluster published; None if it has none.

        Of a cluster of which only a part is taken, it is merged from the v3 documents of that part.

        Raises:
            DocumentUnavailable: It has not been read yet.
            DocumentGone: It is not in the store.
            InvalidOpenAPI: It cannot be encoded in that form.
            StoreUnavailable: It cannot be read now.
            BadRecord: It is damaged.
        """
        state = self.published.v2_state
        if state is OwnV2.PARTLY:
            return await self._documents.merged_v2(form, coding)
        if state is OwnV2.NONE:
            return None
        packed = await self._own_v2()
        if packed is None:
            reason = self.published.v2_error or "it has not been read from the cluster yet"
            raise DocumentUnavailable(WHOLE_KEY, reason)
        return await self._documents.v2_body(packed, form, coding)


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
