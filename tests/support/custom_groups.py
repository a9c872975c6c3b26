"""The groups of real definitions of custom resources."""

from collections import defaultdict
from functools import cache
from typing import Any

from apidiscovery_client.model import Group, Resource
from apidiscovery_client.testing import group, resource
from crd_goldens import manifests


@cache
def custom_groups() -> tuple[Group, ...]:
    """Return the groups of all real definitions, each version in the order it was defined."""
    found: defaultdict[str, dict[str, list[Resource]]] = defaultdict(dict)
    for manifest in manifests():
        spec = manifest["spec"]
        for version in spec["versions"]:
            if version["served"]:
                found[spec["group"]].setdefault(version["name"], []).append(_made(spec, version))
    return tuple(group(name, **versions) for name, versions in found.items())


def _made(spec: dict[str, Any], version: dict[str, Any]) -> Resource:
    names = spec["names"]
    return resource(
        names["plural"],
        names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        singular_name=names.get("singular"),
        short_names=names.get("shortNames", ()),
        categories=names.get("categories", ()),
        subresources=sorted(version.get("subresources", {})),
    )
