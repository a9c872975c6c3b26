"""Credentials and trust that change while a client runs."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from apidiscovery_client._connecting import key_in_cache, read_server
from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._kube_access import KubeAccess
from apidiscovery_client._server import Server
from apidiscovery_kubeconfig.errors import CredentialsUnavailable
from apidiscovery_kubeconfig.exec_plugin import ExecPlugin, Plugin, read_plugin
from apidiscovery_kubeconfig.fields import Fields
from certificates import Authority
from command_line import Outcome
from kubectl_config import EXEC, Content, config, plugin_keys, write, write_plugin
from programs import python
from waiting import eventually

SECRET = "s3cr3t-0f-the-test"  # noqa: S105 - not one
IMPORT = "from apidiscovery_client._connecting import read_server"
_LIMIT_S = 10.0


def server_of(path: Path, user: Content, cluster: Content | None = None) -> Server:
    """Return the server of a kubeconfig with this user, written beside what it names."""
    return read_server(kubeconfig=write(path / "config", config(cluster, user)))


def authorization(server: Server) -> str | None:
    return dict(server.access.headers()).get("Authorization")


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def test_a_token_file_is_read_anew_and_the_last_token_kept_without_it(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The service logs it through a logger of its own.
    monkeypatch.setattr(logging.getLogger("apidiscovery_kubeconfig"), "propagate", True)
    token = tmp_path / "token"
    token.write_text("first\n")
    server = server_of(tmp_path, {"tokenFile": "token"})
    assert authorization(server) == "Bearer first"
    token.write_text("second")
    assert authorization(server) == "Bearer second"
    token.write_text("")
    assert authorization(server) == "Bearer second"
    token.unlink()
    assert authorization(server) == "Bearer second"
    assert "token kept: " in caplog.text
    assert "second" not in caplog.text


def test_after_a_refusal_a_token_file_is_read_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    server = server_of(tmp_path, {"tokenFile": "token"})
    server.access.headers()
    assert not server.access.refused()
    server.access.headers()
    token.write_text("second")
    assert server.access.refused()
    assert authorization(server) == "Bearer second"
    token.unlink()
    with pytest.raises(InvalidConfiguration, match=r"user\.tokenFile: cannot read .*/token: No"):
        server.access.refused()


@pytest.mark.parametrize("user", [{"token": "t"}, {"username": "j", "password": "p"}, {}])
def test_static_credentials_stay_after_a_refusal(tmp_path: Path, user: Content) -> None:
    server = server_of(tmp_path, user)
    before = server.access.headers()
    assert not server.access.refused()
    assert server.access.headers() == before


def test_after_a_refusal_a_plugin_is_run_once_more(tmp_path: Path) -> None:
    write_plugin(tmp_path, "first")
    server = server_of(tmp_path, plugin_keys("./plugin"))
    assert authorization(server) == "Bearer first"
    write_plugin(tmp_path, "second")
    assert authorization(server) == "Bearer first"
    assert runs(tmp_path) == 1
    assert server.access.refused()
    assert authorization(server) == "Bearer second"
    assert runs(tmp_path) == 2
    assert not server.access.refused()  # it gives the same again


@pytest.mark.process
def test_threads_share_one_run_of_a_plugin(tmp_path: Path) -> None:
    script = write_plugin(tmp_path).read_text().replace("echo '", "sleep 0.2; echo '")
    (tmp_path / "plugin").write_text(script)
    server = server_of(tmp_path, plugin_keys("./plugin"))
    found: list[str | None] = []
    threads = [
        threading.Thread(target=lambda: found.append(authorization(server))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LIMIT_S)
    assert found == ["Bearer of-the-plugin"] * 8
    assert runs(tmp_path) == 1


@pytest.mark.process
def test_threads_share_one_failure_of_a_plugin(tmp_path: Path) -> None:
    program(tmp_path, f"echo run >> {tmp_path}/runs; sleep 3; exit 7")
    server = server_of(tmp_path, plugin_keys("./plugin"))
    said: list[str] = []

    def ask() -> None:
        with pytest.raises(InvalidConfiguration) as error:
            server.access.headers()
        said.append(str(error.value))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_LIMIT_S)
    assert len(said) == 4
    assert all("failed with status 7: it said nothing" in one for one in said)
    assert runs(tmp_path) == 1


def program(folder: Path, script: str) -> None:
    path = folder / "plugin"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)


def test_closing_ends_a_plugin_with_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    program(tmp_path, f"sleep 60 & echo $! > {child}; wait")
    server = server_of(tmp_path, plugin_keys("./plugin"))
    said: list[str] = []

    def ask() -> None:
        with pytest.raises(InvalidConfiguration) as error:
            server.access.headers()
        said.append(str(error.value))

    thread = threading.Thread(target=ask)
    thread.start()
    eventually(
        lambda: child.exists() and child.read_text().endswith("\n"), "it is started", _LIMIT_S
    )
    assert isinstance(server.access, KubeAccess)
    server.access.close()
    thread.join(_LIMIT_S)
    assert len(said) == 1
    assert said[0].endswith("plugin: ended before it was done")
    eventually(lambda: is_over(int(child.read_text())), "it is over", _LIMIT_S)
    server.access.close()  # has nothing to do


@pytest.mark.process
def test_a_plugin_whose_child_left_its_session_is_not_waited_for(tmp_path: Path) -> None:
    child = tmp_path / "child"
    fork = (
        "import os, time; os.setsid();"
        f" open('{child}', 'w').write(str(os.getpid())); time.sleep(60)"
    )
    until_begun = f"while [ ! -s {child} ]; do sleep 0.05; done"
    program(tmp_path, f'{sys.executable} -c "{fork}" & {until_begun}; wait')
    plugin = Plugin(
        where="exec", command=str(tmp_path / "plugin"), api_version=f"{EXEC}/v1", timeout_s=6
    )
    begun = time.monotonic()
    with pytest.raises(CredentialsUnavailable, match="not done after 6 s"):
        ExecPlugin(plugin).get()
    assert time.monotonic() - begun < 3 * _LIMIT_S
    os.kill(int(child.read_text()), 9)


def is_over(pid: int) -> bool:
    """Return whether a process is gone, or a zombie that nobody waits for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.process
@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("echo no json", "want an ExecCredential in JSON"),
        (f"echo 'bad token={SECRET}' >&2; exit 1", "failed with status 1: bad ***"),
        ("head -c 3000000 /dev/zero", "more than 1048576 bytes on its standard output"),
        ("kill -9 $$", "failed with status -9"),
    ],
)
def test_an_error_of_a_plugin_has_its_place(tmp_path: Path, script: str, expected: str) -> None:
    program(tmp_path, script)
    server = server_of(tmp_path, plugin_keys("./plugin"))
    with pytest.raises(InvalidConfiguration) as error:
        server.access.headers()
    assert str(error.value).startswith(f"{tmp_path}/config, users[u].user.exec: {tmp_path}/plugin:")
    assert expected in str(error.value)
    assert SECRET not in str(error.value)


def test_a_plugin_knows_whether_there_is_a_terminal() -> None:
    keys = {"apiVersion": f"{EXEC}/v1", "command": "p"}
    for mode, terminal, expected in (
        ("Never", True, False),
        ("IfAvailable", False, False),
        ("IfAvailable", True, True),
        ("Always", True, True),
    ):
        fields = Fields({**keys, "interactiveMode": mode})
        plugin = read_plugin(fields, {}, terminal=terminal)
        told = json.loads(plugin.environment()["KUBERNETES_EXEC_INFO"])
        assert (plugin.interactive, told["spec"]) == (expected, {"interactive": expected})


def test_a_plugin_at_the_terminal_asks_the_user(tmp_path: Path) -> None:
    """It gets our standard input and error, be they a terminal or not."""
    credential = json.dumps(
        {"apiVersion": f"{EXEC}/v1", "kind": "ExecCredential", "status": {"token": "TOKEN"}}
    )
    program(
        tmp_path,
        f"echo 'Password:' >&2; read word; echo '{credential}' | sed \"s/TOKEN/$word/\"",
    )
    path = write(tmp_path / "config", config({}, plugin_keys("./plugin", interactiveMode="Always")))
    code = (
        "from apidiscovery_client._connecting import read_server\n"
        f"server = read_server(kubeconfig={path!r}, terminal=True)\n"
        "print(server.access.headers()[0][1])"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code], input="typed\n", capture_output=True, text=True, check=True
    )
    assert (done.stdout, done.stderr) == ("Bearer typed\n", "Password:\n")


# --- certificates


def test_a_certificate_file_that_changes_makes_another_context(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    names = ("tls.crt", "tls.key")

    def put(user: str, *which: int) -> None:
        pair = authority.client(user, [])
        for index in which:
            (tmp_path / names[index]).write_bytes(pair[index].read_bytes())

    put("jane", 0, 1)
    server = server_of(
        tmp_path,
        {"client-certificate": "tls.crt", "client-key": "tls.key"},
        {"certificate-authority": "pki/ca.crt"},
    )
    first = server.access.tls()
    assert first is not None
    assert server.access.tls() is first
    put("joe", 0)  # the key is still that of jane
    assert server.access.tls() is first
    put("joe", 0, 1)
    second = server.access.tls()
    assert second is not None
    assert second is not first
    assert server.access.tls() is second
    authority.ca_file.write_bytes(Authority(tmp_path / "other").ca_file.read_bytes())
    assert server.access.tls() not in (None, first, second)


def test_each_server_has_a_context_of_its_own(tmp_path: Path) -> None:
    """A library that says which protocols it speaks says it to the context."""
    one, other = (server_of(tmp_path, {"token": "t"}).access.tls() for _ in range(2))
    assert one is not None
    assert one is not other


def test_a_server_without_tls_needs_no_context(tmp_path: Path) -> None:
    server = server_of(tmp_path, {"token": "t"}, {"server": "http://127.0.0.1:1"})
    assert server.access.tls() is None


# --- identity


def test_the_identity_is_stable_and_no_secret(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.client("jane", [])
    (tmp_path / "token").write_text("t")
    write_plugin(tmp_path)
    plugin = plugin_keys(
        "./plugin", args=["--secret", SECRET], env=[{"name": "NAME", "value": SECRET}]
    )
    certificate = {"client-certificate": str(pair.cert_file), "client-key": str(pair.key_file)}
    users: list[Content] = [
        {},
        {"token": SECRET},
        {"token": "other"},
        {"tokenFile": "token"},
        {"username": "jane", "password": SECRET},
        {"username": "joe", "password": SECRET},
        plugin,
        plugin_keys("./plugin", args=["other"]),
        certificate,
        {"token": SECRET, "as": "x"},
        {"token": SECRET, "as": "x", "as-groups": ["g"]},
        {"token": SECRET, "as": "x", "as-uid": "g"},
        {"token": SECRET, "as": "x", "as-user-extra": {"k": ["v"]}},
    ]
    trust: list[Content] = [
        {},
        {"certificate-authority": "pki/ca.crt"},
        {"insecure-skip-tls-verify": True},
    ]
    found = [server_of(tmp_path, user).access.identity for user in users]
    found += [server_of(tmp_path, {"token": "t"}, one).access.identity for one in trust]
    assert len(set(found)) == len(found)
    assert found[:13] == [server_of(tmp_path, user).access.identity for user in users]
    assert SECRET not in "".join(found)
    assert not (tmp_path / "runs").exists()


def test_the_key_in_the_cache_tells_users_and_routes_apart(tmp_path: Path) -> None:
    servers = [
        server_of(tmp_path, {"token": "a"}),
        server_of(tmp_path, {"token": "b"}),
        server_of(tmp_path, {"token": "a"}, {"server": "https://b.example:6443"}),
        server_of(tmp_path, {"token": "a"}, {"tls-server-name": "n.example"}),
        server_of(tmp_path, {"token": "a"}, {"proxy-url": "http://p"}),
    ]
    keys = [key_in_cache(server) for server in servers]
    assert len(set(keys)) == len(keys)
    assert key_in_cache(server_of(tmp_path, {"token": "a"})) == keys[0]


# --- modules that are loaded


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        (
            f"{IMPORT}; read_server(server='http://127.0.0.1:1').access.headers()",
            "yaml ssl asyncio subprocess logging httpx2 grpc google.protobuf",
        ),
        (
            f"{IMPORT}; read_server(kubeconfig=PATH).access.headers()",
            "asyncio subprocess httpx2 grpc",
        ),
    ],
)
def test_only_what_is_needed_is_imported(tmp_path: Path, code: str, unwanted: str) -> None:
    path = write(tmp_path / "config", config({}, {"token": "t"}))
    code = code.replace("PATH", repr(path))
    show = f"import sys; print(*sorted(set({unwanted.split()}) & sys.modules.keys()))"
    assert python(f"{code}\n{show}") == Outcome(0, "\n", "")
