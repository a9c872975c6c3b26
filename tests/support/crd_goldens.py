"""Real definitions, and the OpenAPI documents that Kubernetes publishes for them."""

import gzip
import json
import re
import tarfile
from functools import cache
from typing import Any, Literal

import orjson
from apidiscovery_formats import yaml_text
from apidiscovery_service.openapi.crd.document import Definition, crd_document
from crd_manifests import simple
from repository import GOLDEN

_FOLDER = GOLDEN / "crds"


@cache
def _recorded() -> dict[str, bytes]:
    """Return the answers of a kube-apiserver 1.36 with all definitions, by file name."""
    with tarfile.open(_FOLDER / "kubernetes-1.36.tar.xz") as archive:
        return {
            member.name: content.read()
            for member in archive
            if (content := archive.extractfile(member)) is not None
        }


def discovery() -> bytes:
    """Return its aggregated discovery, Kubernetes' own groups included."""
    return _recorded()["apis.v2.json"]


def index() -> bytes:
    """Return its index of documents, those of Kubernetes' own groups included."""
    return _recorded()["openapi.v3.index.json"]


@cache
def hashes() -> dict[str, str]:
    """Return the hash of each of its documents by key, such as `apis/cert-manager.io/v1`."""
    return {
        key: entry["serverRelativeURL"].partition("?hash=")[2]
        for key, entry in json.loads(index())["paths"].items()
    }


def group_versions() -> list[tuple[str, str]]:
    """Return the group-versions of definitions."""
    names = [name for name in sorted(_recorded()) if name.endswith(".json")]
    keys = [name.removesuffix(".json").split("__")[1:] for name in names if "__" in name]
    return [(group, version) for group, version in keys]


def document(key: str, form: Literal["json", "pb"] = "json") -> bytes:
    """Return the document of a group-version of definitions."""
    return _recorded()[f"openapi/{key.replace('/', '__')}.{form}"]


@cache
def manifests() -> tuple[dict[str, Any], ...]:
    """Return all definitions."""
    found: list[Any] = []
    for file in sorted((_FOLDER / "manifests").glob("*.yaml.gz")):
        text = gzip.decompress(file.read_bytes()).decode()
        found += [yaml_text.load(one) for one in re.split(r"^---$", text, flags=re.MULTILINE)]
    return tuple(one for one in found if one)


def definition(document: dict[str, Any], version: str = "v1") -> Definition:
    """Return a version of a definition, with the names in its `spec`."""
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


def thing_document(schema: object) -> bytes:
    """Return the document of a definition of `Thing` in `a.example/v1` with a schema."""
    crd = simple("things")
    crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    return crd_document("a.example", "v1", [definition(crd)])
