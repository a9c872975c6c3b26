"""A port that speaks another protocol is reported, with the address to use instead."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Authority
from command_line import run
from fake_api_server import Answer, FakeApiServer, aggregated, status
from server import Server

Capture = pytest.CaptureFixture[str]

# By httpx2, by our own HTTP/1.1, by http.client; of diff, the code for trouble is 2.
OVER_HTTP = ("api-resources", "explain pods", "openapi get", "conformance", "diff")
OVER_GRPC = ("get sources", "watch")


def asked(capsys: Capture, command: str, address: str) -> str:
    """Return what a command tells of an address, after it has failed."""
    if command == "diff":
        outcome = run(capsys, "diff", address, "kubernetes:1.35")
    elif command in OVER_GRPC:
        option = "--grpc" if command == "watch" else "--grpc-server"
        outcome = run(capsys, *command.split(), option, address)
    else:
        outcome = run(capsys, *command.split(), "--server", address)
    assert outcome.exit_code == (2 if command == "diff" else 1)
    assert outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1
    return outcome.stderr


@pytest.fixture
def tls_port() -> Iterator[str]:
    """Return the address of a server that says what Go's net/http says to plain HTTP."""
    body = b"Client sent an HTTP request to an HTTPS server.\n"
    paths = ("/api", "/apis", "/openapi/v3")
    with FakeApiServer(dict.fromkeys(paths, Answer(body, None, 400))) as server:
        yield server.url.removeprefix("http://")


@pytest.mark.parametrize("command", OVER_HTTP)
def test_https_to_a_port_without_tls(capsys: Capture, server: Server, command: str) -> None:
    told = asked(capsys, command, f"https://{server.http}")
    assert f"the port does not speak TLS; if it is the right one, ask http://{server.http}" in told


@pytest.mark.parametrize("command", OVER_HTTP)
def test_http_to_grpc(capsys: Capture, server: Server, command: str) -> None:
    told = asked(capsys, command, f"http://{server.grpc}")
    assert "the port does not speak HTTP/1.1, as a port for gRPC does" in told


@pytest.mark.parametrize("command", OVER_HTTP)
def test_http_to_a_port_with_tls(capsys: Capture, tls_port: str, command: str) -> None:
    told = asked(capsys, command, f"http://{tls_port}")
    assert f"the port speaks TLS; ask https://{tls_port}" in told


@pytest.mark.parametrize("command", OVER_GRPC)
def test_grpc_to_http(capsys: Capture, server: Server, command: str) -> None:
    told = asked(capsys, command, server.http)
    assert "the port speaks HTTP but no gRPC; that for gRPC is another, by default 50051" in told


@pytest.mark.parametrize("command", OVER_GRPC)
def test_grpc_to_tls(capsys: Capture, tmp_path: Path, command: str) -> None:
    pair = Authority(tmp_path).server(["127.0.0.1"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.cert_file, pair.key_file)
    with FakeApiServer({}, tls=context) as server:
        told = asked(capsys, command, server.url.removeprefix("https://"))
    assert "Socket closed, as by a port for TLS where none is spoken" in told


@pytest.mark.parametrize("code", [200, 404])
@pytest.mark.parametrize("command", ["api-resources", "openapi get", "conformance", "diff"])
def test_a_web_server(capsys: Capture, command: str, code: int) -> None:
    page = Answer(b"<!DOCTYPE html><html></html>", "text/html", code)
    with FakeApiServer(dict.fromkeys(("/api", "/apis", "/openapi/v3"), page)) as server:
        told = asked(capsys, command, server.url)
    assert "not an API server" in told


@pytest.mark.parametrize("command", ["api-resources", "api-versions"])
def test_nothing_at_all_is_no_empty_table(capsys: Capture, command: str) -> None:
    routes = {"/api": status(404, "NotFound", "no core group"), "/apis": aggregated()}
    with FakeApiServer(routes) as server:
        outcome = run(capsys, command, "--server", server.url)
    assert outcome.exit_code == 1
    assert f"{server.url} serves no API at all" in outcome.stderr
