"""The methods that can be called, with their properties from the protos."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import grpc
import grpc.aio
import orjson
from apidiscovery.service.v1 import discovery_pb2, fleet_pb2, openapi_pb2
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from google.protobuf.json_format import MessageToDict, Parse, ParseError
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from apidiscovery_service.serving.connect.forms import Codec, invalid
from apidiscovery_service.serving.connect.json_requests import check_shape
from apidiscovery_service.serving.grpc.calls import Handler, OptionalHandler, Service
from apidiscovery_service.workers import run_sized

# The field with the hash of a response.
_HASHES: Mapping[type[Message], str] = {
    discovery_pb2.GetDiscoveryResponse: "etag",
    openapi_pb2.GetIndexResponse: "etag",
    fleet_pb2.GetMatrixResponse: "hash",
}

Interceptors = Sequence[grpc.aio.ServerInterceptor]


class _Details(NamedTuple):
    """Stands in for `grpc.HandlerCallDetails`."""

    method: str
    invocation_metadata: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Method:
    """A method.

    Attributes:
        path: Its path, `/` service `/` method.
        name: Its name alone.
        handler: Its handler, with the interceptors around it.
        request: The class of its request.
        response: The class of its response.
        is_read: Whether it has no side effects, so that it can be called by GET.
    """

    path: str
    name: str
    handler: Handler
    request: type[Message]
    response: type[Message]
    is_read: bool

    @property
    def streams(self) -> bool:
        """Whether its answer is a stream."""
        return self.handler.response_streaming

    async def decoded(self, data: bytes, codec: Codec) -> Message:
        """Return the message of a request.

        Raises:
            CallEnded: It is malformed.
        """
        return await run_sized(len(data), partial(self._decoded, data, codec))

    def _decoded(self, data: bytes, codec: Codec) -> Message:
        name = self.request.DESCRIPTOR.full_name
        if codec == "proto":
            try:
                return self.request.FromString(data)
            except DecodeError:
                raise invalid(f"the message is not a valid {name}") from None
        if not data:
            return self.request()
        try:
            check_shape(data, self.request)
            # As connect-go and connect-es do, so that clients may be newer than the server.
            return Parse(data, self.request(), ignore_unknown_fields=True)
        except (ParseError, ValueError, RecursionError) as error:
            raise invalid(f"the message is not valid JSON of {name}: {error}") from None

    @property
    def has_etag(self) -> bool:
        """Whether its response has a hash."""
        return self.response in _HASHES

    def etag(self, data: bytes) -> bytes:
        """Return the hash in an encoded response; empty while it has none."""
        value: str = getattr(self.response.FromString(data), _HASHES[self.response])
        return value.encode()

    def json(self, data: bytes) -> bytes:
        """Return an encoded response as JSON."""
        return orjson.dumps(MessageToDict(self.response.FromString(data)))


async def methods_of(services: Sequence[Service], interceptors: Interceptors) -> dict[str, Method]:
    """Return the methods of services by path, each with the interceptors around its handler."""
    methods: dict[str, Method] = {}
    for service in services:
        for name, handler in service.methods().items():
            path = f"/{service.name}/{name}"
            wrapped = await _intercepted(handler, path, interceptors)
            methods[path] = _method(path, wrapped, service.descriptor.methods_by_name[name])
    return methods


async def _intercepted(handler: Handler, path: str, interceptors: Interceptors) -> Handler:
    """Return a handler with interceptors around it, the first of them outermost, as in grpc."""

    async def inner(_details: object) -> OptionalHandler:
        return handler

    following: Callable[[Any], Awaitable[OptionalHandler]] = inner
    for interceptor in reversed(interceptors):
        following = _around(interceptor, following)
    return await following(_Details(path)) or handler


def _around(
    interceptor: grpc.aio.ServerInterceptor, following: Callable[[Any], Awaitable[OptionalHandler]]
) -> Callable[[Any], Awaitable[OptionalHandler]]:
    return lambda details: interceptor.intercept_service(following, details)


def _method(path: str, handler: Handler, described: MethodDescriptor) -> Method:
    options = described.GetOptions()
    return Method(
        path,
        described.name,
        handler,
        GetMessageClass(described.input_type),
        GetMessageClass(described.output_type),
        is_read=options.idempotency_level == MethodOptions.NO_SIDE_EFFECTS,
    )
