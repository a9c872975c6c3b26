"""The transport of the target that a user names."""

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path

import grpc
import pytest
from apidiscovery_client._connecting import (
    Flags,
    http_target,
    open_async,
    open_blocking,
    read_grpc_server,
    read_server,
)
from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.fleet._members import servers_of_contexts
from certificates import Authority
from command_line import Outcome, run
from fake_registry import FakeRegistry
from kubectl_config import config, plugin_keys, write, write_plugin

Capture = pytest.CaptureFixture[str]

GIVEN = "t"

TARGETS: Mapping[str, tuple[str, str]] = {
    "http://127.0.0.1:1": ("AsyncHttpTransport", "HttpTransport"),
    "https://127.0.0.1:1/prefix": ("AsyncHttpTransport", "HttpTransport"),
    "127.0.0.1:1": ("AsyncHttpTransport", "HttpTransport"),
    "grpc://127.0.0.1:1": ("AsyncGrpcTransport", "GrpcTransport"),
    "GRPCS://[::1]:1/": ("AsyncGrpcTransport", "GrpcTransport"),
}


@pytest.mark.parametrize("target", TARGETS)
async def test_the_scheme_chooses_the_transport(target: str) -> None:
    expected = TARGETS[target]
    opened = open_async(target)
    assert (type(opened.transport).__name__, opened.cache) == (expected[0], None)
    await opened.transport.close()
    sync = await asyncio.to_thread(open_blocking, target)
    assert type(sync.transport).__name__ == expected[1]
    sync.transport.close()


@pytest.mark.parametrize("target", ["grpc://127.0.0.1:1", "grpcs://127.0.0.1:1"])
async def test_betterproto_is_used_where_it_is_asked_for(target: str) -> None:
    opened = open_async(target, stubs="betterproto")
    assert type(opened.transport).__name__ == "AsyncBetterprotoTransport"
    await opened.transport.close()
    sync = await asyncio.to_thread(open_blocking, target, stubs="betterproto")
    assert type(sync.transport).__name__ == "BetterprotoTransport"
    sync.transport.close()


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("ftp://a", "want a URL of http://, https://, grpc:// or grpcs://, got ftp://"),
        (
            "http://a:notaport",
            "server: want a URL such as https://host:6443, of http or https, got",
        ),
        ("grpc://a", "want a gRPC server such as grpc://127.0.0.1:50051, got grpc://a"),
        ("grpc://a:b", "want a gRPC server such as"),
        ("grpc://a:1/path", "want a gRPC server such as"),
        ("", "kubeconfig: nothing in"),
    ],
)
def test_an_invalid_target_is_an_error(target: str, expected: str) -> None:
    with pytest.raises(InvalidConfiguration) as error:
        open_blocking(target or None)
    assert str(error.value).startswith(expected)


def test_a_token_is_not_sent_without_tls_but_to_this_machine() -> None:
    for target in ("http://10.0.0.1:1", "grpc://10.0.0.1:1", "10.0.0.1:1"):
        with pytest.raises(InvalidConfiguration, match=r"^token: is not sent without TLS"):
            open_blocking(target, token=GIVEN)
    server = read_server(server="http://localhost:1", token=GIVEN)
    assert dict(server.access.headers()) == {"Authorization": "Bearer t"}


def test_grpc_always_verifies_certificates() -> None:
    with pytest.raises(InvalidConfiguration, match=r"^insecure_skip_tls_verify: gRPC always"):
        open_blocking("grpcs://127.0.0.1:1", insecure_skip_tls_verify=True)


async def test_a_configured_server_is_taken_unchanged() -> None:
    server = read_server(server="http://127.0.0.1:1")
    opened = open_async(server, token=None)
    assert opened.transport.server == "http://127.0.0.1:1"
    await opened.transport.close()
    with pytest.raises(InvalidConfiguration, match=r"configured already; .* omit token$"):
        open_async(server, token=GIVEN)


async def test_each_server_has_its_key_in_the_cache(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    keys: set[str] = set()
    for target in (*TARGETS, "grpcs://127.0.0.1:1"):
        opened = open_async(target, cache=cache)
        assert opened.cache is cache
        assert cache.get(opened.cache_key) is None
        keys.add(opened.cache_key)
        await opened.transport.close()
    assert len(keys) == len(TARGETS)  # with and without http:// it is the same server


def test_any_cache_with_get_and_put_is_taken() -> None:
    class Nothing:
        def get(self, key: str) -> FetchedSnapshot | None:
            del key
            return None

        def put(self, key: str, fetched: FetchedSnapshot) -> None:
            """Forget it."""

    mine = Nothing()
    opened = open_blocking("http://127.0.0.1:1", cache=mine)
    assert opened.cache is mine
    opened.transport.close()


@pytest.mark.parametrize(("given", "expected"), [(None, 32.0), (5.0, 5.0), (0, None)])
def test_a_timeout_of_0_is_none(given: float | None, expected: float | None) -> None:
    server = read_server(server="http://127.0.0.1:1", request_timeout_s=given)
    assert server.request_timeout_s == expected
    reached = read_grpc_server("127.0.0.1:1", plaintext=True, request_timeout_s=given)
    assert reached.request_timeout_s == expected


@pytest.mark.parametrize("given", ["5s", -1, math.nan, math.inf, True])
def test_a_timeout_is_a_number_of_seconds(given: float) -> None:
    for target in ("http://127.0.0.1:1", "https://127.0.0.1:1", "grpc://127.0.0.1:1"):
        with pytest.raises(InvalidConfiguration) as error:
            open_blocking(target, request_timeout_s=given)
        text = str(error.value)
        assert text.startswith("request_timeout_s: want seconds as a number, such as 5 or 0.5")
        assert text.endswith(f"got {given!r}")


def test_errors_name_arguments_and_on_the_command_line_flags(tmp_path: Path) -> None:
    """What a caller from Python is told to set is what Python can set."""
    missing = str(tmp_path / "none")
    given: list[tuple[Flags, str, str]] = [
        (
            {"client_certificate": __file__},
            "client_key: want the key",
            "--client-key: want the key",
        ),
        ({"as_uid": "1"}, "as_uid: want `as_user`", "--as-uid: want `--as`"),
        ({"as_groups": ["g"]}, "as_groups: want `as_user`", "--as-group: want `--as`"),
        ({"proxy_url": "socks5://a"}, "proxy_url: SOCKS", "--proxy-url: SOCKS"),
    ]
    for flags, of_python, of_shell in given:
        for prefix, expected in (("", of_python), ("--", of_shell)):
            with pytest.raises(InvalidConfiguration) as error:
                http_target("https://a", flags, prefix)
            assert str(error.value).startswith(expected)
    for prefix, name in (("", "the argument kubeconfig"), ("--", "--kubeconfig")):
        with pytest.raises(InvalidConfiguration, match=f"with {name} or KUBECONFIG$"):
            read_server(prefix=prefix, kubeconfig=write(Path(missing), {}))
        with pytest.raises(InvalidConfiguration, match=f"with {name} or KUBECONFIG$"):
            servers_of_contexts(["*"], prefix=prefix, kubeconfig=write(Path(missing), {}))


# --- gRPC with a kubeconfig


def test_a_named_kubeconfig_has_credentials_for_grpc(capsys: Capture, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "pki")
    pair = authority.server(["127.0.0.1"])
    credentials = grpc.ssl_server_credentials(
        [(pair.key_file.read_bytes(), pair.cert_file.read_bytes())]
    )
    write_plugin(tmp_path)
    content = config(
        {"certificate-authority": "pki/ca.crt"},
        {"token": "of-the-file"},
        users=[
            {"name": "u", "user": {"token": "of-the-file"}},
            {"name": "p", "user": plugin_keys("./plugin")},
        ],
    )
    path = write(tmp_path / "config", content)
    with FakeRegistry(credentials) as registry:

        def get(*args: str) -> Outcome:
            return run(capsys, "get", "crds", "--grpc-server", registry.address, *args)

        for args in (
            ("--kubeconfig", path),
            ("--kubeconfig", path, "--user", "p"),
            ("--kubeconfig", path, "--token", "of-the-flag"),
            ("--kubeconfig", path, "--user", "p"),
        ):
            assert get(*args) == Outcome(0, "", "No resources found\n")
        sent = [call.metadata["authorization"] for call in registry.calls]
        assert sent == [
            "Bearer of-the-file",
            "Bearer of-the-plugin",
            "Bearer of-the-flag",
            "Bearer of-the-plugin",
        ]
        plain = get("--kubeconfig", path, "--plaintext")
        assert plain.exit_code == 2
        assert "--plaintext cannot be used together with options for TLS" in plain.stderr


def test_a_kubeconfig_that_is_not_named_is_ignored_over_grpc(
    capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is for a server at another address, and of another kind."""
    path = write(tmp_path / "config", config({}, {"token": "of-the-file"}))
    monkeypatch.setenv("KUBECONFIG", path)
    with FakeRegistry() as registry:
        outcome = run(capsys, "get", "crds", "--grpc-server", registry.address)
        assert outcome.exit_code == 0
        assert "authorization" not in registry.calls[0].metadata
