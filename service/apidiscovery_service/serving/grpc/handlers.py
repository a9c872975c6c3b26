"""Methods of a service as grpc registers them, with messages of protobuf's own stubs."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import grpc
import grpc.aio
from google.protobuf.message import Message

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]


def unary(
    behaviour: Callable[[Any, _Context], Awaitable[Message]],
    deserializer: Callable[[bytes], Message],
) -> "grpc.RpcMethodHandler[Any, Any]":  # generic in its stubs alone
    """Return the handler of a method with one message each way."""
    return grpc.unary_unary_rpc_method_handler(
        behaviour, request_deserializer=deserializer, response_serializer=serialized
    )


def serialized(message: Message) -> bytes:
    """Return a message as it is sent."""
    return message.SerializeToString()
