"""A kube-apiserver 1.36: its clients, definitions there and here, servers behind its aggregator."""

import asyncio
import json
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

import pytest
import yaml
from apidiscovery_client import AsyncDiscoveryClient, DiscoveryClient, NotServed
from certificates import Authority
from command_line import run
from media_types import JSON_V2
from programs import free_port
from real_checks import ReleaseChecks
from real_cluster import CRDS, RealCluster, definition, path_of, registered
from server import serving
from waiting import eventually

KIT = """
import sys
from collections.abc import Mapping
from operator import itemgetter
from pathlib import Path
from granian import Granian
from granian.constants import Interfaces
from apidiscovery_service.extension_server import ApiGroup, ApiResource, ApiVersion, discovery_app

SCHEMA = {"type": "object", "properties": {"depth": {"type": "integer", "description": "In mm."}}}
GROOVES = ApiResource("grooves", "Groove", short_names=("gv",), schema=SCHEMA)
app = discovery_app([ApiGroup("kit.example.dev", [ApiVersion("v1", [GROOVES])])])

if __name__ == "__main__":
    port, (cert, key) = int(sys.argv[1]), map(Path, sys.argv[2:])
    tls = {"ssl_cert": cert, "ssl_key": key}
    Granian("kit:app", "127.0.0.1", port, interface=Interfaces.ASGI, **tls).serve()
"""


@pytest.fixture(scope="module")
def release() -> str:
    """Return the release of Kubernetes."""
    return "1.36"


class TestRelease(ReleaseChecks):
    """What is checked with each release."""


# --------------------------------------------------------------------------------------------------
# Clients.


def connected(cluster: RealCluster) -> DiscoveryClient:
    return DiscoveryClient(kubeconfig=str(cluster.kubeconfig))


def test_a_client_asks_twice_and_then_gets_304(cluster: RealCluster) -> None:
    with connected(cluster) as client:
        client.snapshot()
        cold = client.traffic
        assert (cold.requests, cold.not_modified) == (2, 0)
        size = cold.body_bytes
        client.refresh()
        warm = client.traffic
        assert (warm.requests, warm.not_modified, warm.body_bytes) == (4, 2, size)


def test_a_client_resolves_as_kubectl(cluster: RealCluster) -> None:
    with connected(cluster) as client:
        for text in ("deploy", "po", "widget.example.com", "events", "crd"):
            found = client.resolve(text).resource
            # -v 6 tells the URL; nothing is there, and nothing has to be.
            told = cluster.kubectl("get", text, "-A", "-v", "6").stderr
            assert f"{found.gv.path}/{found.name}?limit=500" in told
        with pytest.raises(NotServed):
            client.resolve("gadgets")  # whose names are taken


async def test_a_client_waits_for_a_definition_and_sees_it_come_and_go(
    cluster: RealCluster,
) -> None:
    crd = definition("gizmos", "Gizmo", "v1")
    seen: list[str] = []
    came = asyncio.Event()

    async def watch(client: AsyncDiscoveryClient) -> None:
        async for change in client.watch(interval_s=0.1):
            seen.append(str(change))
            if "gizmos" in str(change):
                came.set()

    async with AsyncDiscoveryClient(kubeconfig=str(cluster.kubeconfig)) as client:
        await client.snapshot()
        watching = asyncio.create_task(watch(client))
        await asyncio.to_thread(cluster.create, crd)
        found = await client.wait_for("gizmos.example.com", timeout_s=20)
        assert found.resource.name == "gizmos"
        await asyncio.wait_for(came.wait(), 20)
        watching.cancel()
    assert cluster.kubectl("delete", "crd", "gizmos.example.com").exit_code == 0


# --------------------------------------------------------------------------------------------------
# Definitions in both.


def test_definitions_have_the_same_conditions_here_and_there(
    cluster: RealCluster, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "crds.yaml"
    with serving(tmp_path, "--store", "memory") as server:
        for crd in CRDS:  # one after the other, as there
            file.write_text(yaml.safe_dump(crd), encoding="utf-8")
            run(capsys, "apply", "-f", str(file), "--grpc-server", server.grpc)
        listed = run(capsys, "get", "crds", "-o", "json", "--grpc-server", server.grpc)
    ours = json.loads(listed.stdout)
    statuses = {one["metadata"]["name"]: one["status"] for one in ours["items"]}
    for crd in CRDS:
        theirs = cluster.get(path_of(crd)).json()
        found = statuses[theirs["metadata"]["name"]]
        for status in (theirs["status"], found):
            for condition in status["conditions"]:
                condition.pop("lastTransitionTime")
                condition.pop("observedGeneration", None)
            status["conditions"].sort(key=itemgetter("type"))
        assert found["conditions"] == theirs["status"]["conditions"]
        assert found["acceptedNames"] == theirs["status"]["acceptedNames"]
        assert found["storedVersions"] == theirs["status"]["storedVersions"]


# --------------------------------------------------------------------------------------------------
# Behind the aggregator.


def see_it_aggregated(cluster: RealCluster, group: str, resource: str, field: str) -> None:
    """See that a group is available, discovered with its resource, and explained."""
    path = f"/apis/apiregistration.k8s.io/v1/apiservices/v1.{group}"

    def is_discovered() -> bool:
        groups = cluster.get("/apis", JSON_V2).json()["items"]
        return any(
            version["freshness"] == "Current" and resource in str(version.get("resources"))
            for one in groups
            if one["metadata"]["name"] == group
            for version in one["versions"]
        )

    def is_available() -> bool:
        return cluster.conditions(path).get("Available", ("",))[0] == "True"

    eventually(is_available, f"{group} is available")
    eventually(is_discovered, f"{group} is discovered")
    assert cluster.get(f"/apis/{group}/v1").json()["resources"][0]["name"] == resource
    document = f"/openapi/v3/apis/{group}/v1"
    eventually(lambda: cluster.get(document).status == 200, "the document is served", 60)
    for explain in (cluster.kubectl, cluster.apidiscovery):
        assert field in explain("explain", f"{resource}.{group}").stdout


def test_the_kit_behind_the_aggregator(cluster: RealCluster, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair, port = authority.server(["localhost", "kit.default.svc"]), free_port()
    (tmp_path / "kit.py").write_text(KIT, encoding="utf-8")
    with subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "kit.py", str(port), str(pair.cert_file), str(pair.key_file)],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            cluster.create(*registered("kit.example.dev", port, authority))
            see_it_aggregated(cluster, "kit.example.dev", "grooves", "depth")
        finally:
            process.terminate()
    cluster.kubectl("delete", "apiservice", "v1.kit.example.dev")


def test_serve_behind_the_aggregator(cluster: RealCluster, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["localhost", "127.0.0.1", "served.default.svc"])
    crd = definition("slots", "Slot", "v1", group="served.example.dev")
    manifests = tmp_path / "slots.yaml"
    manifests.write_text(yaml.safe_dump(crd), encoding="utf-8")
    flags = ("--tls-cert-file", str(pair.cert_file), "--tls-private-key-file", str(pair.key_file))
    folder = tmp_path / "serve"
    folder.mkdir()
    with serving(
        folder, "--catalog", "none", "--manifests", str(manifests), "--store", "memory", *flags
    ) as server:
        cluster.create(*registered("served.example.dev", server.http_port, authority))
        see_it_aggregated(cluster, "served.example.dev", "slots", "size")
    cluster.kubectl("delete", "apiservice", "v1.served.example.dev")
