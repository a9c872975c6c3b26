"""kubectl works with StorageVersions as it does with those of kube-apiserver."""

import json
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import programs
import pytest
from apidiscovery.service.v1 import storage_version_pb2
from apidiscovery.service.v1.storage_version_pb2_grpc import StorageVersionServiceStub
from command_line import Outcome
from raw_http import get, request
from server import DRAIN_S, Server, environment, serving
from waiting import WITHIN_S

from tools import find_tool

GATE = ("--feature-gates", "StorageVersionAPI=true", "--catalog", "none")
PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
FULL = "storageversion.internal.apiserver.k8s.io"
NAME = "apps.deployments"
MANIFEST = f"""\
apiVersion: internal.apiserver.k8s.io/v1alpha1
kind: StorageVersion
metadata:
  name: {NAME}
  labels:
    color: red
spec: {{}}
"""

Kubectl = Callable[..., Outcome]


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server that has StorageVersions."""
    with serving(tmp_path_factory.mktemp("gated"), *GATE) as server:
        yield server


@pytest.fixture
def kubectl(gated: Server, tmp_path: Path) -> Iterator[Kubectl]:
    """Return what runs kubectl in a folder with a manifest; afterwards there are no objects."""
    (tmp_path / "manifest.yaml").write_text(MANIFEST)

    def run(*args: str, fails: bool = False) -> Outcome:
        done = programs.kubectl(tmp_path, "--server", gated.url, *args)
        assert (done.exit_code != 0) is fails, done.stdout + done.stderr
        return done

    yield run
    assert request(gated.http_port, PATH, method="DELETE").status == 200


@pytest.fixture
def created(gated: Server, kubectl: Kubectl) -> Kubectl:
    """Return what runs kubectl where one object is."""
    body = json.dumps({"metadata": {"name": NAME, "labels": {"color": "red"}}}).encode()
    assert request(gated.http_port, PATH, method="POST", body=body).status == 201
    return kubectl


def labels(gated: Server) -> dict[str, str]:
    metadata = cast("dict[str, Any]", get(gated.http_port, f"{PATH}/{NAME}").json()["metadata"])
    return cast("dict[str, str]", metadata.get("labels", {}))


def test_get_and_describe_show_an_object_in_every_form(gated: Server, created: Kubectl) -> None:
    header, row = created("get", "storageversions").stdout.splitlines()
    assert header.split() == ["NAME", "COMMONENCODINGVERSION", "STORAGEVERSIONS", "AGE"]
    assert row.split()[:3] == [NAME, "<unset>", "<unset>"]
    assert created("get", FULL, "-o", "name").stdout == f"{FULL}/{NAME}\n"
    assert created("get", "storageversions", "--chunk-size=1", "--no-headers").stdout.split()[0]
    missing = created("get", "storageversion", "none.none", fails=True)
    assert "Error from server (NotFound)" in missing.stderr
    text = created("get", "storageversion", NAME, "-o", "yaml").stdout
    assert text.startswith("apiVersion: internal.apiserver.k8s.io/v1alpha1\nkind: StorageVersion\n")
    value = json.loads(created("get", "storageversion", NAME, "-o", "json").stdout)
    assert (value["kind"], value["spec"], value["status"]) == ("StorageVersion", {}, {})
    assert created("get", "--raw", PATH).stdout.encode() == get(gated.http_port, PATH).body
    described = created("describe", "storageversion", NAME).stdout
    assert f"Name:         {NAME}" in described
    assert "color=red" in described


def test_delete_removes_an_object_that_is_there(created: Kubectl) -> None:
    done = created("delete", "storageversion", NAME)
    assert done.stdout.startswith(f'{FULL} "{NAME}" deleted')
    assert "NotFound" in created("delete", "storageversion", NAME, fails=True).stderr
    assert created("delete", "storageversions", "--all").stdout == "No resources found\n"


def test_create_makes_an_object_once(kubectl: Kubectl) -> None:
    create = ("create", "-f", "manifest.yaml")
    assert kubectl(*create).stdout == f"{FULL}/{NAME} created\n"
    assert "Error from server (AlreadyExists)" in kubectl(*create, fails=True).stderr


def test_an_unknown_field_is_an_error_or_a_warning(kubectl: Kubectl, tmp_path: Path) -> None:
    wrong = MANIFEST.replace("spec: {}", "spec: {}\nextra: 1")
    (tmp_path / "manifest.yaml").write_text(wrong)
    strict = kubectl("create", "-f", "manifest.yaml", fails=True)
    assert 'unknown field "extra"' in strict.stderr
    lenient = kubectl("create", "-f", "manifest.yaml", "--validate=warn")
    assert 'Warning: unknown field "extra"' in lenient.stderr


def test_a_dry_run_creates_nothing(gated: Server, kubectl: Kubectl) -> None:
    done = kubectl("create", "-f", "manifest.yaml", "--dry-run=server")
    assert done.stdout == f"{FULL}/{NAME} created (server dry run)\n"
    assert get(gated.http_port, f"{PATH}/{NAME}").status == 404


def test_replace_changes_the_labels(gated: Server, created: Kubectl, tmp_path: Path) -> None:
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("red", "green"))
    assert created("replace", "-f", "manifest.yaml").stdout == f"{FULL}/{NAME} replaced\n"
    assert labels(gated) == {"color": "green"}


def test_apply_creates_but_changes_nothing(gated: Server, kubectl: Kubectl, tmp_path: Path) -> None:
    """Its changes are strategic merge patches, which are not served."""
    apply = ("apply", "-f", "manifest.yaml")
    assert kubectl(*apply).stdout == f"{FULL}/{NAME} created\n"
    assert kubectl(*apply).stdout == f"{FULL}/{NAME} unchanged\n"
    (tmp_path / "manifest.yaml").write_text(MANIFEST.replace("color: red", "shape: round"))
    assert "application/merge-patch+json" in kubectl(*apply, fails=True).stderr
    assert labels(gated) == {"color": "red"}
    server_side = kubectl(*apply, "--server-side", fails=True)
    assert "Server-side apply not available on the server" in server_side.stderr


def test_a_merge_patch_changes_an_object_once(gated: Server, created: Kubectl) -> None:
    patch = json.dumps({"metadata": {"labels": {"color": "blue"}}})
    args = ("patch", "storageversion", NAME, "--type=merge", "-p", patch)
    assert created(*args).stdout == f"{FULL}/{NAME} patched\n"
    assert labels(gated) == {"color": "blue"}
    assert created(*args).stdout == f"{FULL}/{NAME} patched (no change)\n"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("json", [{"op": "replace", "path": "/metadata/labels/color", "value": "blue"}]),
        ("strategic", {"metadata": {"labels": {"color": "blue"}}}),
    ],
)
def test_other_patches_say_which_one_is_served(
    gated: Server, created: Kubectl, kind: str, patch: object
) -> None:
    args = ("patch", "storageversion", NAME, f"--type={kind}", "-p", json.dumps(patch))
    refused = created(*args, fails=True)
    assert "accepted media types include: application/merge-patch+json" in refused.stderr
    assert labels(gated) == {"color": "red"}


def test_label_and_annotate_change_the_metadata(gated: Server, created: Kubectl) -> None:
    created("label", "storageversion", NAME, "shape=round", "color-")
    assert labels(gated) == {"shape": "round"}
    assert created("annotate", "storageversion", NAME, "note=kept").stdout.endswith("annotated\n")


def test_wait_ends_when_the_servers_agree(gated: Server, created: Kubectl) -> None:
    wait = ("wait", "--for=condition=AllEncodingVersionsEqual", f"storageversion/{NAME}")
    assert "timed out" in created(*wait, "--timeout=1s", fails=True).stderr
    server_id = report(gated)
    assert created(*wait, "--timeout=30s").stdout.endswith("condition met\n")
    row = created("get", "storageversions", "--no-headers").stdout.split()
    assert row[:3] == [NAME, "apps/v1", f"{server_id}=apps/v1"]
    leases = created("get", "leases", "-n", "kube-system", "--no-headers").stdout.split()
    assert leases[:2] == [server_id, f"{server_id}_test"]


def test_the_status_of_a_server_that_is_no_member_is_collected(created: Kubectl) -> None:
    """It can be written, and is then collected like any other."""
    entry = {"apiServerID": "nobody", "encodingVersion": "v1", "decodableVersions": ["v1"]}
    status = {"status": {"storageVersions": [entry], "commonEncodingVersion": "v1"}}
    patch = ("patch", "storageversion", NAME, "--subresource=status", "--type=merge")
    assert created(*patch, "-p", json.dumps(status)).stdout.endswith("patched\n")
    done = created("wait", "--for=delete", f"storageversion/{NAME}", "--timeout=50s")
    assert done.exit_code == 0


def report(server: Server) -> str:
    """Report as an API server that stores deployments; return its identity."""
    with grpc.insecure_channel(server.grpc) as channel:
        stub = StorageVersionServiceStub(channel)
        beat = storage_version_pb2.HeartbeatRequest(hostname="node-1", instance="test")
        server_id = stub.Heartbeat(beat, timeout=WITHIN_S).api_server_id
        resource = storage_version_pb2.ReportedResource(
            group="apps",
            resource="deployments",
            encoding_version="apps/v1",
            decodable_versions=["apps/v1"],
        )
        said = storage_version_pb2.ReportRequest(api_server_id=server_id, resources=[resource])
        stub.Report(said, timeout=WITHIN_S)
    return server_id


def test_a_watch_prints_a_row_for_each_change(
    gated: Server, created: Kubectl, tmp_path: Path
) -> None:
    with subprocess.Popen(  # noqa: S603
        [find_tool("kubectl"), "--server", gated.url, "get", "storageversions", "-w", "-o", "name"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(tmp_path),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == f"{FULL}/{NAME}\n".encode()
            created("label", "storageversion", NAME, "shape=round")
            assert process.stdout.readline() == f"{FULL}/{NAME}\n".encode()
        finally:
            process.terminate()


def test_leases_are_only_read(kubectl: Kubectl) -> None:
    assert kubectl("get", "leases", "-n", "kube-system", "-o", "name").exit_code == 0
    made = kubectl("delete", "lease", "-n", "kube-system", "none", fails=True)
    assert "MethodNotAllowed" in made.stderr


def test_objects_outlive_the_server_whose_end_waits_for_no_watch(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:{tmp_path / 'state.db'}")
    body = json.dumps({"metadata": {"name": NAME}}).encode()
    with (
        serving(subfolder(tmp_path, "first"), *GATE, *store) as server,
        socket.create_connection(("127.0.0.1", server.http_port), WITHIN_S) as connection,
    ):
        assert request(server.http_port, PATH, method="POST", body=body).status == 201
        before = get(server.http_port, f"{PATH}/{NAME}")
        connection.sendall(f"GET {PATH}?watch=1 HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 OK\r\n")
        assert server.stop() < DRAIN_S
    with serving(subfolder(tmp_path, "second"), *GATE, *store) as server:
        after = get(server.http_port, f"{PATH}/{NAME}")
    assert after.status == 200
    assert after.body == before.body


def subfolder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir()
    return made
