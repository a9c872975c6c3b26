"""The APIs of this server itself: StorageVersions, and read-only the leases of API servers.

Sources: kubernetes/kubernetes pkg/registry/apiserverinternal/storageversion/storage/storage.go and
pkg/controlplane/apiserver/server.go. Leases are written by heartbeats alone, so only their reading
verbs are offered.
"""

import asyncio
from functools import cache
from importlib.resources import files

import orjson
from apidiscovery_formats.openapi.keys import key_of

from apidiscovery_service.core.model import (
    Contribution,
    GroupVersionKind,
    Precedence,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.source import Source
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.sources.priorities import ordered_offers

SOURCE = "storage-versions"
GROUP, VERSION = "internal.apiserver.k8s.io", "v1alpha1"
LEASE_GROUP, LEASE_VERSION = "coordination.k8s.io", "v1"

_KEY = key_of(GROUP, VERSION)
_SCHEMA = files("apidiscovery_service.sources") / "storage_version_crd.json"
_READING = ("get", "list", "watch")


def storage_version_api() -> Contribution:
    """Return the group-versions of StorageVersions and leases."""
    storage_version = Resource(
        "storageversions",
        _kind("StorageVersion"),
        Scope.CLUSTER,
        "storageversion",
        ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
        subresources=(Subresource("status", _kind("StorageVersion"), ("get", "patch", "update")),),
        storage_version_hash=storage_version_hash(GROUP, VERSION, "StorageVersion"),
    )
    lease = Resource(
        "leases",
        _kind("Lease"),
        Scope.NAMESPACED,
        "lease",
        _READING,
        storage_version_hash=storage_version_hash(LEASE_GROUP, LEASE_VERSION, "Lease"),
    )
    offers = ordered_offers(
        [
            (LEASE_GROUP, (Version(LEASE_VERSION, (lease,)),)),
            (GROUP, (Version(VERSION, (storage_version,)),)),
        ]
    )
    return Contribution(SOURCE, Precedence.BUILTIN, tuple(offers))


class StorageVersionApi(Source):
    """Publishes the group-versions that this server itself serves."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def load(self) -> None:
        """Publish them."""
        self._registry.publish(storage_version_api())


def storage_version_recipe(key: str) -> Recipe | None:
    """Return the recipe of the document of StorageVersions; None for any other path."""
    if key != _KEY:
        return None
    return Recipe(("storage-versions", key), lambda: asyncio.to_thread(_document))


@cache
def _document() -> bytes:
    spec = orjson.loads(_SCHEMA.read_bytes())["spec"]
    definition = Definition(
        orjson.dumps(spec["versions"][0]),
        0,
        spec["scope"],
        "storageversions",
        "StorageVersion",
        "StorageVersionList",
    )
    return crd_document(GROUP, VERSION, [definition])


def _kind(kind: str) -> GroupVersionKind:
    """Return a kind of the enclosing group and version."""
    return GroupVersionKind("", "", kind)
