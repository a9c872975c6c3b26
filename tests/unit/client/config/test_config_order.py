"""Precedence of flags, variables, kubeconfig files, the cluster, and the default."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_cli import connection_options
from apidiscovery_client._connecting import read_server
from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._server import Server
from apidiscovery_kubeconfig import kubeconfig
from certificates import Authority
from command_line import Outcome, run
from fake_api_server import FakeApiServer, builtin
from kubectl_config import config, kubectl, plugin_keys, write

Capture = pytest.CaptureFixture[str]

GIVEN = "t"


@pytest.fixture
def api() -> Iterator[FakeApiServer]:
    with FakeApiServer(builtin()) as server:
        yield server


def versions(capsys: Capture, *args: str) -> Outcome:
    return run(capsys, "api-versions", *args)


def test_a_server_that_is_named_needs_no_kubeconfig(
    capsys: Capture, api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken one is not read, and no credentials of one are sent to that server."""
    for content in ("a: [", config({}, {"token": "of-the-file", "as": "x"})):
        monkeypatch.setenv("KUBECONFIG", write(tmp_path / "config", content))
        assert versions(capsys, "--server", api.url).exit_code == 0
        monkeypatch.setenv("APIDISCOVERY_SERVER", api.url)
        assert versions(capsys).exit_code == 0
    sent = {name for request in api.requests for name in request.headers}
    assert not {name for name in sent if name.startswith(("authorization", "impersonate"))}


def test_without_a_server_the_kubeconfig_names_it(
    capsys: Capture, api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "any", config({"server": api.url}))
    monkeypatch.setenv("KUBECONFIG", path)
    assert versions(capsys).exit_code == 0
    monkeypatch.delenv("KUBECONFIG")
    (tmp_path / "home" / ".kube").mkdir(exist_ok=True)
    Path(path).rename(tmp_path / "home" / ".kube" / "config")
    assert versions(capsys).exit_code == 0
    assert len(api.requests) == 4


def test_without_a_kubeconfig_there_is_a_default(
    capsys: Capture, api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_options, "DEFAULT_SERVER", api.url)
    assert versions(capsys, "--token", "t").exit_code == 0
    assert {request.headers["authorization"] for request in api.requests} == {"Bearer t"}
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    assert versions(capsys).exit_code == 0


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--kubeconfig", "none"], "error: none: cannot be read: No such file or directory\n"),
        (["--context", "c"], "error: kubeconfig: nothing in "),
        (["--cluster", "k"], "error: kubeconfig: nothing in "),
        (["--user", "u"], "error: kubeconfig: nothing in "),
    ],
)
def test_a_named_part_of_a_kubeconfig_must_exist(
    capsys: Capture, args: list[str], expected: str
) -> None:
    outcome = versions(capsys, *args)
    assert outcome.stderr.startswith(expected)
    assert (outcome.exit_code, outcome.stdout) == (1, "")


def test_a_context_on_the_command_line_overrides_variables(
    capsys: Capture, api: FakeApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Server and token of the environment belong together."""
    monkeypatch.setenv("KUBECONFIG", write(tmp_path / "config", config({"server": api.url})))
    monkeypatch.setenv("APIDISCOVERY_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("APIDISCOVERY_TOKEN", "of-the-variable")
    assert versions(capsys, "--context", "c").exit_code == 0
    assert {request.headers.get("authorization") for request in api.requests} == {None}


def test_impersonation_is_sent(capsys: Capture, api: FakeApiServer) -> None:
    args = ("--as", "jane", "--as-uid", "1", "--as-group", "dev")
    assert versions(capsys, "--server", api.url, *args).exit_code == 0
    sent = {name: value for name, value in api.requests[0].headers.items() if "impers" in name}
    assert sent == {
        "impersonate-user": "jane",
        "impersonate-uid": "1",
        "impersonate-group": "dev",
    }


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        ("-s http://10.0.0.1 --token a", "--token: is not sent without TLS: http://10.0.0.1 is"),
        ("-s http://10.0.0.1 --password a", "--password: is not sent without TLS"),
        ("-s http://127.0.0.1:1 --as-group a", "--as-group: want `--as` beside it"),
        ("-s https://127.0.0.1:1 --token a --username b", "--token: there are username or"),
    ],
)
def test_flags_that_cannot_be_used_are_bad_usage(capsys: Capture, args: str, expected: str) -> None:
    outcome = versions(capsys, *args.split())
    assert outcome.stderr.startswith(f"error: {expected}")
    assert (outcome.exit_code, outcome.stdout) == (2, "")


def test_a_mistake_in_a_kubeconfig_is_told_with_file_and_key(
    capsys: Capture, tmp_path: Path
) -> None:
    path = write(tmp_path / "config", config({}, plugin_keys("./none", interactiveMode="x")))
    outcome = versions(capsys, "--kubeconfig", path)
    assert outcome == Outcome(
        1,
        "",
        f"error: {path}, users[u].user.exec.interactiveMode: want Never or IfAvailable, got x\n",
    )


# --- in a cluster


@pytest.fixture
def pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let this be a pod; return the folder of its service account."""
    folder = tmp_path / "account"
    folder.mkdir()
    (folder / "token").write_text("of-the-pod")
    (folder / "ca.crt").write_bytes(Authority(tmp_path / "pki").ca_file.read_bytes())
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", folder)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return folder


def sent(server: Server) -> dict[str, str]:
    return dict(server.access.headers())


def test_a_pod_asks_its_own_cluster_before_the_default(pod: Path) -> None:
    server = read_server(default_url="http://127.0.0.1:1")
    assert server.url == "https://[fd00::1]:443"
    assert sent(server) == {"Authorization": "Bearer of-the-pod"}
    (pod / "token").write_text("of-the-pod-later")
    assert sent(server) == {"Authorization": "Bearer of-the-pod-later"}


@pytest.mark.usefixtures("pod")
def test_flags_apply_in_a_cluster() -> None:
    assert sent(read_server(token=GIVEN)) == {"Authorization": "Bearer t"}
    assert sent(read_server(as_user="jane")) == {
        "Authorization": "Bearer of-the-pod",
        "Impersonate-User": "jane",
    }
    assert read_server(tls_server_name="n.example").tls_server_name == "n.example"


@pytest.mark.usefixtures("pod")
def test_a_kubeconfig_goes_before_the_cluster(tmp_path: Path) -> None:
    write(tmp_path / "home" / ".kube" / "config", config())
    assert read_server().url == "https://a.example:6443"


def test_a_pod_without_its_service_account_is_an_error(pod: Path) -> None:
    (pod / "ca.crt").unlink()
    with pytest.raises(InvalidConfiguration, match=r"^service account, ca\.crt: cannot read /"):
        read_server()


# --- several files


@pytest.mark.parametrize(
    "content",
    ["a: [", "- a", "clusters: {}", "current-context: [x]", "\t", "users: [{name: [u]}]"],
)
async def test_a_broken_file_among_several_is_an_error_as_with_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    good = write(tmp_path / "good", config())
    bad = write(tmp_path / "bad", content)
    for paths in ((good, bad), (bad, good)):
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(paths))
        with pytest.raises(InvalidConfiguration, match=str(tmp_path / "bad")):
            read_server()
    assert (await kubectl("config", "view")).exit_code != 0
