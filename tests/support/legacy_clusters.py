"""Recorded answers of old clusters, and Kubernetes' own conversion of them."""

import json
import tarfile
from collections.abc import Mapping
from functools import cache
from typing import cast

from repository import GOLDEN

FOLDER = GOLDEN / "legacy-clusters"
CLUSTERS = ("kubernetes-v1.7.0", "kubernetes-v1.15.0", "openshift-v4.1.0-rc.3")


@cache
def recorded(cluster: str) -> Mapping[str, bytes]:
    """Return the answers of a cluster, by path."""
    if (folder := FOLDER / cluster).is_dir():
        return {
            f"/{file.parent.relative_to(folder)}": file.read_bytes()
            for file in folder.rglob("index.json")
        }
    return {
        f"/{name.removesuffix('/index.json')}": data
        for name, data in _files("recorded", cluster)
        if name.endswith("/index.json")
    }


@cache
def converted(cluster: str) -> Mapping[str, Mapping[str, object]]:
    """Return the version entries of an aggregated document, by the path of the group-version."""
    return {
        "/" + name.removesuffix(".json").replace("__", "/"): cast(
            "Mapping[str, object]", json.loads(data)
        )
        for name, data in _files("converted", cluster)
    }


def _files(archive: str, cluster: str) -> list[tuple[str, bytes]]:
    found: list[tuple[str, bytes]] = []
    with tarfile.open(FOLDER / f"{archive}.tar.xz") as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            content = tar.extractfile(member) if name.startswith(f"{cluster}/") else None
            if content:
                found.append((name.removeprefix(f"{cluster}/"), content.read()))
    return found
