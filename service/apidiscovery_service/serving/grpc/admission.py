"""Authentication and authorization of gRPC calls.

The check wraps the handlers: a method that is missing in the table below needs `admin`, so that a
forgotten one is closed. Streams are checked again: they end when the token of their caller is
revoked or its role taken away.
"""

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine
from functools import cache, partial
from typing import Any, NoReturn

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import (
    Access,
    Admission,
    NoCredentials,
    Unauthenticated,
    connection_name,
)
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc.calls import (
    Context,
    Handler,
    OptionalHandler,
    abort_exhausted,
)
from apidiscovery_service.serving.revocation import revoked

_PACKAGE = "/apidiscovery.service.v1"

# The needed role by service, and by method where methods of a service differ.
_NEEDED = {
    f"/{health.SERVICE_NAME}": Role.NONE,
    f"/{reflection.SERVICE_NAME}": Role.READER,
    f"{_PACKAGE}.DiscoveryService": Role.READER,
    f"{_PACKAGE}.FleetService": Role.READER,
    f"{_PACKAGE}.HistoryService": Role.READER,
    f"{_PACKAGE}.OpenAPIService": Role.READER,
    f"{_PACKAGE}.RegistryService": Role.PUBLISHER,
    f"{_PACKAGE}.RegistryService/ListRegistrations": Role.READER,
    f"{_PACKAGE}.StorageVersionService": Role.READER,
    f"{_PACKAGE}.StorageVersionService/Heartbeat": Role.PUBLISHER,
    f"{_PACKAGE}.StorageVersionService/Depart": Role.PUBLISHER,
    f"{_PACKAGE}.StorageVersionService/Report": Role.PUBLISHER,
}

# When to retry a stream: another one of the caller may have ended.
_STREAM_RETRY_S = 5.0


def admit_call(access: Access, context: Context) -> Admission:
    """Return the caller of a call and its role.

    Raises:
        NoCredentials: There are none.
        Unauthenticated: They are wrong or have expired.
    """
    return access.admit(connection_name(context.peer()), _authorization(context))


class AdmissionInterceptor(grpc.aio.ServerInterceptor):
    """Refuses calls that their callers may not make, and ends their streams.

    Args:
        access: Decides.
        metrics: Counts calls that do not reach their handler.
        limits_rate: Whether calls count as requests of their callers; False where HTTP counts them.
    """

    def __init__(self, access: Access, metrics: Metrics, *, limits_rate: bool = True) -> None:
        self._access = access
        self._limits_rate = limits_rate
        self._metrics = metrics
        self._guarded = cache(self._guard)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[OptionalHandler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> OptionalHandler:
        """Return the handler of a method with the check around it."""
        handler = await continuation(handler_call_details)
        if handler is None:  # no such method, which is no secret
            return handler
        return self._guarded(handler, handler_call_details.method)

    def _guard(self, handler: Handler, method: str) -> Handler:
        """Return a handler that reads no message before its caller is admitted.

        To grpc every call is made a stream: of a stream it reads no more than its flow control
        allows before the handler does, while the one message of another call is received, up to
        8 MB, and parsed, up to 600 MB of objects, before any handler is called.
        """

        async def checked(requests: AsyncIterable[object], context: Context) -> object:
            await self._admit(context, method, needed)
            return await behaviour(await read(requests, context), context)

        async def followed(requests: AsyncIterable[object], context: Context) -> None:
            limit_key = await self._admit(context, method, needed)
            with self._access.watches.counted(limit_key) as may_watch:
                if not may_watch:
                    await self._exhausted(context, method, "too many streams", _STREAM_RETRY_S)
                work = writing(behaviour)(await read(requests, context), context)
                await self._follow(work, context, needed)

        async def read(requests: AsyncIterable[object], context: Context) -> object:
            return (
                requests
                if handler.request_streaming
                else await self._one(requests, context, method)
            )

        service, _, _ = method.rpartition("/")
        needed = _NEEDED.get(method, _NEEDED.get(service, Role.ADMIN))
        behaviour = behaviour_of(handler)
        codecs = (handler.request_deserializer, handler.response_serializer)
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(followed, *codecs)
        return grpc.stream_unary_rpc_method_handler(checked, *codecs)

    async def _one(self, requests: AsyncIterable[object], context: Context, method: str) -> object:
        """Return the only message of a call."""
        with contextlib.suppress(DecodeError):
            async for request in requests:
                return request
        self._count(method, grpc.StatusCode.INVALID_ARGUMENT)
        message = f"want a message of the type that {method} takes"
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)

    async def _admit(self, context: Context, method: str, needed: Role) -> str:
        """Admit a call, or end it; return the limit key of its caller."""
        try:
            admission = admit_call(self._access, context)
        except Unauthenticated as error:
            if error.limit_key is not None:
                await self._throttle(context, method, error.limit_key)
                if needed is Role.NONE and isinstance(error, NoCredentials):
                    return error.limit_key
            self._count(method, grpc.StatusCode.UNAUTHENTICATED)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
        await self._throttle(context, method, admission.limit_key)
        if admission.role < needed:
            self._count(method, grpc.StatusCode.PERMISSION_DENIED)
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, _denied(admission, needed))
        return admission.limit_key

    async def _throttle(self, context: Context, method: str, limit_key: str) -> None:
        retry_s = self._access.throttle(limit_key) if self._limits_rate else 0.0
        if retry_s:
            await self._exhausted(context, method, "too many requests", retry_s)

    async def _follow(
        self, work: Coroutine[Any, Any, None], context: Context, needed: Role
    ) -> None:
        """Run a stream for as long as its caller may have it."""
        working = asyncio.create_task(work)
        refusal = partial(self._refusal, context, needed)
        revoking = asyncio.create_task(revoked(self._access, refusal))
        try:
            await asyncio.wait((working, revoking), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                await working
            else:
                await _cancelled(working)
                await context.abort(*revoking.result())
        finally:
            revoking.cancel()
            await _cancelled(working)

    def _refusal(self, context: Context, needed: Role) -> tuple[grpc.StatusCode, str] | None:
        try:
            admission = admit_call(self._access, context)
        except Unauthenticated as error:
            if needed is Role.NONE and isinstance(error, NoCredentials):
                return None
            return grpc.StatusCode.UNAUTHENTICATED, str(error)
        if admission.role < needed:
            return grpc.StatusCode.PERMISSION_DENIED, _denied(admission, needed)
        return None

    async def _exhausted(
        self, context: Context, method: str, message: str, retry_s: float
    ) -> NoReturn:
        self._count(method, grpc.StatusCode.RESOURCE_EXHAUSTED)
        await abort_exhausted(context, message, retry_s)

    def _count(self, method: str, code: grpc.StatusCode) -> None:
        self._metrics.grpc_requests.labels(method.rpartition("/")[2], code.name).inc()


def behaviour_of(handler: Handler) -> Any:  # noqa: ANN401 - one of four signatures
    """Return the function of a handler that answers calls."""
    return (
        handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
    )


def writing(behaviour: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the behaviour of a stream as a coroutine that writes its messages itself."""
    if not inspect.isasyncgenfunction(behaviour):
        return behaviour

    async def write(request: object, context: Context) -> None:
        async for message in behaviour(request, context):
            await context.write(message)

    return write


async def _cancelled(working: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end, whatever its result."""
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled():
        working.exception()


def _denied(admission: Admission, needed: Role) -> str:
    return f"user {admission.user!r} has not the role {needed.name.lower()!r}"


def _authorization(context: Context) -> bytes | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value.encode() if isinstance(value, str) else value
    return None
