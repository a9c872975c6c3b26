"""Who may call which method.

The check stands around the handlers, not in them: a method that is not in the table below needs
`admin`, so that one that is forgotten is closed. A stream goes on being checked: it ends when its
caller's token is revoked or its role taken.
"""

import asyncio
import contextlib
import inspect
import math
from collections.abc import AsyncIterable, Awaitable, Callable, Coroutine, Generator, Iterable
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2, openapi_pb2, registry_pb2, storage_version_pb2
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
    status_pb2,
)
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status

from apidiscovery_service.access import Caller, Role
from apidiscovery_service.access.authenticator import (
    Access,
    Admission,
    NoCredentials,
    Unauthenticated,
)
from apidiscovery_service.access.peers import connection_name
from apidiscovery_service.metrics import Metrics

_DISCOVERY = discovery_pb2.DESCRIPTOR.services_by_name["DiscoveryService"].full_name
_OPENAPI = openapi_pb2.DESCRIPTOR.services_by_name["OpenAPIService"].full_name
_REGISTRY = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].full_name
_STORAGE_VERSIONS = storage_version_pb2.DESCRIPTOR.services_by_name[
    "StorageVersionService"
].full_name
_HEALTH = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name

# By service, and where that is not enough by method.
_NEEDED = {
    f"/{_HEALTH}": Role.NONE,
    f"/{_DISCOVERY}": Role.READER,
    f"/{_OPENAPI}": Role.READER,
    f"/{reflection.SERVICE_NAME}": Role.READER,
    f"/{_REGISTRY}": Role.PUBLISHER,
    f"/{_REGISTRY}/ListRegistrations": Role.READER,
    f"/{_STORAGE_VERSIONS}": Role.READER,
    f"/{_STORAGE_VERSIONS}/Heartbeat": Role.PUBLISHER,
    f"/{_STORAGE_VERSIONS}/Depart": Role.PUBLISHER,
    f"/{_STORAGE_VERSIONS}/Report": Role.PUBLISHER,
}

# Nobody tells of the end of a certificate's validity.
_LOOK_AGAIN_S = 10.0

# When a stream of the caller may have ended.
_STREAM_WAIT_S = 5.0

_Context: TypeAlias = grpc.aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"  # generic in its stubs alone
_Found: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"


class CallAccess:
    """What handlers ask of access."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def identify(self, context: _Context) -> Caller:
        """Return who makes a call that has been let in.

        Raises:
            Unauthenticated: The credentials do not count any more.
        """
        return self.admit(context).caller

    def admit(self, context: _Context) -> Admission:
        """Return who makes a call, and as what.

        Raises:
            NoCredentials: There are none.
            Unauthenticated: They do not count.
        """
        return self._access.admit(connection_name(context.peer()), _authorization(context))

    def may_change(self, caller: Caller, api_groups: Iterable[str]) -> str | None:
        """Say why a caller may not change registrations of these API groups; None if it may."""
        return self._access.may_change(caller, api_groups)


class AdmissionInterceptor(grpc.aio.ServerInterceptor):
    """Lets calls in that may be made, and ends streams that may no longer go on.

    Args:
        access: Who decides.
        metrics: Where calls are counted that do not reach their handler.
    """

    def __init__(self, access: Access, metrics: Metrics) -> None:
        self._access = access
        self._calls = CallAccess(access)
        self._metrics = metrics

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Found]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method with the check around it."""
        handler = await continuation(handler_call_details)
        if handler is None:  # no such method, which is no secret
            return handler
        method = handler_call_details.method
        service, _, _ = method.rpartition("/")
        needed = _NEEDED.get(method, _NEEDED.get(service, Role.ADMIN))
        return self._guarded(handler, method, needed)

    def _guarded(self, handler: _Handler, method: str, needed: Role) -> _Handler:
        """Return a handler that reads nothing of a call before its caller is let in.

        To grpc every call brings a stream: of that it takes no more than its flow control before
        somebody reads it, while the one message of another call is taken, up to 8 MB of it, and
        made objects, up to 600 MB of them, before any handler is asked.
        """

        async def checked(requests: AsyncIterable[object], context: _Context) -> object:
            await self._admit(context, method, needed)
            return await behaviour(await read(requests, context), context)

        async def followed(requests: AsyncIterable[object], context: _Context) -> None:
            limit_key = await self._admit(context, method, needed)
            with self._watching(limit_key) as may_watch:
                if not may_watch:
                    await self._exhausted(context, method, "too many streams", _STREAM_WAIT_S)
                work = _writing(behaviour)(await read(requests, context), context)
                await self._follow(work, context, needed)

        async def read(requests: AsyncIterable[object], context: _Context) -> object:
            return (
                requests
                if handler.request_streaming
                else await self._one(requests, context, method)
            )

        behaviour: Any = (
            handler.unary_unary
            or handler.unary_stream
            or handler.stream_unary
            or handler.stream_stream
        )
        codecs = (handler.request_deserializer, handler.response_serializer)
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(followed, *codecs)
        return grpc.stream_unary_rpc_method_handler(checked, *codecs)

    async def _one(self, requests: AsyncIterable[object], context: _Context, method: str) -> object:
        """Return the message of a call that has one."""
        with contextlib.suppress(DecodeError):
            async for request in requests:
                return request
        self._count(method, grpc.StatusCode.INVALID_ARGUMENT)
        message = f"want a message of the type that {method} takes"
        return await context.abort(grpc.StatusCode.INVALID_ARGUMENT, message)

    async def _admit(self, context: _Context, method: str, needed: Role) -> str:
        """Let a call in, or end it; return by what its caller is limited."""
        try:
            admission = self._calls.admit(context)
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

    async def _throttle(self, context: _Context, method: str, limit_key: str) -> None:
        wait_s = self._access.throttle(limit_key)
        if wait_s:
            await self._exhausted(context, method, "too many requests", wait_s)

    @contextlib.contextmanager
    def _watching(self, limit_key: str) -> Generator[bool]:
        """Count a stream while it lasts; give False if it would be one too many."""
        if not self._access.begin_watch(limit_key):
            yield False
            return
        try:
            yield True
        finally:
            self._access.end_watch(limit_key)

    async def _follow(
        self, work: Coroutine[Any, Any, None], context: _Context, needed: Role
    ) -> None:
        """Do the work of a stream for as long as its caller may have it."""
        working = asyncio.create_task(work)
        try:
            wrong = await self._until_wrong(working, context, needed)
            if wrong is None:
                await working
            else:
                await _cancelled(working)
                await context.abort(*wrong)
        finally:
            await _cancelled(working)

    async def _until_wrong(
        self, working: asyncio.Task[None], context: _Context, needed: Role
    ) -> tuple[grpc.StatusCode, str] | None:
        """Wait for the work's end, or until it must end, and return why."""
        changed = asyncio.Event()
        undo = self._access.subscribe(changed.set)
        try:
            while not working.done():
                wrong = self._wrong(context, needed)
                if wrong is not None:
                    return wrong
                changed.clear()
                await _either(working, changed)
        finally:
            undo()
        return None

    def _wrong(self, context: _Context, needed: Role) -> tuple[grpc.StatusCode, str] | None:
        try:
            admission = self._calls.admit(context)
        except NoCredentials as error:
            if needed is Role.NONE:
                return None
            return grpc.StatusCode.UNAUTHENTICATED, str(error)
        except Unauthenticated as error:
            return grpc.StatusCode.UNAUTHENTICATED, str(error)
        if admission.role < needed:
            return grpc.StatusCode.PERMISSION_DENIED, _denied(admission, needed)
        return None

    async def _exhausted(
        self, context: _Context, method: str, message: str, wait_s: float
    ) -> NoReturn:
        """End a call that is one too many, and say when to come again."""
        self._count(method, grpc.StatusCode.RESOURCE_EXHAUSTED)
        delay = Duration()
        delay.FromMilliseconds(math.ceil(wait_s * 1000))
        packed = ProtoAny()
        packed.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
        rich = status_pb2.Status(
            code=code_pb2.RESOURCE_EXHAUSTED, message=message, details=[packed]
        )
        status = rpc_status.to_status(rich)  # pyright: ignore[reportUnknownMemberType] - google.rpc again
        context.set_trailing_metadata(status.trailing_metadata)
        await context.abort(status.code, status.details)

    def _count(self, method: str, code: grpc.StatusCode) -> None:
        self._metrics.grpc_requests.labels(method.rpartition("/")[2], code.name).inc()


def _writing(behaviour: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, None]]:
    """Return the behaviour of a stream as a coroutine that writes its messages itself."""
    if not inspect.isasyncgenfunction(behaviour):
        return behaviour

    async def write(request: object, context: _Context) -> None:
        async for message in behaviour(request, context):
            await context.write(message)

    return write


async def _either(working: asyncio.Task[None], changed: asyncio.Event) -> None:
    noticing = asyncio.create_task(changed.wait())
    try:
        await asyncio.wait(
            (working, noticing), timeout=_LOOK_AGAIN_S, return_when=asyncio.FIRST_COMPLETED
        )
    finally:
        noticing.cancel()


async def _cancelled(working: asyncio.Task[None]) -> None:
    """Cancel a task and wait for its end; what it ends with is of no interest."""
    working.cancel()
    await asyncio.wait([working])
    if not working.cancelled():
        working.exception()


def _denied(admission: Admission, needed: Role) -> str:
    return f"user {admission.caller.user!r} has not the role {needed.name.lower()!r}"


def _authorization(context: _Context) -> bytes | None:
    for name, value in context.invocation_metadata() or ():
        if name == "authorization":
            return value.encode() if isinstance(value, str) else value
    return None
