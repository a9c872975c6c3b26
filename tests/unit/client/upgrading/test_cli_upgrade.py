"""`apidiscovery upgrade`: its clusters, forms and exit codes."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_client.snapshots.file import dump
from apidiscovery_client.testing import group, resource
from apidiscovery_releases import Release
from client_snapshots import snapshot
from command_line import Outcome, run
from fake_api_server import Answer, FakeApiServer, aggregated
from kubectl_config import several, write
from media_types import aggregated_type
from programs import free_port
from upgraded_cluster import FORBIDDEN, cluster, metrics

Capture = pytest.CaptureFixture[str]
FLOWS = ("flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "1.32")


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in an empty folder, without a kubeconfig or token."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("APIDISCOVERY_TOKEN", raising=False)


@pytest.fixture
def busy() -> Iterator[FakeApiServer]:
    """Yield a cluster in which a removed API is called, and whose APIServices may not be read."""
    routes = {
        "/metrics": metrics(FLOWS),
        "/apis/apiregistration.k8s.io/v1/apiservices": FORBIDDEN,
    }
    with FakeApiServer(cluster("1.31", routes)) as server:
        yield server


@pytest.fixture
def done() -> Iterator[FakeApiServer]:
    """Yield a cluster that runs the release."""
    with FakeApiServer(cluster("1.36")) as server:
        yield server


def upgrade(capsys: Capture, *args: str) -> Outcome:
    return run(capsys, "upgrade", "--to", "1.36", *args)


def test_text_has_steps_in_their_order_each_with_a_command(
    capsys: Capture, busy: FakeApiServer
) -> None:
    found = upgrade(capsys, f"prod={busy.url}")
    assert (found.exit_code, found.stderr) == (1, "")
    lines = found.stdout.splitlines()
    assert lines[:4] == [
        "prod: Kubernetes 1.31 -> 1.36: 1 first, 2 before the upgrade; 1 not read",
        "",
        "first",
        (
            "1. flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema: Kubernetes 1.32 does not serve it,"
            " and it is called; use flowcontrol.apiserver.k8s.io/v1 [removed-api-called]"
        ),
    ]
    numbered = [line for line in lines if line[:1].isdigit()]
    commands = [line for line in lines if line.startswith("   $ ")]
    assert (len(numbered), len(commands)) == (3, 3)
    changes = [line for line in lines if line.startswith("     ")]
    assert len(changes) == 6
    assert "reader different" in changes[0]
    assert changes[-1].strip().startswith("and ")
    assert lines[-2] == "not read"
    assert "nobody may not read it" in lines[-1]


def test_steps_in_a_row_with_one_command_share_it(capsys: Capture) -> None:
    check = "apidiscovery check -f manifests/ --against kubernetes:1.36"
    lines = upgrade(capsys, "kubernetes:1.31").stdout.splitlines()
    assert [line[:2] for line in lines[3:6]] == ["1.", "2.", "  "]
    assert (lines[5], lines.count(lines[5])) == (f"   $ {check}", 1)
    markdown = upgrade(capsys, "kubernetes:1.31", "-o", "markdown").stdout
    assert markdown.count(check) == 1


def test_commands_name_the_cluster(capsys: Capture, busy: FakeApiServer) -> None:
    write(Path("k"), several(**{"my-prod": busy.url}))
    by_url = upgrade(capsys, busy.url).stdout
    by_context = upgrade(capsys, "--context", "my-prod", "--kubeconfig", "k").stdout
    assert f"$ kubectl --server {busy.url} get flowschemas" in by_url
    assert "$ kubectl --context my-prod --kubeconfig k get flowschemas" in by_context
    assert by_context.startswith("my-prod: Kubernetes 1.31 -> 1.36")


def test_without_a_cluster_it_is_the_current_context(capsys: Capture, done: FakeApiServer) -> None:
    write(Path("k"), {**several(here=done.url), "current-context": "here"})
    found = upgrade(capsys, "--kubeconfig", "k")
    assert found == Outcome(0, "current context: Kubernetes 1.36 -> 1.36: nothing to do\n", "")


def test_json_has_everything(capsys: Capture, busy: FakeApiServer) -> None:
    down_url = f"http://127.0.0.1:{free_port()}"
    found = upgrade(capsys, f"prod={busy.url}", f"down={down_url}", "-o", "json")
    document = json.loads(found.stdout)
    prod, down = document.pop("clusters")
    assert document == {"apiVersion": "apidiscovery/v1", "kind": "UpgradeReport", "to": "1.36"}
    assert [*prod] == ["name", "from", "steps", "fields", "notRead"]
    assert [*prod["steps"][0]] == ["urgency", "rule", "subject", "message", "command"]
    assert len(prod["fields"]) > 5
    assert [*down] == ["name", "error"]
    assert "was refused" in down["error"]


def test_markdown_is_a_list_to_tick(capsys: Capture, busy: FakeApiServer) -> None:
    text = upgrade(capsys, f"prod={busy.url}", "-o", "markdown").stdout
    assert text.startswith("# Upgrade to Kubernetes 1.36\n\n## prod\n")
    assert "### First\n\n- [ ] flowcontrol.apiserver.k8s.io/v1beta3 FlowSchema: " in text
    assert "\n  ```sh\n  kubectl --server " in text
    assert "### Not read\n\n- `apiservices.apiregistration.k8s.io`: " in text


def test_a_fleet_has_a_headline_and_a_report_for_each_cluster(
    capsys: Capture, busy: FakeApiServer, done: FakeApiServer
) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    write(Path("k"), several(**{"prod-a": busy.url, "prod-b": done.url, "test": down}))
    two = upgrade(capsys, "--contexts", "prod-*", "--kubeconfig", "k")
    every = upgrade(capsys, "--all-contexts", "--kubeconfig", "k")
    assert two.stdout.splitlines()[:5] == [
        "2 clusters to Kubernetes 1.36: 1 with something to do first, 1 with nothing to do",
        "  prod-a: Kubernetes 1.31 -> 1.36: 1 first, 2 before the upgrade; 1 not read",
        "  prod-b: Kubernetes 1.36 -> 1.36: nothing to do",
        "",
        "prod-a: Kubernetes 1.31 -> 1.36: 1 first, 2 before the upgrade; 1 not read",
    ]
    assert every.exit_code == 1
    assert "1 not known\n" in every.stdout
    assert every.stdout.splitlines()[-1].startswith("test: not known: the connection to the server")


def test_a_snapshot_says_that_only_discovery_is_known(capsys: Capture) -> None:
    Path("a.json").write_bytes(dump(snapshot(group("apps", v1=[resource("d", "Deployment")]))))
    found = upgrade(capsys, "a.json")
    assert found.exit_code == 2, "nothing is to be done, and not all was read"
    assert found.stdout.splitlines() == [
        "a: Kubernetes ? -> 1.36: nothing to do; 2 not read",
        "",
        "not read",
        "? objects, metrics and release: only discovery is known of it",
        "? changes of fields: the release of the cluster is not known",
    ]


def test_clusters_of_a_service_are_told_as_far_as_discovery_goes(capsys: Capture) -> None:
    routes = {
        "/api": aggregated(),
        "/apis": aggregated(),
        "/clusters/east/api": aggregated(),
        "/clusters/east/apis": Answer(Release("1.31").aggregated("/apis"), aggregated_type()),
    }
    with FakeApiServer(routes) as server:
        found = upgrade(capsys, "--server", server.url, "cluster:east")
    assert found.exit_code == 1
    assert found.stdout.startswith("east: Kubernetes ? -> 1.36: 2 before")
    assert "? /metrics: " in found.stdout
    assert "whether it is called is not known" in found.stdout


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--to", "1.99"), "not a known release"),
        (("--to", "x"), "not a known release"),
        (("http://127.0.0.1:1",), "was refused"),
        (("missing.json",), "there is no such file"),
        (("cluster:east",), "which service knows it"),
        (("kubernetes:1.30", "kubernetes:1.30"), "another cluster is called '1.30'"),
        (("-", "-"), "only one cluster can be standard input"),
        (("--contexts", "x", "--kubeconfig", "missing"), "missing"),
        (("kubernetes:1.36", "--to", "1.35"), "which is newer than 1.35"),
        (("--token", "t", "http://127.0.0.1:1", "http://127.0.0.1:2"), "would go to several"),
    ],
)
def test_trouble_is_told_with_exit_code_2(
    capsys: Capture, args: tuple[str, ...], said: str
) -> None:
    found = upgrade(capsys, *args)
    assert (found.exit_code, found.stdout) == (2, "")
    assert said in found.stderr


def test_the_release_is_required(capsys: Capture) -> None:
    found = run(capsys, "upgrade", "kubernetes:1.30")
    assert found.exit_code == 2
    assert "--to" in found.stderr
