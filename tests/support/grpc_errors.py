"""The errors with which gRPC calls end, and their details."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
    status_pb2,
)
from grpc_status import rpc_status
from waiting import WITHIN_S


async def refusal(call: Awaitable[object]) -> grpc.aio.AioRpcError:
    """Return the error with which a call ends."""
    async with asyncio.timeout(WITHIN_S):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
    return caught.value


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status:
    """Return the status with details; its message must be that of the error."""
    from_call = cast("Callable[[object], status_pb2.Status]", rpc_status.from_call)  # pyright: ignore[reportUnknownMemberType]
    status = from_call(error)
    assert status.message == error.details()
    return status


def details_of(error: grpc.aio.AioRpcError) -> Sequence[Message]:
    """Return the details of an error, each as a message of its type."""
    found: list[Message] = []
    for packed in status_of(error).details:
        message: Message = getattr(error_details_pb2, packed.type_url.rpartition(".")[2])()
        assert packed.Unpack(message)
        found.append(message)
    return found


def violations_of(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """Return the descriptions of an INVALID_ARGUMENT, by field."""
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    (details,) = details_of(error)
    assert isinstance(details, error_details_pb2.BadRequest)
    assert all(violation.description for violation in details.field_violations)
    return {violation.field: violation.description for violation in details.field_violations}
