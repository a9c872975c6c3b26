"""The matrix of the service equals that of a client that asks the cluster itself."""

import os
import subprocess
import sys

from apidiscovery_client import DiscoveryClient
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_formats import matrix
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.sources.upstreams.discovery_answers import Reading, read_aggregated
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits
from fake_api_server import FakeApiServer, builtin
from fleet_clusters import fleet_of
from repository import GOLDEN

HASH = """
from apidiscovery_formats.matrix import Cell, group_hash
print(group_hash({"jobs": Cell(("v1",), "v1", "Job", verbs=("get", "list", "watch"))}))
"""


def test_rows_and_columns_are_those_that_a_client_makes() -> None:
    core, named = (
        read_aggregated((GOLDEN / "builtin" / f"{name}.v2.json").read_bytes(), reading)
        for name, reading in (
            ("api", Reading(UpstreamLimits(), core=True)),
            ("apis", Reading(UpstreamLimits())),
        )
    )
    scope = fleet_of(Cluster("east", SourceStatus("upstream:east"), {}, core, named)).scope()
    with FakeApiServer(builtin()) as server, DiscoveryClient(server.url) as client:
        asked = cluster_of("east", client.snapshot(), {})

    assert scope.matrix().rows == matrix.make([asked]).rows
    assert scope.columns() == (asked.column,)


def test_the_hash_of_a_group_is_the_same_in_every_process() -> None:
    """The order of sets depends on the hash seed of a process."""
    done = subprocess.run(  # noqa: S603 - our own arguments
        [sys.executable, "-c", HASH],
        check=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "1"},
        text=True,
    )
    cell = matrix.Cell(("v1",), "v1", "Job", verbs=("watch", "get", "list"))
    assert done.stdout.strip() == matrix.group_hash({"jobs": cell})
