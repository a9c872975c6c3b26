"""The server around DiscoveryService: health, reflection, metrics and the way it stops."""

import asyncio
import socket
from collections.abc import AsyncGenerator

import grpc
import grpc.aio
import pytest
import registry_server
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from grpc_contributions import APPS, CORE, one_group, resource
from grpc_errors import refusal
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_server import (
    SERVICE,
    Served,
    next_changes,
    raw_get,
    serving,
)
from waiting import WITHIN_S, until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
REGISTRY = "apidiscovery.service.v1.RegistryService"

each_service = pytest.mark.parametrize("service", ["", SERVICE], ids=["server", "service"])


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving(CORE, APPS) as served:
        yield served


async def health_of(served: Served | registry_server.Served, service: str) -> int:
    async with grpc.aio.insecure_channel(served.target) as channel:
        check: grpc.aio.UnaryUnaryMultiCallable[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ]
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        request = health_pb2.HealthCheckRequest(service=service)
        return (await check(request, timeout=WITHIN_S)).status


async def next_status(
    call: grpc.aio.UnaryStreamCall[health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse],
) -> int:
    async with asyncio.timeout(WITHIN_S):
        response = await call.read()
    assert isinstance(response, health_pb2.HealthCheckResponse)
    return response.status


@each_service
async def test_a_watch_of_health_follows_a_server_from_start_to_stop(service: str) -> None:
    async with serving(CORE, ready=False) as served, served.channel() as channel:
        watch: grpc.aio.UnaryStreamMultiCallable[
            health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse
        ]
        watch = channel.unary_stream(
            "/grpc.health.v1.Health/Watch",
            health_pb2.HealthCheckRequest.SerializeToString,
            health_pb2.HealthCheckResponse.FromString,
        )
        call = watch(health_pb2.HealthCheckRequest(service=service))
        assert await next_status(call) == NOT_SERVING
        await served.server.set_ready()
        assert await next_status(call) == SERVING
        stopping = asyncio.create_task(served.server.stop(WITHIN_S))
        assert await next_status(call) == NOT_SERVING
        call.cancel()
        await stopping


async def test_another_service_of_a_server_has_its_own_health() -> None:
    async with registry_server.serving(ready=False) as served:
        assert await health_of(served, REGISTRY) == NOT_SERVING
        await served.server.set_ready()
        assert await health_of(served, REGISTRY) == SERVING


async def test_health_of_an_unknown_service_is_not_found(served: Served) -> None:
    error = await refusal(health_of(served, "nobody.knows.v1.Service"))
    assert error.code() == grpc.StatusCode.NOT_FOUND


def reflect(target: str) -> tuple[list[str], DescriptorPool, list[FileDescriptorProto]]:
    """Ask the server what it serves, as a tool without the protos does."""
    with grpc.insecure_channel(target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = sorted(database.get_services())
        pool = DescriptorPool(database)
        pool.FindServiceByName(SERVICE)
        files: list[FileDescriptorProto] = []
        names = [database.FindFileContainingSymbol(SERVICE).name]
        for name in names:
            file = database.FindFileByName(name)
            files.append(file)
            names += [other for other in file.dependency if other not in names]
        return services, pool, files


async def test_reflection_gives_the_services_and_the_protos_with_all_that_they_import(
    served: Served,
) -> None:
    services, _, files = await asyncio.to_thread(reflect, served.target)
    assert services == [
        SERVICE,
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    ]
    assert sorted(file.name for file in files) == [
        "apidiscovery/meta/v1/meta.proto",
        "apidiscovery/service/v1/discovery.proto",
        "apidiscovery/v2/discovery.proto",
        "apidiscovery/v2beta1/discovery.proto",
        "google/protobuf/duration.proto",
        "google/protobuf/timestamp.proto",
    ]
    expected = FileDescriptorProto()
    discovery_pb2.DESCRIPTOR.CopyToProto(expected)
    assert expected in files


async def test_reflection_is_enough_to_call(served: Served) -> None:
    """A client without the protos reads a document."""
    _, pool, _ = await asyncio.to_thread(reflect, served.target)
    method = pool.FindServiceByName(SERVICE).FindMethodByName("GetDiscovery")
    assert method is not None
    answer = GetMessageClass(method.output_type)
    async with served.channel() as channel:
        raw = await raw_get(channel, discovery_pb2.GetDiscoveryRequest())
    message = answer.FromString(raw)
    assert message.SerializeToString(deterministic=True) == raw
    names = [told.name for told in discovery_pb2.GetDiscoveryResponse.FromString(raw).group_hashes]
    assert names == ["", "apps"]


async def test_an_address_in_use_is_an_error(served: Served) -> None:
    async with serving() as other:
        with pytest.raises(OSError, match=rf"cannot listen on {served.target} for gRPC"):
            await other.server.start(served.target)


async def test_stopping_ends_watches_at_once_with_unavailable() -> None:
    loop = asyncio.get_running_loop()
    async with serving(CORE, APPS) as served, served.stub() as stub:
        calls = [stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest()) for _ in range(10)]
        for call in calls:
            await next_changes(call)
        assert (served.watchers, ended(served, "WatchDiscovery")) == (10, 0)
        since = loop.time()
        stopping = asyncio.create_task(served.server.stop(WITHIN_S))
        for call in calls:
            error = await refusal(call.read())
            assert error.code() == grpc.StatusCode.UNAVAILABLE
            assert error.details() == "the server is stopping"
        await stopping
        assert loop.time() - since < WITHIN_S / 2
        await until(lambda: ended(served, "WatchDiscovery", code="UNAVAILABLE") == 10)
        assert served.watchers == 0


async def test_stopping_ends_a_watch_that_is_not_read_when_the_grace_is_over() -> None:
    loop = asyncio.get_running_loop()
    async with serving(CORE) as served, served.stub() as stub:
        call = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest())
        await next_changes(call)
        for number in range(40):
            bulk = f"{number}".ljust(1024 * 1024, "x")
            served.registry.publish(one_group("apps", resource("r", bulk)))
            for _ in range(20):
                await asyncio.sleep(0)
        since = loop.time()
        await served.server.stop(0.3)
        assert loop.time() - since < WITHIN_S / 2
        with pytest.raises(grpc.aio.AioRpcError) as caught:  # noqa: PT012 - what was sent comes first
            async with asyncio.timeout(WITHIN_S):
                while await call.read() is not grpc.aio.EOF:
                    pass
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
        await until(lambda: served.watchers == 0, within_s=10)


async def test_calls_after_stopping_are_unavailable() -> None:
    async with serving(CORE) as served, served.stub() as stub:
        await served.server.stop(0)
        error = await refusal(stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest()))
        assert error.code() == grpc.StatusCode.UNAVAILABLE
    with socket.create_server(("127.0.0.1", served.port)):
        """Nobody listens there any more."""


def ended(served: Served, method: str, **labels: str) -> float:
    return served.sample("apidiscovery_grpc_requests_total", method=method, **labels)


async def test_calls_are_counted_by_method_and_code(served: Served) -> None:
    async with served.stub() as stub:
        for _ in range(3):
            await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest(), timeout=WITHIN_S)
        await fail_each_way(served, stub)
    # A caller may hear of a failure a moment before it is counted.
    await until(lambda: ended(served, "GetDiscovery") + ended(served, "WatchDiscovery") == 9)
    assert ended(served, "GetDiscovery", code="OK") == 3
    for method in ("GetDiscovery", "WatchDiscovery"):
        assert ended(served, method, code="INVALID_ARGUMENT") == 1
        assert ended(served, method, code="FAILED_PRECONDITION") == 1
        assert ended(served, method, code="UNAVAILABLE") == 1
    assert ended(served, "GetDiscovery") == 6
    assert ended(served, "WatchDiscovery") == 3


async def fail_each_way(
    served: Served, stub: "discovery_pb2_grpc.DiscoveryServiceAsyncStub"
) -> None:
    """Call each method so that it fails, once for each reason."""
    unspecified = [discovery_pb2.DISCOVERY_VERSION_UNSPECIFIED]
    for ready, get, watch in (
        (
            True,
            discovery_pb2.GetDiscoveryRequest(accept_versions=unspecified),
            discovery_pb2.WatchDiscoveryRequest(heartbeat_interval=Duration()),
        ),
        (True, *no_common_version()),
        (False, discovery_pb2.GetDiscoveryRequest(), discovery_pb2.WatchDiscoveryRequest()),
    ):
        served.ready = ready
        await refusal(stub.GetDiscovery(get))
        await refusal(stub.WatchDiscovery(watch).read())


def no_common_version() -> tuple[
    discovery_pb2.GetDiscoveryRequest, discovery_pb2.WatchDiscoveryRequest
]:
    """Return requests for version 99, which a later server may know."""
    return (
        discovery_pb2.GetDiscoveryRequest.FromString(b"\x10\x63"),
        discovery_pb2.WatchDiscoveryRequest.FromString(b"\x08\x63"),
    )


async def test_the_blocking_stub_works_too(served: Served) -> None:
    """The stub of grpcio over a channel without asyncio, from a thread of its own."""

    def call() -> tuple[str, str]:
        with grpc.insecure_channel(served.target) as channel:
            stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
            got = stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest(), timeout=WITHIN_S)
            stream = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest(), timeout=WITHIN_S)
            return got.etag, next(iter(stream)).changes.etag

    got, watched = await asyncio.to_thread(call)
    assert got == watched
