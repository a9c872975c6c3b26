"""Calls whose callers do not read: grpc keeps a copy of every message until it is taken.

A place is taken before a message is made that may be large, and before every other one is sent, so
that calls which find no room wait with empty hands.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2, openapi_pb2
from google.protobuf.duration_pb2 import Duration
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)

from apidiscovery_service.access.authenticator import Unauthenticated
from apidiscovery_service.access.limits import Counts, network
from apidiscovery_service.access.peers import Peers, connection_name
from apidiscovery_service.serving.grpc.admission import CallAccess
from apidiscovery_service.serving.grpc.errors import abort
from apidiscovery_service.serving.unread import Place, Unread, end_name

# Calls of one caller at a time, streams included: each takes some 25 KB.
CALLER_CALLS = 6_000

# What a message is taken for until it is made; only of services that answer with documents.
_UNMADE_BYTES = 256 * 1024
_LARGE = tuple(
    f"/{module.DESCRIPTOR.services_by_name[name].full_name}/"
    for module, name in ((discovery_pb2, "DiscoveryService"), (openapi_pb2, "OpenAPIService"))
)
_RETRY_S = 5

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs alone
_Found: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class CountedContext:
    """The context of a call whose messages have places while they are unread.

    Attributes:
        holds: Bytes that the call keeps beside its message, counted with it.
    """

    def __init__(self, context: _Context, unread: Unread, caller: str) -> None:
        self._context = context
        self._unread = unread
        self._caller = caller
        self._connection = _connection(context.peer())
        self._place: Place | None = None
        self._serialize: Callable[[Any], bytes] = bytes
        self.holds = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever grpc has
        return getattr(self._context, name)

    def serializing(self, serializer: Callable[[Any], bytes] | None) -> None:
        """Take what makes bytes of messages."""
        self._serialize = serializer or bytes

    async def enter(self, size: int, *, is_made: bool = True) -> None:
        """Take a place, or change the size of the one that is there."""
        if self._place is not None:
            self._unread.resize(self._place, size)
            return
        try:
            self._place = await self._unread.wait(
                self._connection, self._caller, size, is_made=is_made
            )
        except TimeoutError:
            await self.refuse("too much is unread")
        if self._context.done():  # then nobody calls back
            self.leave()

    def leave(self) -> None:
        """Give the place back."""
        if self._place is not None:
            self._unread.leave(self._place)
            self._place = None

    async def message(self, message: object) -> bytes:
        """Return the bytes of a message that has a place now."""
        data = self._serialize(message)
        await self.enter(len(data) + self.holds)
        return data

    async def write(self, message: object) -> None:
        """Send a message, once there is room; return when it is taken."""
        data = await self.message(message)
        try:
            await self._context.write(data)
        except grpc.aio.InternalError:  # the caller has gone, or was cut, meanwhile
            raise asyncio.CancelledError from None
        finally:
            self.leave()

    async def refuse(self, message: str) -> NoReturn:
        """End the call, and say when to come again."""
        delay = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=_RETRY_S))
        await abort(self._context, code_pb2.RESOURCE_EXHAUSTED, message, delay)


def holding(context: _Context, size: int) -> None:
    """Count what a call keeps beside its messages; 0 when it keeps nothing any more."""
    if isinstance(context, CountedContext):
        context.holds = size


class UnreadInterceptor(grpc.aio.ServerInterceptor):
    """Counts calls, and what their callers do not read.

    Args:
        unread: Gives places to messages.
        access: Says who calls; None where nobody is asked, and addresses count.
        peers: The connections of the front; None where nothing stands before the server.
    """

    def __init__(
        self, unread: Unread, access: CallAccess | None = None, peers: Peers | None = None
    ) -> None:
        self._unread = unread
        self._peers = peers
        self._access = access
        self._calls: Counts[str] = Counts(CALLER_CALLS)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Found]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method with counting around it."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        unmade = _UNMADE_BYTES if handler_call_details.method.startswith(_LARGE) else 0
        return self._counted(handler, unmade)

    def _counted(self, handler: _Handler, unmade: int) -> _Handler:
        serializer = handler.response_serializer
        behaviour: Any = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )

        async def begun(context: _Context) -> CountedContext:
            counted = await self._begun(context)
            counted.serializing(serializer)
            if unmade:
                await counted.enter(unmade, is_made=False)
            return counted

        async def answered(request: object, context: _Context) -> bytes:
            counted = await begun(context)
            return await counted.message(await behaviour(request, counted))

        async def written(request: object, context: _Context) -> None:
            await behaviour(request, await begun(context))

        async def generated(request: object, context: _Context) -> AsyncGenerator[bytes]:
            counted = await begun(context)
            async for message in behaviour(request, counted):
                yield await counted.message(message)
                counted.leave()

        streams = generated if inspect.isasyncgenfunction(behaviour) else written
        kinds: dict[tuple[bool, bool], Any] = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        make = kinds[handler.request_streaming, handler.response_streaming]
        what = streams if handler.response_streaming else answered
        handled: _Handler = make(what, request_deserializer=handler.request_deserializer)
        return handled

    async def _begun(self, context: _Context) -> CountedContext:
        """Count a call until it is done, or end it if it is one too many."""
        caller = self._caller(context)
        counted = CountedContext(context, self._unread, caller)
        if not self._calls.enter(caller):
            await counted.refuse("too many calls at a time")
        is_counted = True

        def done(_: object = None) -> None:
            nonlocal is_counted
            counted.leave()
            if is_counted:
                is_counted = False
                self._calls.leave(caller)

        # The stubs want a callback of a class that does not exist.
        context.add_done_callback(done)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        if context.done():
            done()
        return counted

    def _caller(self, context: _Context) -> str:
        """Return by what a caller is limited."""
        if self._access is not None:
            try:
                return self._access.admit(context).limit_key
            except Unauthenticated as error:
                return error.limit_key or ""
        peer = self._peers.get(connection_name(context.peer())) if self._peers is not None else None
        host, _, _ = _connection(context.peer()).partition(" ")
        return f"address {network(peer.address if peer is not None else host)}"


def _connection(peer: str) -> str:
    """Return what a connection goes by, from the name that grpc gives the other end.

    >>> _connection("ipv4:127.0.0.1:54321"), _connection("ipv6:%5B::1%5D:54321")
    ('127.0.0.1 54321', '::1 54321')
    """
    kind, _, address = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return address
    host, _, port = address.rpartition(":")
    return end_name((host.strip("[]"), port))
