"""Bounds unread messages: grpc keeps a copy of each message until its caller reads it.

Space is reserved before a message that may be large is encoded, and before any other is sent, so
that calls which wait for space hold no message.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache
from typing import Any
from urllib.parse import unquote

import grpc
import grpc.aio

from apidiscovery_service.access.authenticator import (
    Access,
    OpenAccess,
    Peers,
    Unauthenticated,
    connection_name,
)
from apidiscovery_service.access.limits import Counts
from apidiscovery_service.serving.grpc.admission import admit_call, behaviour_of
from apidiscovery_service.serving.grpc.calls import (
    Context,
    Handler,
    OptionalHandler,
    abort_exhausted,
)
from apidiscovery_service.serving.unread import Reservation, UnreadBudget, end_name

# Calls of one caller at a time, streams included: each takes some 25 KB.
CALLER_CALLS = 6_000

# Room for a message until it is made; only for services that answer with documents.
_UNMADE_BYTES = 256 * 1024
_LARGE = tuple(
    f"/apidiscovery.service.v1.{name}/"
    for name in ("DiscoveryService", "FleetService", "HistoryService", "OpenAPIService")
)
_RETRY_S = 5


class CountedContext:
    """The context of a call that reserves room for its messages.

    Attributes:
        body_bytes: Bytes that the call holds beside its message, counted with it.
    """

    def __init__(
        self,
        context: Context,
        unread: UnreadBudget,
        connection: str,
        caller: str,
        serializer: Callable[[Any], bytes] | None,
    ) -> None:
        self._context = context
        self._unread = unread
        self._connection = connection
        self._caller = caller
        self._reservation: Reservation | None = None
        self._serialize: Callable[[Any], bytes] = serializer or bytes
        self.body_bytes = 0

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever grpc has
        return getattr(self._context, name)

    async def reserve(self, size: int, *, is_made: bool = True) -> None:
        """Reserve room, or change the size of the reservation."""
        if self._reservation is not None:
            self._unread.resize(self._reservation, size)
            return
        try:
            self._reservation = await self._unread.wait(
                self._connection, self._caller, size, is_made=is_made
            )
        except TimeoutError:
            await abort_exhausted(self._context, "too much is unread", _RETRY_S)
        if self._context.done():  # then the callback has run already
            self.release()

    def release(self) -> None:
        """End the reservation."""
        if self._reservation is not None:
            self._unread.release(self._reservation)
            self._reservation = None

    async def message(self, message: object) -> bytes:
        """Return an encoded message, once there is room for it."""
        data = self._serialize(message)
        await self.reserve(len(data) + self.body_bytes)
        return data

    async def write(self, message: object) -> None:
        """Send a message, once there is room for it; return when it is read."""
        data = await self.message(message)
        try:
            await self._context.write(data)
        except grpc.aio.InternalError:  # the caller has gone, or was cut, meanwhile
            raise asyncio.CancelledError from None
        finally:
            self.release()


def count_body(context: Context, size: int) -> None:
    """Count bytes that a call holds beside its messages; 0 when it holds none any more."""
    if isinstance(context, CountedContext):
        context.body_bytes = size


class UnreadInterceptor(grpc.aio.ServerInterceptor):
    """Limits the calls of each caller, and their unread messages.

    Args:
        unread: Hands out reservations, for HTTP as well.
        access: Authenticates callers; unauthenticated callers are counted by address. None for no
            authentication.
        peers: The connections of the front; None without a front.
    """

    def __init__(
        self, unread: UnreadBudget, access: Access | None = None, peers: Peers | None = None
    ) -> None:
        self._unread = unread
        self._peers = Peers() if peers is None else peers  # which is false while it is empty
        self._access = access or OpenAccess()
        self._calls: Counts[str] = Counts(CALLER_CALLS)
        self._counted = cache(self._count)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[OptionalHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> OptionalHandler:
        """Return the handler of a method that counts its calls and messages."""
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        unmade = _UNMADE_BYTES if handler_call_details.method.startswith(_LARGE) else 0
        return self._counted(handler, unmade)

    def _count(self, handler: Handler, unmade: int) -> Handler:
        """Return a handler that counts its calls and messages."""
        behaviour = behaviour_of(handler)

        async def begin(context: Context) -> CountedContext:
            counted = await self._begin(context, handler.response_serializer)
            if unmade:
                await counted.reserve(unmade, is_made=False)
            return counted

        async def answered(request: object, context: Context) -> bytes:
            counted = await begin(context)
            return await counted.message(await behaviour(request, counted))

        async def written(request: object, context: Context) -> None:
            await behaviour(request, await begin(context))

        async def generated(request: object, context: Context) -> AsyncGenerator[bytes]:
            counted = await begin(context)
            async for message in behaviour(request, counted):
                yield await counted.message(message)
                counted.release()

        streams = generated if inspect.isasyncgenfunction(behaviour) else written
        kinds: dict[tuple[bool, bool], Any] = {
            (False, False): grpc.unary_unary_rpc_method_handler,
            (False, True): grpc.unary_stream_rpc_method_handler,
            (True, False): grpc.stream_unary_rpc_method_handler,
            (True, True): grpc.stream_stream_rpc_method_handler,
        }
        make = kinds[handler.request_streaming, handler.response_streaming]
        function = streams if handler.response_streaming else answered
        made: Handler = make(function, request_deserializer=handler.request_deserializer)
        return made

    async def _begin(
        self, context: Context, serializer: Callable[[Any], bytes] | None
    ) -> CountedContext:
        """Count a call until it is done, or end it if it is one too many."""
        connection = _connection(context.peer())
        caller = self._caller(context, connection)
        counted = CountedContext(context, self._unread, connection, caller, serializer)
        if not self._calls.enter(caller):
            await abort_exhausted(context, "too many calls at a time", _RETRY_S)
        is_counted = True

        def done(_: object = None) -> None:
            nonlocal is_counted
            counted.release()
            if is_counted:
                is_counted = False
                self._calls.leave(caller)

        # The stubs want a callback of a class that does not exist.
        context.add_done_callback(done)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
        if context.done():
            done()
        return counted

    def _caller(self, context: Context, connection: str) -> str:
        """Return the limit key of a caller."""
        try:
            limit_key = admit_call(self._access, context).limit_key
        except Unauthenticated as error:
            return error.limit_key or ""
        if limit_key:
            return limit_key
        host, _, _ = connection.partition(" ")
        return self._peers.address_key(connection_name(context.peer()), host)


def _connection(peer: str) -> str:
    """Return the name of a connection, as `end_name`, from what grpc calls its other end.

    >>> _connection("ipv4:127.0.0.1:54321"), _connection("ipv6:%5B::1%5D:54321")
    ('127.0.0.1 54321', '::1 54321')
    """
    kind, _, address = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return address
    host, _, port = address.rpartition(":")
    return end_name((host.strip("[]"), port))
