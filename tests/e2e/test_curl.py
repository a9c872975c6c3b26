"""curl: ETags that it saves, codings that it reads, HTTP/2 by prior knowledge."""

import json
from pathlib import Path

import pytest
from command_line import Outcome
from media_types import JSON_V2
from programs import curl
from raw_http import get
from server import Server


def run(folder: Path, *args: str) -> str:
    """Return what curl prints; it must not complain."""
    done = curl(folder, *args)
    assert (done.exit_code, done.stderr) == (0, "")
    return done.stdout


def test_people_get_json_that_they_can_read(server: Server, tmp_path: Path) -> None:
    output = run(tmp_path, f"{server.url}/apis")
    assert output.startswith('{\n  "kind": "APIGroupList",\n  "apiVersion": "v1",\n')
    assert json.loads(output) == get(server.http_port, "/apis").json()


def test_a_saved_etag_gives_304(server: Server, tmp_path: Path) -> None:
    wanted = ("--header", f"Accept: {JSON_V2}", "--write-out", "%{http_code} %{content_type}")
    args = (*wanted, f"{server.url}/apis")
    first = run(tmp_path, *args, "--etag-save", "etag", "--output", "body")
    again = run(tmp_path, *args, "--etag-compare", "etag", "--output", "/dev/null")
    assert (first, again) == (f"200 {JSON_V2}", "304 ")
    assert json.loads((tmp_path / "body").read_bytes())["kind"] == "APIGroupDiscoveryList"


@pytest.mark.parametrize("path", ["/apis", "/api/v1"])
def test_what_is_sent_compressed_is_the_same(server: Server, tmp_path: Path, path: str) -> None:
    """`--compressed` asks for any coding that this curl can read."""
    args = ("--write-out", "\n%{size_download}", server.url + path)
    compressed, size = run(tmp_path, "--compressed", *args).rsplit("\n", 1)
    assert compressed == run(tmp_path, *args).rsplit("\n", 1)[0]
    assert int(size) < len(compressed) / 2


def test_http_2_by_prior_knowledge(server: Server, tmp_path: Path) -> None:
    if "HTTP2" not in run(tmp_path, "--version"):
        pytest.skip("this curl has no HTTP/2")
    protocol = ("--http2-prior-knowledge", "--write-out", "%{stderr}%{http_version}")
    done = curl(
        tmp_path, *protocol, "--header", f"Accept: {JSON_V2}", f"{server.url}/apis?pretty=0"
    )
    body = get(server.http_port, "/apis", JSON_V2).body.decode()
    assert done == Outcome(0, body, "2")


def test_fail_lets_readiness_pass(server: Server, tmp_path: Path) -> None:
    assert run(tmp_path, "--fail", f"{server.url}/readyz") == "ok"
