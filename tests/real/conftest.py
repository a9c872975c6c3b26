"""Real kube-apiservers, one of each release for all tests of a file."""

from collections.abc import Iterator
from functools import partial

import pytest
from real_cluster import CRDS, NEWEST, RELEASES, RealCluster, path_of, running
from server import eventually


def _started(release: str, factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    with running(release, factory.mktemp("real")) as cluster:
        for crd in CRDS:  # one after the other, so that it is known which is first
            cluster.apply(crd)
            path = path_of(crd)
            eventually(partial(cluster.conditions, path), 30, "the CRD has a status")
        for document in ("example.com/v1", "many.example.com/v1beta1"):
            path = f"/openapi/v3/apis/{document}"
            eventually(partial(cluster.has, path), 30, path)
        yield cluster


@pytest.fixture(scope="session", params=RELEASES)
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealCluster]:
    """Return a server of each release, with definitions that want the same kind."""
    yield from _started(request.param, tmp_path_factory)


@pytest.fixture(scope="session")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealCluster]:
    """Return the same of the newest release."""
    yield from _started(NEWEST, tmp_path_factory)
