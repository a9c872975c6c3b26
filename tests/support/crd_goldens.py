"""Real definitions, and the OpenAPI documents that Kubernetes publishes for them."""

import gzip
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import orjson
from apidiscovery_kubeconfig import yaml_text
from apidiscovery_service.openapi.crd.document import Definition

_FOLDER = Path(__file__).parent.parent / "golden" / "crds"


@cache
def hashes() -> dict[str, str]:
    """Return the hash of each document by its key, such as `apis/cert-manager.io/v1`."""
    index = json.loads((_FOLDER / "openapi" / "openapi.v3.index.json").read_bytes())
    return {
        key: entry["serverRelativeURL"].partition("?hash=")[2]
        for key, entry in index["paths"].items()
    }


def group_versions() -> list[tuple[str, str]]:
    """Return the group-versions that are made of definitions."""
    found = [key.split("/")[1:] for key in hashes() if key.count("/") == 2]
    return [(group, version) for group, version in found if group != "apiextensions.k8s.io"]


def document(key: str) -> bytes:
    """Return a document that Kubernetes published."""
    name = key.replace("/", "__")
    return gzip.decompress((_FOLDER / "openapi" / f"{name}.json.gz").read_bytes())


@cache
def manifests() -> tuple[dict[str, Any], ...]:
    """Return all definitions as values."""
    found: list[Any] = []
    for file in sorted((_FOLDER / "manifests").glob("*.yaml.gz")):
        text = gzip.decompress(file.read_bytes()).decode()
        found += [yaml_text.load(one) for one in re.split(r"^---$", text, flags=re.MULTILINE)]
    return tuple(one for one in found if one)


def definition(document: dict[str, Any], version: str = "v1") -> Definition:
    """Return a version of a definition, with the names that it wants."""
    spec = document["spec"]
    names = spec["names"]
    index, found = next(
        (index, one) for index, one in enumerate(spec["versions"]) if one["name"] == version
    )
    return Definition(
        version=orjson.dumps(found),
        index=index,
        scope=spec["scope"],
        plural=names["plural"],
        kind=names["kind"],
        list_kind=names.get("listKind", f"{names['kind']}List"),
    )


def definitions(group: str, version: str) -> list[Definition]:
    """Return the real definitions of a group that serve a version."""
    return [
        definition(one, version)
        for one in manifests()
        if one["spec"]["group"] == group
        and any(v["name"] == version and v["served"] for v in one["spec"]["versions"])
    ]
