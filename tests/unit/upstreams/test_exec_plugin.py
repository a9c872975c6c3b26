"""Exec plugins that are real programs, run as client-go runs them."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from apidiscovery_kubeconfig.credentials import Material, Proof
from apidiscovery_kubeconfig.errors import ConfigurationError, CredentialsUnavailable
from apidiscovery_kubeconfig.exec_plugin import ExecPlugin, Plugin, read_plugin
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls
from apidiscovery_service.sources.upstreams import credentials
from apidiscovery_service.sources.upstreams.credentials import ThreadedCredentials
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from certificates import Authority
from fake_api_server import Answer, FakeApiServer, server_context
from upstream_setup import answer_of
from waiting import WITHIN_S, until

OK = Answer(b"{}")
V1 = "client.authentication.k8s.io/v1"
V1BETA1 = "client.authentication.k8s.io/v1beta1"
SECRET = "aVerySecretValue0123456789"  # noqa: S105 - not one


def program(folder: Path, script: str, name: str = "plugin") -> str:
    """Write a shell script that notes each run as a line in `runs`; return its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\necho run >> {folder}/runs\n{script}\n")
    path.chmod(0o700)
    return str(path)


def runs(folder: Path) -> int:
    return (folder / "runs").read_text().count("run")


def credential(token: object = None, api_version: str = V1, **status: object) -> str:
    told = {"token": token, **status}
    return json.dumps({"apiVersion": api_version, "kind": "ExecCredential", "status": told})


def printing(folder: Path, output: str, before: str = "") -> str:
    """Write a program that prints this; it may be replaced while others run."""
    (folder / "output").write_text(output)
    return program(folder, f"{before}\ncat {folder}/output")


def plugin(command: str, /, **more: object) -> ExecPlugin:
    keys = {"apiVersion": V1, "command": command, "interactiveMode": "Never"} | more
    return ExecPlugin(read_plugin(Fields(keys, "users[u].user.exec."), {"server": "https://a"}))


async def get(source: ExecPlugin) -> Proof:
    return await asyncio.to_thread(source.get)


async def authorization(source: ExecPlugin) -> str | None:
    return (await get(source)).authorization


async def failure(source: ExecPlugin) -> str:
    with pytest.raises(CredentialsUnavailable) as error:
        await get(source)
    return str(error.value)


@pytest.mark.parametrize("api_version", [V1, V1BETA1])
async def test_a_token_is_kept_and_renewed_when_refused(tmp_path: Path, api_version: str) -> None:
    source = plugin(printing(tmp_path, credential("first", api_version)), apiVersion=api_version)
    assert await authorization(source) == "Bearer first"
    assert await authorization(source) == "Bearer first"
    assert runs(tmp_path) == 1
    printing(tmp_path, credential("second", api_version))
    source.drop("Bearer of somebody else")
    assert await authorization(source) == "Bearer first"
    source.drop("Bearer first")
    assert await authorization(source) == "Bearer second"
    source.drop()
    assert await authorization(source) == "Bearer second"
    assert runs(tmp_path) == 3


async def test_a_caller_that_gives_up_does_not_end_the_run(tmp_path: Path) -> None:
    wait = f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done"
    source = plugin(printing(tmp_path, credential("t"), before=wait))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await ThreadedCredentials(source).get()
    (tmp_path / "go").touch()
    assert await authorization(source) == "Bearer t"
    assert runs(tmp_path) == 1


async def test_a_credential_is_renewed_shortly_before_it_expires(tmp_path: Path) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=9)  # within the leeway, had it no fraction
    stamp = soon.strftime("%Y-%m-%dT%H:%M:%SZ")
    source = plugin(printing(tmp_path, credential("t", expirationTimestamp=stamp)))
    await get(source)
    await get(source)
    assert runs(tmp_path) == 1
    past = (datetime.now(UTC) - timedelta(seconds=1)).isoformat()
    printing(tmp_path, credential("late", expirationTimestamp=past))
    source.drop()
    assert await authorization(source) == "Bearer late"  # it is used, but not kept
    await get(source)
    assert runs(tmp_path) == 3


async def test_renewal_comes_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    source = plugin(printing(tmp_path, credential("t", expirationTimestamp=end.isoformat())))
    await get(source)
    for seconds_left, expected in ((11, 1), (9, 2)):
        now = end.timestamp() - seconds_left
        monkeypatch.setattr(time, "time", lambda now=now: now)
        await get(source)
        assert runs(tmp_path) == expected


async def test_the_program_gets_what_client_go_passes(tmp_path: Path) -> None:
    script = f'echo "$KUBERNETES_EXEC_INFO|$FOO|$*|$HOME" > {tmp_path}/told; [ -t 0 ] || cat'
    source = plugin(
        printing(tmp_path, credential("t"), before=script),
        args=["a b", "c"],
        env=[{"name": "FOO", "value": "bar"}],
        provideClusterInfo=True,
    )
    await get(source)  # it reads standard input to its end: there is nothing
    info, foo, arguments, home = (tmp_path / "told").read_text().rstrip("\n").split("|")
    assert json.loads(info) == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {"interactive": False, "cluster": {"server": "https://a"}},
    }
    assert (foo, arguments, home) == ("bar", "a b c", os.environ["HOME"])


async def test_certificates_of_a_plugin_are_sent_and_renewed(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")

    def give(user: str) -> str:
        pair = authority.client(user, [])
        return printing(
            tmp_path,
            credential(
                clientCertificateData=pair.cert_file.read_text(),
                clientKeyData=pair.key_file.read_text(),
            ),
        )

    context = server_context(authority.server(["127.0.0.1"]), authority.ca_file)
    async with FakeApiServer(OK, context) as server:
        endpoint = Endpoint(
            f"https://127.0.0.1:{server.port}",
            tls=Tls(ca=Material("ca", file=authority.ca_file)),
            credentials=plugin(give("jane")),
        )
        for user in ("jane", "joe"):
            give(user)
            endpoint.refresh()
            for _ in range(2):
                await answer_of(endpoint)
        assert [seen.user for seen in server.requests] == ["jane", "jane", "joe", "joe"]
        assert server.connections == 2
        assert runs(tmp_path) == 2
        await endpoint.aclose()


async def test_the_error_of_a_missing_program_has_the_hint() -> None:
    said = await failure(plugin("no-such-plugin", installHint="Get it\n  from example.com"))
    assert said == (
        "users[u].user.exec: no-such-plugin: no such program, or it may not be run;"
        " Get it from example.com"
    )


async def test_a_program_of_no_known_format_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "plugin"
    path.write_bytes(b"\x00\x01")
    path.chmod(0o700)
    assert "cannot be run: [Errno 8] Exec format error" in await failure(plugin(str(path)))


async def test_the_error_of_a_program_has_its_output(tmp_path: Path) -> None:
    source = plugin(program(tmp_path, "echo 'no session:\n  log in first' >&2; exit 3"))
    said = await failure(source)
    assert said.endswith("plugin: failed with status 3: no session: log in first")
    printing(tmp_path, credential("t"))
    assert await authorization(source) == "Bearer t"  # the failure is not kept


@pytest.mark.parametrize(
    "said",
    [
        f"Authorization: Bearer {SECRET}",
        f"bad token={SECRET}",
        f'{{"token": "{SECRET}"}}',
        "eyJhbGciOiJSUzI1NiJ9.aVerySecretValue0123456789.c2ln",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}\n-----END PRIVATE KEY-----",
        f"-----BEGIN PRIVATE KEY-----\n{SECRET}",
        f"got {SECRET}, want another",
        "pass hunter2 is wrong",
        "argument pa55 is wrong",
        "argument pa66 is wrong",
    ],
)
async def test_no_secret_gets_into_an_error(tmp_path: Path, said: str) -> None:
    source = plugin(
        program(tmp_path, f"cat >&2 <<'END'\nsorry: {said}\nEND\nexit 1"),
        env=[{"name": "MY_PASSWORD", "value": "hunter2"}],
        args=["--client-secret=pa55", "--token", "pa66"],
    )
    told = await failure(source)
    assert "sorry: " in told
    assert "***" in told
    for secret in (SECRET, "hunter2", "pa55", "pa66"):
        assert secret not in told


@pytest.mark.parametrize("word", ["word ", "a-", "eyJ-"])
async def test_the_output_of_a_program_is_bounded(tmp_path: Path, word: str) -> None:
    """And so is the time that it takes to look through it."""
    chatty = f"import sys; sys.stderr.write('{word}' * 1000000); exit(1)"
    source = plugin(program(tmp_path, f'exec {sys.executable} -c "{chatty}"'))
    async with asyncio.timeout(WITHIN_S):
        assert len(await failure(source)) < 1000


async def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    command = program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait")
    source = ExecPlugin(Plugin(where="exec", command=command, api_version=V1, timeout_s=2.0))
    assert (await failure(source)).endswith("not done after 2 s; it was ended")
    await until(lambda: _is_over(tmp_path / "child"), "the child is ended")


async def test_closing_ends_a_run(tmp_path: Path) -> None:
    source = plugin(program(tmp_path, f"sleep 60 & echo $! > {tmp_path}/child; wait"))
    asked = ThreadedCredentials(source)
    caller = asyncio.create_task(asked.get())
    child = tmp_path / "child"
    await until(lambda: child.exists() and child.read_text().endswith("\n"), "it runs")
    await asked.aclose()
    with pytest.raises(credentials.CredentialsUnavailable, match="plugin: ended before it was"):
        await caller
    await until(lambda: _is_over(tmp_path / "child"), "the child is ended")


def _is_over(pid_file: Path) -> bool:
    """Return whether a process is gone, or a zombie that nobody waits for."""
    status = Path("/proc", pid_file.read_text().strip(), "stat")
    try:
        return status.read_text().split()[2] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ("", "want an ExecCredential in JSON"),
        ("no json", "want an ExecCredential in JSON"),
        ("[" * 100_000, "want an ExecCredential in JSON"),
        ("[]", "the ExecCredential: want keys and values, got a list"),
        ("{}", "got no kind of no apiVersion"),
        (credential("t", V1BETA1), f"want an ExecCredential of {V1}, as configured"),
        (credential(), "gave no token"),
        (credential(1), "the ExecCredential.status.token: want text, got a number"),
        (credential(clientCertificateData="c"), "gave a certificate or a key, want both"),
        (credential(clientCertificateData="c", clientKeyData=SECRET), "want a certificate and its"),
        (credential(f"{SECRET}\n"), "status.token: want a token of visible"),
        (credential("t", expirationTimestamp="soon"), "expirationTimestamp: no time"),
    ],
)
async def test_invalid_output_is_an_error(tmp_path: Path, output: str, expected: str) -> None:
    said = await failure(plugin(printing(tmp_path, output)))
    assert expected in said
    assert SECRET not in said


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"apiVersion": None}, f"apiVersion: want {V1} or {V1BETA1}, got nothing"),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "apiVersion: want "),
        ({"interactiveMode": None}, "interactiveMode: want Never or IfAvailable, got nothing"),
        ({"interactiveMode": "Always"}, "interactiveMode: Always needs a terminal"),
        ({"interactiveMode": "never"}, "interactiveMode: want Never or IfAvailable, got never"),
        ({"command": None}, "command: want the program to run"),
        ({"args": "a"}, "args: want a list, got text"),
        ({"env": [{"value": "v"}]}, "env[0].name: want the name of a variable"),
    ],
)
def test_the_error_of_the_configuration_names_its_key(
    more: Mapping[str, object], expected: str
) -> None:
    with pytest.raises(ConfigurationError) as error:
        plugin("p", **more)
    assert str(error.value).startswith(f"users[u].user.exec.{expected}")


async def test_interaction_is_not_needed_where_it_is_optional(tmp_path: Path) -> None:
    command = printing(tmp_path, credential("t"))
    assert await authorization(plugin(command, interactiveMode="IfAvailable"))
    old = printing(tmp_path, credential("t", V1BETA1))
    assert await authorization(plugin(old, apiVersion=V1BETA1, interactiveMode=None))


def test_a_relative_path_starts_beside_the_kubeconfig(tmp_path: Path) -> None:
    for command, expected in (
        ("./plugin", str(tmp_path / "plugin")),
        ("../bin/plugin", str(tmp_path.parent / "bin" / "plugin")),
        ("/bin/plugin", "/bin/plugin"),
        ("plugin", "plugin"),  # looked up in PATH
    ):
        keys = {"apiVersion": V1, "command": command, "interactiveMode": "Never"}
        assert read_plugin(Fields(keys, folder=tmp_path), {}).command == expected
