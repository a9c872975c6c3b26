"""The same service through betterproto's stubs, over grpclib: another codec and another HTTP/2."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import betterproto
import grpclib
import pytest
from apidiscovery.service.v1 import discovery_pb2
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_service.sources.catalog import kubernetes_catalog
from grpc_contributions import APPS, CORE, EXAMPLES, large
from grpc_holding import Holding
from grpc_server import Served, raw_get, serving
from grpclib.exceptions import GRPCError
from waiting import WITHIN_S, until


async def get(served: Served, request: v1.GetDiscoveryRequest) -> v1.GetDiscoveryResponse:
    async with served.grpclib_channel() as channel:
        stub = v1.DiscoveryServiceStub(channel)
        return await stub.get_discovery(request, timeout=WITHIN_S)


@asynccontextmanager
async def watching(
    served: Served, request: v1.WatchDiscoveryRequest
) -> AsyncGenerator[AsyncIterator[v1.WatchDiscoveryResponse]]:
    async with served.grpclib_channel() as channel:
        stub = v1.DiscoveryServiceStub(channel)
        stream = cast("AsyncGenerator[v1.WatchDiscoveryResponse]", stub.watch_discovery(request))
        try:
            yield stream
        finally:
            await stream.aclose()


async def next_changes(
    stream: AsyncIterator[v1.WatchDiscoveryResponse],
) -> v1.WatchDiscoveryResponseChanges:
    kind, changes = "heartbeat", None
    async with asyncio.timeout(WITHIN_S):
        while kind == "heartbeat":  # one may come before, on a busy machine
            kind, changes = betterproto.which_one_of(await anext(stream), "event")
    assert kind == "changes"
    assert isinstance(changes, v1.WatchDiscoveryResponseChanges)
    return changes


def apply(held: Holding, delta: v1.DiscoveryDelta) -> None:
    held.apply(discovery_pb2.DiscoveryDelta.FromString(bytes(delta)))


@pytest.mark.parametrize(
    ("version", "result"),
    [(v1.DiscoveryVersion.V2, "v2"), (v1.DiscoveryVersion.V2BETA1, "v2_beta1")],
    ids=["v2", "v2beta1"],
)
async def test_a_document_has_the_bytes_that_grpcio_reads(
    version: v1.DiscoveryVersion, result: str
) -> None:
    request = v1.GetDiscoveryRequest(accept_versions=[version])
    async with serving(kubernetes_catalog()) as served:
        response = await get(served, request)
        async with served.channel() as channel:
            same = discovery_pb2.GetDiscoveryRequest.FromString(bytes(request))
            assert bytes(response) == await raw_get(channel, same)
    assert betterproto.which_one_of(response, "result")[0] == result


async def test_a_watch_gets_changes_and_heartbeats_and_ends_when_left() -> None:
    held = Holding()
    request = v1.WatchDiscoveryRequest(heartbeat_interval=timedelta(seconds=1))
    async with serving(CORE, APPS) as served:
        async with watching(served, request) as stream:
            first = await next_changes(stream)
            apply(held, first.delta)
            assert held.etag(discovery_pb2.DISCOVERY_SCOPE_ALL) == first.etag
            served.registry.publish(*EXAMPLES)
            served.registry.withdraw(CORE.source)
            second = await next_changes(stream)
            apply(held, second.delta)
            assert second.delta.removed == [""]
            assert held.etag(discovery_pb2.DISCOVERY_SCOPE_ALL) == second.etag
            async with asyncio.timeout(WITHIN_S):
                message = await anext(stream)
            assert betterproto.which_one_of(message, "event")[0] == "heartbeat"
            assert message.heartbeat.etag == second.etag
            assert served.watchers == 1
        await until(lambda: served.watchers == 0)


async def test_watch_ends_with_unavailable_when_the_server_stops() -> None:
    async with (
        serving(CORE, APPS) as served,
        watching(served, v1.WatchDiscoveryRequest()) as stream,
    ):
        await next_changes(stream)
        reading = asyncio.create_task(cast("Coroutine[None, None, object]", anext(stream)))
        await asyncio.sleep(0)
        await served.server.stop(WITHIN_S)
        with pytest.raises(GRPCError) as caught:
            await reading
    assert caught.value.status == grpclib.const.Status.UNAVAILABLE


async def test_a_document_above_the_default_limit_of_4_mib_passes() -> None:
    size = 5 * 1024 * 1024
    async with asyncio.timeout(WITHIN_S), serving(large(size, 20, 10)) as served:
        request = v1.GetDiscoveryRequest(scope=v1.DiscoveryScope.from_string("GROUPS"))
        response = await get(served, request)
        message = await served.encoding.current.list_message(core=False)
        assert len(message) > size
        assert bytes(response.v2.groups) == message
