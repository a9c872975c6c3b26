"""`apidiscovery serve` as an operator sees it: starting, changing, stopping, refusing."""

import asyncio
import json
import os
import shlex
import signal
import socket
import subprocess
import textwrap
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import cast

import grpc
import grpc.aio
import httpx2
import pytest
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from media_types import JSON_V2
from metrics_text import total
from programs import refused
from raw_http import get
from server import DRAIN_S, Serve, Server, serving
from waiting import WITHIN_S, eventually

# Until an edit is served on a busy machine.

H2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000040000000000")


def manifest(*groups: str, extra: str = "") -> str:
    """Return a discovery list of these groups, each with one resource."""
    items = "".join(
        f"""
        - metadata: {{name: {group}}}
          versions:
          - version: v1
            freshness: Current
            resources:
            - resource: things
              responseKind: {{group: "", version: "", kind: Thing}}
              scope: Cluster
              singularResource: thing
              verbs: [get]{extra}"""
        for group in groups
    )
    head = "kind: APIGroupDiscoveryList\napiVersion: apidiscovery.k8s.io/v2\nitems:"
    return head + textwrap.dedent(items) + "\n"


def groups(server: Server) -> list[str]:
    """Return the names of the groups that are served, in order."""
    listed = cast("list[dict[str, str]]", get(server.http_port, "/apis").json()["groups"])
    return [group["name"] for group in listed]


def write(path: Path, text: str) -> None:
    """Write as an editor does: another file, renamed."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    beside.replace(path)


# Stopping.


async def test_idle_connections_do_not_delay_the_end_and_a_watch_ends_with_unavailable(
    serve: Serve,
) -> None:
    """The caller that watches then goes on at another replica; nothing but the store is left."""
    server = serve()
    assert json.loads(server.ready_file.read_bytes()) == {"http": server.http, "grpc": server.grpc}
    assert server.ready_file.read_bytes().endswith(b"\n")
    async with (
        grpc.aio.insecure_channel(server.grpc) as channel,
        httpx2.AsyncClient(base_url=server.url, trust_env=False, timeout=WITHIN_S) as client,
    ):
        assert (await client.get("/livez")).text == "ok"
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        watch = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest())
        first = await anext(aiter(watch))
        assert first.changes.etag
        stopping = asyncio.create_task(asyncio.to_thread(server.stop))
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await anext(aiter(watch))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert caught.value.details() == "the server is stopping"
        assert await stopping < DRAIN_S
    left = sorted(path.name for path in server.ready_file.parent.iterdir())
    assert left == [".local", "stderr"]
    for address in (server.http, server.grpc):
        host, _, port = address.rpartition(":")
        with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port))):
            pass


def test_clients_that_never_read_are_cut_off(serve: Serve) -> None:
    """They hold up the end for as long as requests are given, and no longer."""
    server = serve()
    address = ("127.0.0.1", server.http_port)
    with ExitStack() as stack:
        idle = stack.enter_context(
            httpx2.Client(
                base_url=server.url, http1=False, http2=True, trust_env=False, timeout=WITHIN_S
            )
        )
        assert idle.get("/livez").http_version == "HTTP/2"
        for sent in (b"", b"GET /api", H2_PREFACE, H2_PREFACE[:10]):
            stuck = stack.enter_context(socket.create_connection(address, WITHIN_S))
            stuck.sendall(sent)
        server.stop(within_s=DRAIN_S + 15)  # otherwise never


# Starting.


async def test_the_addresses_are_those_that_answer(server: Server) -> None:
    assert get(server.http_port, "/readyz").status == 200
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        request = discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
        answer = await stub.GetDiscovery(request)
    assert f'"{answer.etag}"' == get(server.http_port, "/apis", JSON_V2).etag


async def test_http_can_be_off_and_sigint_ends_a_server(serve: Serve) -> None:
    server = serve("--http", "off")
    assert json.loads(server.ready_file.read_bytes()) == {"http": None, "grpc": server.grpc}
    async with grpc.aio.insecure_channel(server.grpc) as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        assert (await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest())).etag
    server.stop(signal.SIGINT)


def test_file_variables_and_flags_are_put_together(serve: Serve, tmp_path: Path) -> None:
    """A flag wins over its variable, and that over the file."""
    (tmp_path / "one.yaml").write_text(manifest("one.example.com"))
    (tmp_path / "two.yaml").write_text(manifest("two.example.com"))
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: apidiscovery/v1\n"
        "kind: ServerConfiguration\n"
        "http: off\n"
        "grpc: off\n"
        "catalog: kubernetes\n"
        f"manifests: [{tmp_path}/one.yaml, {tmp_path}/two.yaml]\n"
        "feature-gates: {AggregatedDiscoveryRemoveBetaType: true}\n"
        "log-format: json\n"
    )
    variables = {"APIDISCOVERY_HTTP": "127.0.0.1:0", "APIDISCOVERY_CATALOG": "kubernetes"}
    flags = ("--config", str(config), "--catalog", "none")
    server = serve(*flags, env=variables, addresses=False)
    assert server.grpc == ""
    assert groups(server) == ["one.example.com", "two.example.com"]
    assert get(server.http_port, "/apis", JSON_V2.replace("v=v2", "v=v2beta1")).status == 406
    lines = [json.loads(line) for line in server.log().splitlines()]
    (serving,) = [line for line in lines if line["event"] == "serving"]
    assert serving["http"] == f"http://{server.http}"
    # As it was started: what is in no PATH has to be typed with its folder.
    tried = subprocess.run(  # noqa: S603 - the command of the server
        shlex.split(serving["to_try"]), capture_output=True, text=True, check=True
    )
    assert "one.example.com/v1" in tried.stdout
    assert not [line for line in lines if line["event"] == "claim held"]


def test_variables_alone_are_enough(serve: Serve, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(manifest(f"{name}.example.com"))
    paths = (str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml"))
    variables = {
        "APIDISCOVERY_HTTP": "127.0.0.1:0",
        "APIDISCOVERY_GRPC": "off",
        "APIDISCOVERY_MANIFESTS": os.pathsep.join(paths),
        "APIDISCOVERY_FEATURE_GATES": "AggregatedDiscoveryEndpoint=false",
    }
    server = serve(env=variables, addresses=False)
    assert json.loads(server.ready_file.read_bytes()) == {"http": server.http, "grpc": None}
    assert groups(server) == ["one.example.com", "two.example.com"]
    assert get(server.http_port, "/apis", JSON_V2).status == 406


# Refusing to start.


@contextmanager
def taken_port() -> Generator[int]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("flag", "other", "what"), [("http", "grpc", "HTTP"), ("grpc", "http", "gRPC")]
)
def test_a_port_that_is_taken(tmp_path: Path, flag: str, other: str, what: str) -> None:
    with taken_port() as port:
        code, log = refused(tmp_path, f"--{flag}", f"127.0.0.1:{port}", f"--{other}", "127.0.0.1:0")
    errors = [line for line in log.splitlines() if line.startswith("error: ")]
    assert code == 1, log
    assert len(errors) == 1, log
    assert errors[0].startswith(f"error: cannot listen on 127.0.0.1:{port} for {what}: ")
    assert errors[0].endswith(
        f"; choose another address with --{flag} HOST:PORT (port 0 for a free one)"
    )
    assert "Traceback" not in log


def test_a_bad_manifest_is_named_with_document_line_and_field(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    wrong = manifest("b.example.com", extra="\n              oops: 1")
    path.write_text(f"{manifest('a.example.com')}---\n{wrong}")
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    code, log = refused(tmp_path, *free, "--manifests", str(path))
    assert code == 2, log
    field = "items[0].versions[0].resources[0].oops"
    assert f"error: {path}:28, document 2, {field}: unknown field" in log
    assert "Traceback" not in log


def test_a_ready_file_that_cannot_be_written(tmp_path: Path) -> None:
    free = ("--http", "127.0.0.1:0", "--grpc", "127.0.0.1:0")
    code, log = refused(tmp_path, *free, "--ready-file", str(tmp_path / "missing" / "ready"))
    assert code == 1, log
    assert "error: " in log
    assert str(tmp_path / "missing") in log
    assert "Traceback" not in log


# Following manifests.


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Path]]:
    """Return a server of a folder of manifests, and the folder."""
    folder = tmp_path_factory.mktemp("manifests")
    (folder / "one.yaml").write_text(manifest("one.example.com"))
    with serving(tmp_path_factory.mktemp("watching"), "--manifests", str(folder)) as server:
        yield server, folder


def test_an_edit_shows_within_a_second(watched: tuple[Server, Path]) -> None:
    server, folder = watched
    path = folder / "edited.yaml"
    two, three, more = (manifest(f"{name}.example.com") for name in ("two", "three", "more"))
    steps: list[tuple[Callable[[], object], list[str]]] = [
        (lambda: write(path, two), ["one", "two"]),
        (lambda: path.write_text(three), ["one", "three"]),
        (lambda: write(path.with_name("more.yml"), more), ["more", "one", "three"]),
        (path.unlink, ["more", "one"]),
        (path.with_name("more.yml").unlink, ["one"]),
    ]
    took: list[float] = []
    for edit, names in steps:
        edit()
        began = time.monotonic()
        _serves(server, [f"{name}.example.com" for name in names])
        took.append(time.monotonic() - began)
    assert min(took) < 1.0  # a busy machine may delay the others


def _serves(server: Server, want: list[str]) -> None:
    eventually(lambda: sorted(groups(server)) == want, f"{want} are served")


def test_a_broken_manifest_keeps_its_last_good_content(watched: tuple[Server, Path]) -> None:
    server, folder = watched
    path, port = folder / "one.yaml", server.http_port
    good = get(port, "/apis", JSON_V2)
    labels = {"file": str(path)}

    def warning() -> str:
        lines = get(port, "/readyz?verbose").body.decode().splitlines()
        return next((line for line in lines if line.startswith("warn: manifests: ")), "")

    assert warning() == ""
    write(path, manifest("one.example.com").replace("Cluster", "Galaxy"))
    shown = eventually(warning, "the problem is shown")
    assert shown.startswith(f"warn: manifests: {path}:11, document 1, items[0]")
    assert get(port, "/readyz").status == 200
    assert total(port, "apidiscovery_manifest_file_error", **labels) == 1
    assert total(port, "apidiscovery_manifest_loads_total", result="error") == 1
    assert get(port, "/apis", JSON_V2).body == good.body

    write(path, manifest("one.example.com", "two.example.com"))
    eventually(lambda: not warning(), "the problem is gone")
    assert groups(server) == ["one.example.com", "two.example.com"]
    assert total(port, "apidiscovery_manifest_file_error", **labels) == 0

    write(path, manifest("one.example.com"))
    eventually(lambda: len(groups(server)) == 1, "the first content is back")
    assert get(port, "/apis", JSON_V2).etag == good.etag
