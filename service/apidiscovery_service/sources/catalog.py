"""The built-in APIs of Kubernetes, as a kube-apiserver of a recorded release serves them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import orjson
from apidiscovery_releases import Release, newest

from apidiscovery_service.core.model import CORE_GROUP, Contribution, Offer, Precedence, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import Source
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.discovery_list import read_list
from apidiscovery_service.sources.fields import Node
from apidiscovery_service.sources.priorities import ordered_offers
from apidiscovery_service.sources.upstreams.discovery_answers import (
    Reading,
    read_core_versions,
    read_group_list,
    read_resource_list,
)

SOURCE = "catalog"

_Groups = list[tuple[str, tuple[Version, ...]]]


class Catalog(Source):
    """Publishes the built-in group-versions of a release of Kubernetes, which never change."""

    def __init__(self, registry: Registry, release: Release | None = None) -> None:
        """Take the registry, and the release; None for the newest that is recorded."""
        self._registry = registry
        self._release = release or newest()

    async def load(self) -> None:
        """Publish them."""
        made = await asyncio.to_thread(kubernetes_catalog, self._release)
        self._registry.publish(made)


def kubernetes_catalog(release: Release | None = None) -> Contribution:
    """Return every built-in group-version of Kubernetes with its resources and priorities.

    Args:
        release: Of Kubernetes; None for the newest that is recorded.
    """
    used = release or newest()
    offers: list[Offer] = []
    for path in ("/api", "/apis"):
        offers += ordered_offers(
            _aggregated(used, path) if used.aggregated_versions else _unaggregated(used, path)
        )
    return Contribution(SOURCE, Precedence.CATALOG, tuple(offers))


def _aggregated(release: Release, path: str) -> _Groups:
    """Return the groups of an aggregated document, with the hashes that only the lists have."""
    text = release.aggregated(path, release.aggregated_versions[0])
    groups = read_list(Node(orjson.loads(text)))
    return [
        (group, tuple(_with_hashes(one, _hashes(release, group, one)) for one in versions))
        for group, versions in groups
    ]


def _unaggregated(release: Release, path: str) -> _Groups:
    """Return the groups of a release without aggregated documents (1.26 and older)."""
    read = read_core_versions if path == "/api" else read_group_list
    return [
        (
            group.name,
            tuple(
                read_resource_list(name, release.plain(_list_path(group.name, name)))
                for name in group.versions
            ),
        )
        for group in read(release.plain(path), Reading(core=path == "/api"))
    ]


def _list_path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group != CORE_GROUP else f"/api/{version}"


def _hashes(release: Release, group: str, version: Version) -> dict[str, str]:
    """Return the storage version hashes of a group-version by name of the resource."""
    listed = orjson.loads(release.plain(_list_path(group, version.version)))
    return {
        resource["name"]: resource["storageVersionHash"]
        for resource in listed["resources"]
        if "storageVersionHash" in resource
    }


def _with_hashes(version: Version, hashes: Mapping[str, str]) -> Version:
    resources = [
        replace(resource, storage_version_hash=hashes.get(resource.resource, ""))
        for resource in version.resources
    ]
    return replace(version, resources=tuple(resources))


def catalog_recipe(key: str, release: Release | None = None) -> Recipe | None:
    """Return the recipe of a recorded document by path, such as `apis/apps/v1`; None for none.

    Args:
        key: The path.
        release: Of Kubernetes; None for the newest that is recorded.
    """
    used = release or newest()
    known = used.openapi_hashes.get(key)
    if known is None:
        return None
    return Recipe(
        ("catalog", used.name, key), lambda: asyncio.to_thread(used.openapi_v3, key), known
    )
