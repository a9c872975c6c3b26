"""The recipes of OpenAPI documents, by the source that serves each group-version.

A document that the source publishes comes first. Documents of CustomResourceDefinitions are made as
Kubernetes makes them. All others are generated from discovery.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Final, Protocol

import zstandard
from apidiscovery_formats.openapi.keys import group_of, key_of, prefix_of
from apidiscovery_releases import Release, newest

from apidiscovery_service import workers
from apidiscovery_service.core.model import CORE_GROUP, Group, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from apidiscovery_service.openapi.generated import generated_document
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources import catalog, storage_version_api
from apidiscovery_service.sources.catalog import catalog_recipe
from apidiscovery_service.sources.crds.model import Names
from apidiscovery_service.sources.crds.names import ESTABLISHED
from apidiscovery_service.sources.declarations import Declarations, crd_source

_NOT_PUBLISHED: Final = "from discovery, for the source publishes no document"
_FAILED: Final = "from discovery, for the document cannot be made"

# The document of so many resources takes up to 5 ms, and needs no worker process.
_INLINE_RESOURCES: Final = 8


class PublishedDocuments(Protocol):
    """The documents of other API servers."""

    def recipe(self, source: str, key: str) -> Recipe | None:
        """Return the document that a source publishes for a path; None for none."""
        ...

    def common(self) -> Mapping[str, Recipe]:
        """Return the documents of paths without a group."""
        ...

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` with the groups whose documents have changed, come or gone."""
        ...


@dataclass(frozen=True, slots=True)
class _Defined:
    """The part of a CustomResourceDefinition's version that its document depends on."""

    packed: bytes
    index: int
    scope: str
    accepted: Names


class DocumentRecipes:
    """The recipes of everything that a registry serves. It belongs to the registry's thread."""

    def __init__(
        self,
        registry: Registry,
        declarations: Declarations,
        upstreams: PublishedDocuments | None = None,
        observe_crd: Callable[[float], None] = lambda _: None,
        release: Release | None = None,
    ) -> None:
        """Take the parts that recipes are made from.

        Args:
            registry: What is served, and by which source.
            declarations: The CustomResourceDefinitions, and the documents of origins.
            upstreams: The documents of other API servers; None if there are none.
            observe_crd: Called with the seconds that a document of CustomResourceDefinitions took.
            release: The release whose documents the catalogue has; None for the newest.
        """
        self._registry = registry
        self._declarations = declarations
        self._upstreams = upstreams
        self._observe_crd = observe_crd
        self._release = release or newest()

    def on_change(self, listener: Callable[[Iterable[str]], None]) -> None:
        """Call `listener` with the groups whose recipes may differ, after every change."""
        self._registry.on_touched(lambda groups, _causes: listener(groups))
        self._declarations.on_documents(listener)
        if self._upstreams:
            self._upstreams.on_change(listener)

    def groups(self) -> Iterable[str]:
        """Return the names of all groups that are served; empty text is the core group."""
        snapshot = self._registry.snapshot
        return [*snapshot.core.by_name, *snapshot.named.by_name]

    def of_group(self, group: str) -> Mapping[str, Recipe]:
        """Return the recipes of a group by path, for each version that is served.

        No document is made.
        """
        snapshot = self._registry.snapshot
        document = snapshot.core if group == CORE_GROUP else snapshot.named
        published = document.by_name.get(group)
        if published is None:
            return {}
        winners = self._registry.winners(group)
        recipes = self._versions(published.group, winners)
        above = self._above(group, winners) if group != CORE_GROUP else None
        return {**recipes, prefix_of(group): above} if above else recipes

    def _above(self, group: str, winners: Mapping[str, str]) -> Recipe | None:
        """Return the recipe of `apis/GROUP`, of a source that serves a version of the group."""
        key = prefix_of(group)
        if self._upstreams is not None:
            for source in dict.fromkeys(winners.values()):
                published = self._upstreams.recipe(source, key)
                if published is not None:
                    return published
        return self._of_catalog(key) if catalog.SOURCE in winners.values() else None

    def _versions(self, group: Group, winners: Mapping[str, str]) -> dict[str, Recipe]:
        defined: Mapping[str, tuple[_Defined, ...]] = {}
        if crd_source(group.name) in winners.values():
            defined = self._defined(group.name)
        recipes: dict[str, Recipe] = {}
        for version in group.versions:
            key, source = key_of(group.name, version.version), winners[version.version]
            if source == crd_source(group.name):
                recipe = self._of_crds(group.name, version.version, defined)
            else:
                recipe = self._published(source, key)
            # A release that published no document of a group-version has none here either.
            if recipe is not None or source != catalog.SOURCE:
                recipes[key] = _with_generated(recipe, group.name, version)
        return recipes

    def _published(self, source: str, key: str) -> Recipe | None:
        """Return the document that a source has for a group-version; None when it has none."""
        if source == catalog.SOURCE:
            return self._of_catalog(key)
        if source == storage_version_api.SOURCE:
            return storage_version_api.storage_version_recipe(key)
        declared = self._declarations.document(source, key)
        if declared is not None:
            return Recipe(
                ("declared", declared), lambda: asyncio.to_thread(zstandard.decompress, declared)
            )
        return self._upstreams.recipe(source, key) if self._upstreams else None

    def _of_catalog(self, key: str) -> Recipe | None:
        return catalog_recipe(key, self._release)

    def _defined(self, group: str) -> dict[str, tuple[_Defined, ...]]:
        """Return the established CustomResourceDefinitions of a group by version served."""
        found: dict[str, list[_Defined]] = {}
        statuses = self._declarations.statuses(group)
        for name, crd in sorted(self._declarations.crds(group).items()):
            status = statuses[name]
            if status.is_true(ESTABLISHED):
                for index, version in enumerate(crd.versions):
                    if version.served:
                        defined = _Defined(version.packed, index, crd.scope, status.accepted)
                        found.setdefault(version.name, []).append(defined)
        return {version: tuple(several) for version, several in found.items()}

    def _of_crds(
        self, group: str, version: str, defined: Mapping[str, tuple[_Defined, ...]]
    ) -> Recipe | None:
        definitions = defined.get(version)
        if not definitions:
            return None
        make = partial(self._make_crds, group, version, definitions)
        return Recipe(("crds", definitions), make)

    async def _make_crds(self, group: str, version: str, defined: tuple[_Defined, ...]) -> bytes:
        size = sum(zstandard.frame_content_size(one.packed) for one in defined)
        is_small = len(defined) <= _INLINE_RESOURCES and size <= workers.INLINE_BYTES
        make = partial(_crd_document, group, version, defined)
        made, seconds = make() if is_small else await workers.run(make)
        self._observe_crd(seconds)
        return made

    def common(self) -> Mapping[str, Recipe]:
        """Return the recipe of `version`, and with the catalogue all others without a group.

        Documents of upstreams come first, as everywhere.
        """
        keys: Iterable[str] = ("version",)
        if self._registry.contribution(catalog.SOURCE) is not None:
            keys = (key for key in self._release.openapi_hashes if group_of(key) is None)
        recipes = {key: made for key in keys if (made := self._of_catalog(key)) is not None}
        return {**recipes, **self._upstreams.common()} if self._upstreams else recipes


def _with_generated(recipe: Recipe | None, group: str, version: Version) -> Recipe:
    """Return a recipe that falls back to a generated document, or has only that."""
    if recipe is None:
        return _generated(_NOT_PUBLISHED, group, version)
    return replace(recipe, fallback=partial(_instead, group, version))


def _instead(group: str, version: Version, reason: str) -> Recipe:
    return _generated(f"{_FAILED}: {reason}", group, version)


def _generated(why: str, group: str, version: Version) -> Recipe:
    async def make() -> bytes:
        is_small = len(version.resources) <= _INLINE_RESOURCES
        document = partial(generated_document, group, version, why)
        return document() if is_small else await workers.run(document)

    # Without freshness: a stale version keeps its document.
    return Recipe(("generated", why, version.resources), make, note=why)


def _crd_document(group: str, version: str, defined: Iterable[_Defined]) -> tuple[bytes, float]:
    """Return a document, and the seconds that making it took."""
    start = perf_counter()
    made = crd_document(
        group,
        version,
        [
            Definition(
                zstandard.decompress(one.packed),
                one.index,
                one.scope,
                one.accepted.plural,
                one.accepted.kind,
                one.accepted.list_kind,
            )
            for one in defined
        ],
    )
    return made, perf_counter() - start
