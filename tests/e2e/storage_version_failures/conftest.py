"""Replicas on SQLite and on etcd, and one process that migrates all the time."""

import sys
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from etcd import EtcdServer
from storage_version_cluster import Cluster

SEED = 2339


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServer]:
    with EtcdServer(tmp_path_factory.mktemp("etcd")) as server:
        yield server


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.long), "etcd"])
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """Return a cluster in which nothing runs yet."""
    store = f"sqlite:{tmp_path / 'store.sqlite'}"
    if request.param == "etcd":
        server: EtcdServer = request.getfixturevalue("etcd")
        store = f"etcd://{server.endpoint}/{uuid.uuid4().hex}"
    sys.stdout.write(f"seed {SEED}\n")
    async with Cluster(tmp_path / "cluster", store, SEED) as started:
        yield started
