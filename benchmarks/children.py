"""Servers and clients that the benchmarks run as processes of their own.

    children.py http-empty FILE [CERT KEY]   answers every request with the response in FILE
    children.py grpc-empty FILE         answers GetDiscovery with the bytes in FILE
    children.py grpc-load HOST:PORT FILE   sends the request in FILE, as lines on stdin say
    children.py changes GROUPS RESOURCES   publishes a change for each line on stdin
    children.py apply HOST:PORT         applies the manifest in each line on stdin
    children.py upstreams COUNT GROUPS  runs COUNT API servers with GROUPS groups each
    children.py fleet|fleet-delayed COUNT [GROUP_VERSIONS]   runs COUNT API servers of recorded
                                        releases, with definitions up to so many group-versions
    children.py watches HOST:PORT METHOD FILE CONNECTIONS STREAMS   holds watches with the request
                                        in FILE, so many on each connection
    children.py poll HOST:PORT          polls /apis, and prints the latencies for each line on stdin

Each prints JSON lines, and ends when its stdin does.
"""

import asyncio
import json
import select
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import grpc
import grpc.aio
import uvloop

METHOD = "/apidiscovery.service.v1.DiscoveryService/GetDiscovery"
_SETTLE_S = 0.02
_POLL_S = 0.002
UNLIMITED = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.so_reuseport", 0),
)


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


async def lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def http_empty(response: bytes, *tls: Path) -> None:
    """Serve a response: a line of JSON with status and headers, then the body.

    With a certificate and its key, Granian terminates TLS.
    """
    from apidiscovery_service.serving.http import Gateway, HttpServer  # noqa: PLC0415

    head, _, body = response.partition(b"\n")
    described = cast("dict[str, Any]", json.loads(head))
    headers = [(name.encode(), value.encode()) for name, value in described["headers"]]
    start = {"type": "http.response.start", "status": described["status"], "headers": headers}
    end = {"type": "http.response.body", "body": body}

    async def app(
        _scope: object, _receive: object, send: Callable[[object], Awaitable[None]]
    ) -> None:
        await send(start)
        await send(end)

    server = HttpServer(cast("Gateway", app), "127.0.0.1", 0)
    if tls:
        _use_tls(server, *tls)
    serving = asyncio.create_task(server.serve())
    say(http=f"127.0.0.1:{server.port}")
    await (await lines()).read()
    await server.stop(1.0)
    await serving


def _use_tls(server: object, cert: Path, key: Path) -> None:
    """Let Granian terminate TLS, which `HttpServer` never does; all else stays the same."""
    from granian.constants import SSLProtocols  # noqa: PLC0415

    granian = vars(server)["_server"]
    granian.build_ssl_context(cert, key, None, SSLProtocols.tls13, None, [], client_verify=False)


async def grpc_empty(answer: bytes) -> None:
    async def get(_request: bytes, _context: object) -> bytes:
        return answer

    server = grpc.aio.server(options=UNLIMITED)
    service, _, method = METHOD.strip("/").partition("/")
    handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(get)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    say(grpc=f"127.0.0.1:{port}")
    await (await lines()).read()
    await server.stop(1.0)


async def grpc_load(address: str, request: bytes) -> None:
    """Call for so many seconds with so many calls at a time, as each line on stdin says."""
    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        await call(request)
        say(ready=True)
        stdin = await lines()
        while line := await stdin.readline():
            seconds, at_a_time = json.loads(line)
            started = time.perf_counter()
            deadline = started + seconds

            async def caller(until: float = deadline) -> int:
                calls = 0
                while time.perf_counter() < until:
                    await call(request)
                    calls += 1
                return calls

            calls = sum(await asyncio.gather(*(caller() for _ in range(at_a_time))))
            say(requests=calls, seconds=time.perf_counter() - started)


async def changes(count: int, resources: int) -> None:
    """Serve many groups of a source each, as `apidiscovery serve` would wire it."""
    import documents  # noqa: PLC0415
    from apidiscovery_service.core.registry import Registry  # noqa: PLC0415
    from apidiscovery_service.encoding import CurrentEncoding  # noqa: PLC0415
    from apidiscovery_service.metrics import Metrics  # noqa: PLC0415
    from apidiscovery_service.serving.feature_gates import FeatureGates  # noqa: PLC0415
    from apidiscovery_service.serving.grpc import DiscoveryService, GrpcServer  # noqa: PLC0415
    from apidiscovery_service.serving.health import Checks  # noqa: PLC0415
    from apidiscovery_service.serving.http import Gateway, HttpServer, Site  # noqa: PLC0415

    registry, metrics = Registry(), Metrics()
    encoding = CurrentEncoding(registry)
    http = HttpServer(Gateway(encoding, Site(Checks(), metrics)), "127.0.0.1", 0)
    grpc_server = GrpcServer(DiscoveryService(registry, encoding, FeatureGates(), metrics))
    registry.publish(*map(documents.contribution, documents.groups(count, resources)))
    serving = asyncio.create_task(http.serve())
    grpc_port = await grpc_server.start("127.0.0.1:0")
    say(http=f"127.0.0.1:{http.port}", grpc=f"127.0.0.1:{grpc_port}")
    stdin, number = await lines(), 0
    while await stdin.readline():
        number += 1
        change = documents.change(number, count, resources)
        await asyncio.sleep(_SETTLE_S + number % 7 / 1000)
        before = time.perf_counter()
        snapshot = registry.publish(change)
        say(before=before, after=time.perf_counter(), etag=snapshot.named.etag)
    await asyncio.gather(http.stop(1.0), grpc_server.stop(1.0))
    await serving


async def apply(address: str) -> None:
    """Apply one manifest for each line, and say when the call began and when it was answered."""
    from apidiscovery.service.v1 import registry_pb2, registry_pb2_grpc  # noqa: PLC0415

    async with grpc.aio.insecure_channel(address, options=UNLIMITED) as channel:
        registry = registry_pb2_grpc.RegistryServiceStub(channel)
        await channel.channel_ready()
        say(ready=True)
        stdin, number = await lines(), 0
        while line := await stdin.readline():
            number += 1
            request = registry_pb2.ApplyRequest(
                manifests=[registry_pb2.ApplyRequest.Manifest(content=line)]
            )
            await asyncio.sleep(_SETTLE_S + number % 7 / 1000)
            before = time.perf_counter()
            await registry.Apply(request, timeout=30.0)
            say(before=before, after=time.perf_counter())


def poll(address: str) -> None:
    """Send conditional requests for `/apis` every 2 ms; for each line print their latencies."""
    from plain_http import Connection, get  # noqa: PLC0415

    etag = get(address, "/apis", {}).header("etag")
    connection = Connection(address)
    lags: list[float] = []
    say(ready=True)
    while True:
        began = time.perf_counter()
        etag = connection.get("/apis", {"if-none-match": etag}).header("etag")
        took = time.perf_counter() - began
        lags.append(took * 1000)
        if select.select([sys.stdin], [], [], max(_POLL_S - took, 0))[0]:
            if not sys.stdin.readline():
                return
            say(lags_ms=lags)
            lags = []


async def _api_servers(kind: str, count: int, groups: int = 0) -> None:
    import fleet  # noqa: PLC0415
    import upstreams  # noqa: PLC0415

    if kind == "upstreams":
        await upstreams.serve(count, groups)
    else:
        await fleet.serve(count, groups, is_delayed=kind == "fleet-delayed")


def main() -> None:
    match sys.argv[1:]:
        case ["http-empty", file, *tls]:
            uvloop.run(http_empty(Path(file).read_bytes(), *map(Path, tls)))
        case ["grpc-empty", file]:
            uvloop.run(grpc_empty(Path(file).read_bytes()))
        case ["grpc-load", address, file]:
            uvloop.run(grpc_load(address, Path(file).read_bytes()))
        case ["changes", count, resources]:
            uvloop.run(changes(int(count), int(resources)))
        case ["apply", address]:
            uvloop.run(apply(address))
        case [("upstreams" | "fleet" | "fleet-delayed") as kind, *sizes]:
            uvloop.run(_api_servers(kind, *map(int, sizes)))
        case ["watches", address, method, file, *counts]:
            from streams import watch  # noqa: PLC0415

            uvloop.run(watch(address, method, Path(file).read_bytes(), *map(int, counts)))
        case ["poll", address]:
            poll(address)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
