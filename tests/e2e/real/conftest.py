"""Real kube-apiservers, one for each file of tests, of the release that it names."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from real_cluster import CRDS, RealCluster, path_of, running
from server import Server, serving
from waiting import eventually

pytest.register_assert_rewrite("real_checks")

# Each server takes half a minute of a core.
_ALWAYS = "test_1_36.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name != _ALWAYS:
            item.add_marker("long")


@pytest.fixture(scope="module")
def cluster(release: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Return a server of the release, with definitions that want the same kind."""
    with running(release, tmp_path_factory.mktemp("real")) as cluster:
        for crd in CRDS:  # one after the other, so that it is known which is first
            cluster.create(crd)
            path = path_of(crd)
            eventually(partial(cluster.conditions, path), "the CRD has a status")
        for document in ("example.com/v1", "many.example.com/v1beta1"):
            path = f"/openapi/v3/apis/{document}"
            eventually(partial(cluster.has, path), path)
        yield cluster


@pytest.fixture(scope="module")
def mirror(cluster: RealCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that mirrors it."""
    flags = ("--catalog", "none", "--store", "memory", "--kubeconfig", str(cluster.kubeconfig))
    with serving(tmp_path_factory.mktemp("mirror"), *flags) as server:
        yield server
