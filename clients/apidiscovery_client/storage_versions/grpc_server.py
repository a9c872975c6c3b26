"""The write gate for gRPC servers: interceptors, and the health service."""

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, Protocol, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.duration_pb2 import Duration
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - its stubs lack py.typed
    error_details_pb2,
    status_pb2,
)

from apidiscovery_client.storage_versions.gate import (
    RETRY_AFTER_S,
    Gate,
    Refusal,
    RequestAttributes,
    waiting_for,
)

# Services that are not an API: health and reflection.
NON_RESOURCE_SERVICES = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
)

# grpc.health.v1 HealthCheckResponse.ServingStatus
SERVING = 1
NOT_SERVING = 2

Metadata = Mapping[str, str | bytes]
Describe = Callable[[str, Metadata], RequestAttributes | None]

_STATUS_DETAILS = "grpc-status-details-bin"  # the key of grpcio-status
# Both are generic only in their stubs.
_Found: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_AsyncContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_Trailer = tuple[tuple[str, bytes], ...]


class GuardedMethods:
    """Decides for each call whether it is admitted.

    Args:
        gate: A reporter or another gate.
        methods: The attributes of each method, by its full name such as
            `/example.v1.Widgets/Create`; or a function of that name and the metadata of the call.
            A method without attributes may write anything, so it is refused until the gate is open
            for all resources.
        non_resource: Methods or services that always pass.
    """

    def __init__(
        self,
        gate: Gate,
        methods: Mapping[str, RequestAttributes] | Describe,
        non_resource: Iterable[str] = NON_RESOURCE_SERVICES,
    ) -> None:
        self._gate = gate
        self._methods = methods
        self._non_resource = frozenset(name.lstrip("/") for name in non_resource)

    def refusal(self, call: grpc.HandlerCallDetails) -> Refusal | None:
        """Return the refusal of a call; None if it is admitted."""
        method = call.method.lstrip("/")
        service, _, _ = method.rpartition("/")
        if self._gate.confirmed or not self._non_resource.isdisjoint((method, service)):
            return None
        attributes = self._attributes(call)
        if attributes is None:
            what = waiting_for(f"method: {call.method}", self._gate.last_error)
            return Refusal(what, RETRY_AFTER_S)
        return self._gate.refusal(attributes)

    def _attributes(self, call: grpc.HandlerCallDetails) -> RequestAttributes | None:
        if callable(self._methods):
            return self._methods(call.method, dict(call.invocation_metadata or ()))
        return self._methods.get(call.method)


class AsyncWriteGateInterceptor(grpc.aio.ServerInterceptor):
    """Ends refused calls with UNAVAILABLE and google.rpc.RetryInfo, for grpc.aio.

    The gate is asked when a call begins; a call that writes for a long time has to ask again.
    """

    def __init__(self, methods: GuardedMethods) -> None:
        self._methods = methods

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Found]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method, or one that refuses the call before it is read."""
        handler = await continuation(handler_call_details)
        refusal = self._methods.refusal(handler_call_details)
        if handler is None or refusal is None:
            return handler

        async def refuse(requests: object, context: _AsyncContext) -> None:
            del requests
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, refusal.message, trailing_metadata=_details(refusal)
            )

        # On the wire every kind of call is two streams, so this handler fits all of them.
        return _stream_handler(refuse)


class WriteGateInterceptor(grpc.ServerInterceptor):
    """Like `AsyncWriteGateInterceptor`, for grpc.Server."""

    def __init__(self, methods: GuardedMethods) -> None:
        self._methods = methods

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], _Found],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method, or one that refuses the call before it is read."""
        handler = continuation(handler_call_details)
        refusal = self._methods.refusal(handler_call_details)
        if handler is None or refusal is None:
            return handler

        def refuse(requests: object, context: grpc.ServicerContext) -> NoReturn:
            del requests
            context.set_trailing_metadata(_details(refusal))
            context.abort(grpc.StatusCode.UNAVAILABLE, refusal.message)

        return _stream_handler(refuse)


def _stream_handler(behaviour: Callable[..., object]) -> _Found:
    # Its stubs do not know handlers of grpc.aio, nor handlers without a response.
    make: Callable[[Callable[..., object]], _Found] = grpc.stream_stream_rpc_method_handler
    return make(behaviour)


def _details(refusal: Refusal) -> _Trailer:
    """Return a google.rpc.Status as trailing metadata, where clients expect the details."""
    retry = ProtoAny()
    delay = Duration(seconds=refusal.retry_after_s)
    retry.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    code: int = grpc.StatusCode.UNAVAILABLE.value[0]
    status = status_pb2.Status(code=code, message=refusal.message, details=[retry])
    return ((_STATUS_DETAILS, status.SerializeToString()),)


class HealthServicer(Protocol):
    """A `HealthServicer` of grpc_health.v1, synchronous or asynchronous."""

    def set(self, service: str, status: int) -> Awaitable[None] | None:
        """Set the status of a service; the empty name is the server."""
        ...


class GateChanges(Protocol):
    """The part of a reporter that `follow_health` needs."""

    def changes(self) -> AsyncIterator[bool]:
        """Yield whether the gate is open, now and whenever that may have changed."""
        ...


async def follow_health(
    reporter: GateChanges, servicer: HealthServicer, services: Iterable[str] = ("",)
) -> None:
    """Set the status of services to SERVING while the gate is open, else to NOT_SERVING.

    Run it in a task; it returns after the reporter has ended, with all at NOT_SERVING. It does not
    need grpcio-health-checking: any servicer with such a `set` will do.
    """
    names = tuple(services)
    async for is_open in reporter.changes():
        await _set(servicer, names, SERVING if is_open else NOT_SERVING)
    await _set(servicer, names, NOT_SERVING)


async def _set(servicer: HealthServicer, services: Iterable[str], status: int) -> None:
    for service in services:
        done = servicer.set(service, status)
        if inspect.isawaitable(done):
            await done
