"""What a person does with curl, and what programs do that read its output."""

import json
import subprocess
from pathlib import Path

import pytest
from raw_http import AGG, PBAGG, get
from server import Server, environment

from tools import find_tool


@pytest.fixture(scope="module")
def curl() -> str:
    return find_tool("curl")


def run(program: str, server: Server, path: str, *args: str) -> bytes:
    done = subprocess.run(  # noqa: S603
        [program, "--silent", "--show-error", *args, server.url + path],
        check=True,
        capture_output=True,
        env=environment(Path("/")),
        timeout=30,
    )
    assert done.stderr == b""
    return done.stdout


def test_plain(curl: str, server: Server) -> None:
    """People get JSON that they can read."""
    output = run(curl, server, "/apis")
    assert output.startswith(b'{\n  "kind": "APIGroupList",\n  "apiVersion": "v1",\n')
    assert json.loads(output) == get(server.http_port, "/apis").json()


def test_aggregated(curl: str, server: Server) -> None:
    output = run(curl, server, "/apis", "--header", f"Accept: {AGG}")
    assert json.loads(output) == get(server.http_port, "/apis", AGG).json()


def test_a_saved_etag_gives_304(curl: str, server: Server, tmp_path: Path) -> None:
    args = ("--header", f"Accept: {AGG}", "--write-out", "%{http_code} %{content_type}")
    etag = str(tmp_path / "etag")
    body = str(tmp_path / "body")
    first = run(curl, server, "/apis", *args, "--etag-save", etag, "--output", body)
    again = run(curl, server, "/apis", *args, "--etag-compare", etag, "--output", "/dev/null")
    assert first == f"200 {AGG}".encode()
    assert again == b"304 "
    assert json.loads((tmp_path / "body").read_bytes())["kind"] == "APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/apis", "/api/v1"])
def test_compressed(curl: str, server: Server, path: str) -> None:
    """`--compressed` asks for whatever this curl can read."""
    size = "\n%{size_download}"
    compressed = run(curl, server, path, "--compressed", "--write-out", size)
    plain = run(curl, server, path, "--write-out", size)
    body, sent = compressed.rsplit(b"\n", 1)
    assert body == plain.rsplit(b"\n", 1)[0]
    assert int(sent) < len(body) / 2


def test_protobuf(curl: str, server: Server) -> None:
    output = run(curl, server, "/apis", "--header", f"Accept: {PBAGG}")
    assert output == get(server.http_port, "/apis", PBAGG).body


def test_head(curl: str, server: Server) -> None:
    output = run(curl, server, "/apis", "--head", "--header", f"Accept: {AGG}").decode()
    assert output.startswith("HTTP/1.1 200 OK\r\n")
    assert f"content-type: {AGG}\r\n" in output


def test_http_2_by_prior_knowledge(curl: str, server: Server) -> None:
    features = subprocess.run(  # noqa: S603
        [curl, "--version"], check=True, capture_output=True, text=True
    ).stdout
    if "HTTP2" not in features:
        pytest.skip("this curl has no HTTP/2")
    protocol = ("--http2-prior-knowledge", "--write-out", "%{stderr}%{http_version}")
    done = subprocess.run(  # noqa: S603
        [curl, "--silent", *protocol, "--header", f"Accept: {AGG}", f"{server.url}/apis?pretty=0"],
        check=True,
        capture_output=True,
    )
    assert (done.stdout, done.stderr) == (get(server.http_port, "/apis", AGG).body, b"2")


def test_health(curl: str, server: Server) -> None:
    assert run(curl, server, "/readyz", "--fail") == b"ok"
    assert run(curl, server, "/readyz?verbose", "--fail").endswith(b"readyz check passed\n")
