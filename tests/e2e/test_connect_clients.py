"""A real server, called by the official client of Connect and gRPC-Web, and by curl."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from apidiscovery.service.v1 import discovery_pb2, registry_pb2
from connectrpc.client import ConnectClient
from connectrpc.code import Code
from connectrpc.codec import Codec
from connectrpc.compat import google_protobuf_binary_codec, google_protobuf_json_codec
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.protocol import ProtocolType
from openapi_process import publication
from programs import curl, run_shell
from repository import EXAMPLES
from server import Server, serving
from waiting import WITHIN_S

PAGE = "http://localhost:5173"
DISCOVERY = "apidiscovery.service.v1.DiscoveryService"
READ = f"/{DISCOVERY}/GetDiscovery?connect=v1&encoding=json&message=%7B%7D"


def method(
    service: str, name: str, messages: ModuleType, *, reads: bool, streams: bool = False
) -> MethodInfo[Any, Any]:
    """Return what protoc-gen-connectrpc would write for a method."""
    return MethodInfo(
        name=name,
        service_name=service,
        input=vars(messages)[f"{name}Request"],
        output=vars(messages)[f"{name}Response"],
        idempotency_level=IdempotencyLevel.NO_SIDE_EFFECTS if reads else IdempotencyLevel.UNKNOWN,
        stream_type=StreamType.SERVER_STREAM if streams else StreamType.UNARY,
    )


GET = method(DISCOVERY, "GetDiscovery", discovery_pb2, reads=True)
WATCH = method(DISCOVERY, "WatchDiscovery", discovery_pb2, reads=True, streams=True)
PUBLISH = method("apidiscovery.service.v1.RegistryService", "Publish", registry_pb2, reads=False)

PROTOCOLS = pytest.mark.parametrize(
    ("protocol", "codec"),
    [
        pytest.param(ProtocolType.CONNECT, google_protobuf_binary_codec(), id="connect-proto"),
        pytest.param(ProtocolType.CONNECT, google_protobuf_json_codec(), id="connect-json"),
        pytest.param(ProtocolType.GRPC_WEB, google_protobuf_binary_codec(), id="grpc-web"),
    ],
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server without a gRPC port, which pages of one origin may call."""
    flags = ("--grpc", "off", "--store", "memory", "--cors-origin", PAGE)
    with serving(tmp_path_factory.mktemp("server"), *flags) as one:
        yield one


@asynccontextmanager
async def client_of(
    server: Server, protocol: ProtocolType, codec: Codec
) -> AsyncGenerator[ConnectClient]:
    """Return a client that gives up before it hangs."""
    async with asyncio.timeout(WITHIN_S):
        client = ConnectClient(server.url, protocol=protocol, codec=codec)
        try:
            yield client
        finally:
            await client.close()


@PROTOCOLS
async def test_a_unary_call(server: Server, protocol: ProtocolType, codec: Codec) -> None:
    async with client_of(server, protocol, codec) as client:
        uses_get = protocol is ProtocolType.CONNECT
        request = discovery_pb2.GetDiscoveryRequest()
        first = await client.execute_unary(request=request, method=GET, use_get=uses_get)
        assert any(item.metadata.name == "apps" for item in first.v2.groups.items)
        request = discovery_pb2.GetDiscoveryRequest(if_none_match=first.etag)
        again = await client.execute_unary(
            request=request, method=GET, use_get=uses_get, timeout_ms=10_000
        )
        assert again.WhichOneof("result") == "not_modified"


@PROTOCOLS
async def test_an_error_with_its_details(
    server: Server, protocol: ProtocolType, codec: Codec
) -> None:
    async with client_of(server, protocol, codec) as client:
        request = publication("wrong.example.com")
        request.groups.groups[0].group.metadata.name = "Not a name"
        with pytest.raises(ConnectError) as caught:
            await client.execute_unary(request=request, method=PUBLISH)
        assert caught.value.code is Code.INVALID_ARGUMENT
        assert "metadata.name" in caught.value.message
        assert [detail.type_name for detail in caught.value.details] == ["google.rpc.BadRequest"]


@PROTOCOLS
async def test_a_stream_brings_what_is_published(
    server: Server, protocol: ProtocolType, codec: Codec, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.id
    async with client_of(server, protocol, codec) as client:
        stream = client.execute_server_stream(
            request=discovery_pb2.WatchDiscoveryRequest(), method=WATCH
        )
        first = await anext(stream)
        assert len(first.changes.delta.changed) > 15
        await client.execute_unary(request=publication(f"{name}.example.com"), method=PUBLISH)
        second = await anext(stream)
        assert [group.name for group in second.changes.delta.changed] == [f"{name}.example.com"]


@PROTOCOLS
async def test_a_deadline(server: Server, protocol: ProtocolType, codec: Codec) -> None:
    async with client_of(server, protocol, codec) as client:
        stream = client.execute_server_stream(
            request=discovery_pb2.WatchDiscoveryRequest(), method=WATCH, timeout_ms=500
        )
        with pytest.raises(ConnectError) as caught:
            async for _ in stream:
                pass
        assert caught.value.code is Code.DEADLINE_EXCEEDED


async def test_the_end_of_the_server_ends_streams(tmp_path: Path) -> None:
    with serving(tmp_path, "--grpc", "off", "--store", "memory") as server:
        codec = google_protobuf_binary_codec()
        async with client_of(server, ProtocolType.CONNECT, codec) as client:
            stream = client.execute_server_stream(
                request=discovery_pb2.WatchDiscoveryRequest(), method=WATCH
            )
            await anext(stream)
            stopping = asyncio.create_task(asyncio.to_thread(server.stop))
            with pytest.raises(ConnectError, match="the server is stopping") as caught:
                async for _ in stream:
                    pass
            assert caught.value.code is Code.UNAVAILABLE
            await stopping


def test_curl_reads_and_is_told_that_nothing_has_changed(server: Server, tmp_path: Path) -> None:
    url = f"{server.url}{READ}"
    answer = curl(tmp_path, "--fail", "--etag-save", "etag", url)
    assert json.loads(answer.stdout)["v2"]["core"]["items"][0]["versions"][0]["version"] == "v1"
    again = curl(tmp_path, "--fail", "--etag-compare", "etag", "-w", "%{http_code}", url)
    assert again.stdout == "304"


def test_pages_are_allowed_by_a_flag(server: Server, tmp_path: Path) -> None:
    answer = curl(tmp_path, "-i", "-H", f"Origin: {PAGE}", f"{server.url}{READ}")
    assert f"access-control-allow-origin: {PAGE}\n" in answer.stdout.replace("\r", "")


def test_the_example_in_python(server: Server, tmp_path: Path) -> None:
    done = run_shell(tmp_path, f"{sys.executable} {EXAMPLES / 'connect_client.py'} {server.url}")
    assert done.exit_code == 0, done.stderr
    first, changed, ended = done.stdout.splitlines()
    assert " groups, " in first
    assert (changed, ended) == ("changed: ['apps']", "ended: deadline_exceeded")
    assert done.stderr == ""
