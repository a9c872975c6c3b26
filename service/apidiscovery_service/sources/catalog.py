"""The built-in APIs of Kubernetes, as a kube-apiserver of the packaged release serves them."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import orjson

from apidiscovery_service import releases
from apidiscovery_service.core.model import CORE_GROUP, Contribution, Offer, Precedence, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import Source
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.discovery_list import read_list
from apidiscovery_service.sources.fields import Node
from apidiscovery_service.sources.priorities import ordered_offers

SOURCE = "catalog"


class Catalog(Source):
    """Publishes the built-in group-versions of Kubernetes, which never change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def load(self) -> None:
        """Publish them."""
        self._registry.publish(await asyncio.to_thread(kubernetes_catalog))


def kubernetes_catalog() -> Contribution:
    """Return every built-in group-version of Kubernetes with its resources and priorities."""
    offers: list[Offer] = []
    for text in releases.read("api.v2.json", "apis.v2.json"):
        groups = read_list(Node(orjson.loads(text)))
        hashes = _storage_version_hashes(groups)
        offers += ordered_offers(
            [
                (group, tuple(_with_hashes(one, hashes[_key(group, one)]) for one in versions))
                for group, versions in groups
            ]
        )
    return Contribution(SOURCE, Precedence.CATALOG, tuple(offers))


def _key(group: str, version: Version) -> str:
    root = f"apis/{group}" if group != CORE_GROUP else "api"
    return f"{root}/{version.version}"


def _storage_version_hashes(
    groups: list[tuple[str, tuple[Version, ...]]],
) -> dict[str, dict[str, str]]:
    """Return the storage version hashes of group-versions by key and name of the resource.

    Only the unaggregated lists have them.
    """
    keys = [_key(group, version) for group, versions in groups for version in versions]
    lists = releases.read(*(f"lists/{key.replace('/', '__')}.json" for key in keys))
    return {
        key: {
            resource["name"]: resource["storageVersionHash"]
            for resource in orjson.loads(text)["resources"]
            if "storageVersionHash" in resource
        }
        for key, text in zip(keys, lists, strict=True)
    }


def _with_hashes(version: Version, hashes: Mapping[str, str]) -> Version:
    resources = [
        replace(resource, storage_version_hash=hashes.get(resource.resource, ""))
        for resource in version.resources
    ]
    return replace(version, resources=tuple(resources))


def catalog_recipe(key: str) -> Recipe | None:
    """Return the recipe of a packaged document by path, such as `apis/apps/v1`; None for none."""
    known = releases.openapi_hashes().get(key)
    if known is None:
        return None
    return Recipe(
        ("catalog", key), lambda: asyncio.to_thread(releases.openapi_document, key), known
    )
