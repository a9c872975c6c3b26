"""Clusters of folders and contexts in a real server: they come, change, break and go."""

import base64
import json
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from certificates import Authority
from cluster_files import contexts, kubeconfig, mounted, replaced
from command_line import run
from fake_api_server import Answer, FakeApiServer, Request, Respond, aggregated, served_group
from media_types import JSON_V2
from metrics_text import total
from programs import refused
from raw_http import get
from server import Serve, Server
from waiting import eventually

Capture = pytest.CaptureFixture[str]

NONE = ("--catalog", "none", "--store", "memory")


def serving_groups(*names: str) -> dict[str, Answer]:
    return {
        "/apis": aggregated(*(served_group(name, "ones") for name in names)),
        "/api": aggregated(),
    }


def groups(server: Server, prefix: str = "") -> list[str] | None:
    """Return the names of the groups that are served; None while there is no such answer."""
    answer = get(server.http_port, f"{prefix}/apis", JSON_V2)
    if answer.status != 200:
        return None
    items = cast("list[dict[str, Any]]", answer.json()["items"])
    return [item["metadata"]["name"] for item in items]


def shows(server: Server, cluster: str, *names: str) -> None:
    """Wait until a cluster is served with these groups."""
    eventually(
        lambda: groups(server, f"/clusters/{cluster}") == list(names),
        f"{cluster} is served with {names}",
    )


def is_gone(server: Server, cluster: str) -> None:
    eventually(
        lambda: get(server.http_port, f"/clusters/{cluster}/apis", JSON_V2).status == 404,
        f"{cluster} is gone",
    )


def verbose(server: Server) -> str:
    answer = get(server.http_port, "/readyz?verbose")
    assert answer.status == 200
    return answer.body.decode()


def sources(server: Server, capsys: Capture) -> str:
    return run(capsys, "get", "sources", "--grpc-server", server.grpc).stdout


def touching(proof: Path) -> dict[str, Any]:
    """Return the plugin of a user that makes a file."""
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "/usr/bin/touch",
        "args": [str(proof)],
        "interactiveMode": "Never",
    }


@pytest.fixture(name="east")
def fixture_east() -> Iterator[FakeApiServer]:
    with FakeApiServer(serving_groups("east.example.com")) as server:
        yield server


@pytest.fixture(name="west")
def fixture_west() -> Iterator[FakeApiServer]:
    with FakeApiServer(serving_groups("west.example.com")) as server:
        yield server


def test_files_of_a_folder_are_clusters(
    serve: Serve, capsys: Capture, tmp_path: Path, east: FakeApiServer, west: FakeApiServer
) -> None:
    folder = tmp_path / "clusters"
    folder.mkdir()
    (folder / "east.yaml").write_text(kubeconfig(east.url))
    server = serve(*NONE, "--clusters", str(folder))
    shows(server, "east", "east.example.com")
    assert groups(server) == ["east.example.com"]

    replaced(folder / "west.kubeconfig", kubeconfig(west.url))
    shows(server, "west", "west.example.com")
    eventually(lambda: groups(server) == ["east.example.com", "west.example.com"], "merged")
    assert "upstream:west" in sources(server, capsys)

    replaced(folder / "west.kubeconfig", "a: [")
    eventually(lambda: "west.kubeconfig:2: no YAML" in verbose(server), "it is told")
    shows(server, "west", "west.example.com")
    listed = sources(server, capsys)
    assert f"clusters:{folder}/west.kubeconfig" in listed
    assert "its last good content is kept" in server.log()

    replaced(folder / "west.kubeconfig", kubeconfig(east.url))
    shows(server, "west", "east.example.com")
    assert "no YAML" not in verbose(server)

    (folder / "west.kubeconfig").unlink()
    is_gone(server, "west")
    assert groups(server) == ["east.example.com"]
    assert "west" not in sources(server, capsys)
    metrics = get(server.http_port, "/metrics").body.decode()
    assert 'upstream="east"' in metrics
    assert 'upstream="west"' not in metrics
    assert 'source="upstream:west"' not in metrics

    # A file that somebody dropped runs nothing.
    proof = tmp_path / "proof"
    replaced(folder / "evil.yaml", kubeconfig("https://127.0.0.1:1", exec=touching(proof)))
    eventually(lambda: "may not run a program" in verbose(server), "it is told")
    assert get(server.http_port, "/clusters/evil/apis").status == 404
    assert not proof.exists()


def test_rotated_credentials_are_used_and_nothing_is_lost(serve: Serve, tmp_path: Path) -> None:
    """As a Secret of Cluster API is mounted, and swapped when its token is rotated."""
    authority = Authority(tmp_path / "ca")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(*authority.server(["127.0.0.1"]))
    ca = base64.b64encode(authority.ca_file.read_bytes()).decode()
    valid = {"old"}

    def asked(request: Request) -> Answer:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        answer = serving_groups("secret.example.com").get(request.path)
        return answer or Answer(status=404) if token in valid else Answer(status=401)

    def config(url: str, token: str) -> str:
        text = kubeconfig(url, token=token)
        return text.replace('{"server"', f'{{"certificate-authority-data": "{ca}", "server"')

    respond: Respond = asked
    folder = tmp_path / "clusters"
    folder.mkdir()
    with FakeApiServer(respond, tls) as secret:
        mounted(folder / "east-kubeconfig", {"value": config(secret.url, "old")})
        options = {"cluster-options": {"*": {"poll-interval": "200ms"}}}
        (tmp_path / "config.yaml").write_text(json.dumps(options))
        server = serve(*NONE, "--clusters", str(folder), "--config", str(tmp_path / "config.yaml"))
        shows(server, "east", "secret.example.com")
        valid.clear()
        eventually(lambda: "upstream:east is Stale" in verbose(server), "it is denied")
        shows(server, "east", "secret.example.com")
        valid.add("new")
        mounted(folder / "east-kubeconfig", {"value": config(secret.url, "new")})
        eventually(lambda: "upstream:east is Stale" not in verbose(server), "it is well again")
        shows(server, "east", "secret.example.com")
        for token in ("old", "new"):
            assert f"Bearer {token}" not in server.log()


def test_contexts_that_fit_are_clusters(
    serve: Serve, tmp_path: Path, east: FakeApiServer, west: FakeApiServer
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(contexts({"prod-east": east.url, "dev": "http://127.0.0.1:1"}))
    server = serve(*NONE, "--kubeconfig", str(path), "--contexts", "prod-*", "--no-merge")
    shows(server, "prod-east", "east.example.com")
    # It is ready with nothing in /apis, and no other context is asked.
    assert groups(server) == []
    assert verbose(server).count("upstream:") == 0
    assert get(server.http_port, "/clusters/dev/apis").status == 404
    replaced(path, contexts({"prod-east": west.url, "prod-west": west.url}))
    shows(server, "prod-east", "west.example.com")
    shows(server, "prod-west", "west.example.com")
    replaced(path, contexts({"prod-west": west.url}))
    is_gone(server, "prod-east")
    shows(server, "prod-west", "west.example.com")
    assert total(server.http_port, "apidiscovery_upstream_polls_total", upstream="prod-east") == 0


def test_options_go_by_name_and_a_cluster_has_the_last_word(
    serve: Serve, capsys: Capture, tmp_path: Path, east: FakeApiServer, west: FakeApiServer
) -> None:
    folder = tmp_path / "clusters"
    folder.mkdir()
    (folder / "prod-west.yaml").write_text(kubeconfig(west.url))
    config = tmp_path / "config.yaml"
    config.write_text(
        f"""
clusters: [{folder}]
upstreams:
  prod-east: {{url: "{east.url}", merge: true}}
cluster-options:
  "prod-*": {{merge: false, poll-interval: 100ms, labels: {{env: prod}}}}
"""
    )
    server = serve(*NONE, "--config", str(config))
    shows(server, "prod-east", "east.example.com")
    shows(server, "prod-west", "west.example.com")
    eventually(lambda: groups(server) == ["east.example.com"], "one is merged")
    rows = sources(server, capsys).splitlines()
    shown = {row.split()[0]: "- (not merged)" in row for row in rows}
    assert shown["upstream:prod-east"] is False
    assert shown["upstream:prod-west"] is True
    eventually(lambda: west.paths.count("/apis") > 5, "it is polled often")


def test_a_trusted_file_runs_its_program(serve: Serve, tmp_path: Path) -> None:
    folder = tmp_path / "clusters"
    folder.mkdir()
    proof = tmp_path / "proof"
    (folder / "own.yaml").write_text(kubeconfig("https://127.0.0.1:1", exec=touching(proof)))
    serve(*NONE, "--clusters", str(folder), "--trust-clusters")
    eventually(proof.exists, "the plugin runs")


def test_contexts_of_a_kubeconfig_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    file = str(tmp_path / "none")
    flags = ("--http", "127.0.0.1:0", "--grpc", "off", "--kubeconfig", file, "--contexts", "*")
    code, log = refused(tmp_path, *NONE, *flags)
    assert code == 2, log
    assert f"--contexts: {file}: cannot be read: No such file" in log
    assert "Traceback" not in log
