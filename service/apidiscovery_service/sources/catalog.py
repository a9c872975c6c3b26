"""The discovery of Kubernetes' own APIs, packaged.

`catalog_data/README.md` says where the documents are from.
"""

from dataclasses import replace
from importlib.resources import files
from typing import cast

import orjson

from apidiscovery_service.model import Contribution, Offer, Precedence, Version
from apidiscovery_service.sources.discovery_list import Node, read_list
from apidiscovery_service.sources.priorities import ordered_offers
from apidiscovery_service.storage_version import storage_version_hash

SOURCE = "catalog"

_DATA = files("apidiscovery_service.sources") / "catalog_data"


def kubernetes_catalog() -> Contribution:
    """Return every built-in group-version of Kubernetes with its resources and priorities."""
    storage = cast("dict[str, dict[str, str]]", _load("storage_versions.json"))
    offers: list[Offer] = []
    for name in ("api.json", "apis.json"):
        groups = [
            (group, tuple(_with_hashes(group, version, storage) for version in versions))
            for group, versions in read_list(Node(_load(name)))
        ]
        offers += ordered_offers(groups)
    return Contribution(SOURCE, Precedence.CATALOG, tuple(offers))


def _load(name: str) -> object:
    return cast("object", orjson.loads((_DATA / name).read_bytes()))


def _with_hashes(group: str, version: Version, storage: dict[str, dict[str, str]]) -> Version:
    """Return the version with the storage version hash of each persisted resource."""
    stored = storage.get(f"{group}/{version.version}".lstrip("/"), {})
    resources = [
        replace(resource, storage_version_hash=storage_version_hash(*stored[name].split("/")))
        if (name := resource.resource) in stored
        else resource
        for resource in version.resources
    ]
    return replace(version, resources=tuple(resources))
