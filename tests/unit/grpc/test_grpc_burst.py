"""Many calls that come at once, as after a restart."""

import asyncio
import contextlib
from collections import Counter

import grpc
from apidiscovery.service.v1 import discovery_pb2
from grpc_server import SERVICE, serving

_CONNECTIONS, _EACH = 4, 950


async def test_no_call_of_a_burst_is_dropped() -> None:
    request = discovery_pb2.ListSourcesRequest().SerializeToString()
    async with serving() as served, contextlib.AsyncExitStack() as stack:
        # Blocking clients: while they begin their calls, the server takes none of them.
        channels = [
            stack.enter_context(grpc.insecure_channel(served.target, [("connection", number)]))
            for number in range(_CONNECTIONS)
        ]
        for channel in channels:
            grpc.channel_ready_future(channel).result(10)
        calls: list[grpc.Call] = []
        for channel in channels:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes]
            method = channel.unary_unary(f"/{SERVICE}/ListSources")
            calls += [method.future(request, timeout=60) for _ in range(_EACH)]
        ended = await asyncio.to_thread(lambda: Counter(call.code() for call in calls))
    assert ended == {grpc.StatusCode.OK: _CONNECTIONS * _EACH}
