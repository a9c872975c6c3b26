"""With everything on, a kube-apiserver serves what is told of its release with all versions."""

from pathlib import Path

import pytest
from apidiscovery_client import DiscoveryClient
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.releases import release as release_of
from real_cluster import running

EVERYTHING = (
    "--runtime-config=api/all=true",
    "--feature-gates=AllAlpha=true,AllBeta=true",
)


def resources(found: Snapshot) -> dict[str, tuple[object, ...]]:
    """Return what is told of each resource and subresource, but for hashes."""
    told: dict[str, tuple[object, ...]] = {}
    for one in found.resources:
        words = (one.short_names, one.categories)
        told[str(one.gvr)] = (one.kind, set(one.verbs), one.scope, *words)
        for below in one.subresources:
            kind = below.response_kind.kind if below.response_kind else ""
            told[f"{one.gvr}/{below.name}"] = (kind, set(below.verbs))
    return told


@pytest.mark.parametrize("release", ["1.25", "1.27", "1.31", "1.36"])
def test_everything_is_told(release: str, tmp_path: Path) -> None:
    told = release_of(release, all_versions=True)
    with (
        running(release, tmp_path, *EVERYTHING) as cluster,
        DiscoveryClient.from_kubeconfig(cluster.kubeconfig) as client,
    ):
        served = client.snapshot()
    assert resources(told) == resources(served)
    assert [group.name for group in told.groups] == [group.name for group in served.groups]
