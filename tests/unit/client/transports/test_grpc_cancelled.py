"""A task that is cancelled during a call ends, whatever becomes of the connection."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest
from apidiscovery.service.v1 import storage_version_pb2
from apidiscovery_client._grpc.calls import GrpcServer, aio_failing
from apidiscovery_client._grpc.errors import CallFailedError
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.storage_versions.service import ServiceChannels
from apidiscovery_client.transports._aio_calls import AioCalls
from apidiscovery_client.transports._grpc_watching import Patience
from broken_calls import BrokenCall


async def test_a_cancellation_ends_a_call_whose_connection_breaks_at_that_moment() -> None:
    call = BrokenCall()
    stub = SimpleNamespace(GetDiscovery=call)
    server = GrpcServer(address="127.0.0.1:1")
    calls = AioCalls(server, Traffic(), lambda _: stub, "Watch", Patience())
    calling = asyncio.create_task(calls.once("GetDiscovery", object(), None, ()))
    await call.begun.wait()
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await calls.close()


async def test_such_a_call_is_not_tried_at_the_next_address() -> None:
    call = BrokenCall()
    channels = ServiceChannels(["127.0.0.1:1", "127.0.0.1:2"])
    channels.open()
    request = storage_version_pb2.GetStorageVersionRequest()
    calling = asyncio.create_task(channels.call(lambda _: cast("Any", call), request, 10.0))
    await call.begun.wait()
    calling.cancel()
    await asyncio.wait([calling], timeout=20.0)
    assert calling.cancelled()
    await channels.close()


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        pytest.param(
            grpc.aio.UsageError("Channel is closed."), grpc.StatusCode.UNAVAILABLE, id="before"
        ),
        pytest.param(asyncio.CancelledError(), grpc.StatusCode.CANCELLED, id="during"),
    ],
)
async def test_a_channel_that_is_closed_before_or_during_a_call_fails_it(
    raised: BaseException, code: grpc.StatusCode
) -> None:
    with pytest.raises(CallFailedError, match=r"[Cc]hannel") as caught, aio_failing():
        raise raised
    assert caught.value.failed.code == code
    assert caught.value.failed.is_broken
