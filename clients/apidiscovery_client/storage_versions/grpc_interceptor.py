"""Keeps a gRPC server from writing before what it writes has been reported."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.duration_pb2 import Duration
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - stubs lie in it, unmarked
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

# Services that are no API: how a server is asked whether it is alive, and what it has.
NON_RESOURCE_SERVICES = frozenset(
    {
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "grpc.reflection.v1alpha.ServerReflection",
    }
)

Metadata = Mapping[str, str | bytes]
Describe = Callable[[str, Metadata], RequestAttributes | None]

_STATUS_DETAILS = "grpc-status-details-bin"  # the key of grpcio-status
# Both are generic in their stubs alone.
_Found: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_AsyncContext: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
_Trailer = tuple[tuple[str, bytes], ...]


class GuardedMethods:
    """Says for each call whether it is let through.

    Args:
        gate: A reporter, or whatever else decides.
        methods: What each method does, by its full name such as `/example.v1.Widgets/Create`;
            or what tells it from that name and the metadata of the call. A method of which
            nothing is told may write anything, so it is refused for as long as the gate is not
            open for everything.
        non_resource: Methods, or services, that always pass.
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
        """Say why a call is not let through; None when it is."""
        method = call.method.lstrip("/")
        service, _, _ = method.rpartition("/")
        if self._gate.confirmed or not self._non_resource.isdisjoint((method, service)):
            return None
        asked = self._asked(call)
        if asked is None:
            what = waiting_for(f"method: {call.method}", self._gate.last_error)
            return Refusal(what, RETRY_AFTER_S)
        return self._gate.refusal(asked)

    def _asked(self, call: grpc.HandlerCallDetails) -> RequestAttributes | None:
        if callable(self._methods):
            return self._methods(call.method, dict(call.invocation_metadata or ()))
        return self._methods.get(call.method)


class WriteGateInterceptor(grpc.aio.ServerInterceptor):
    """Ends calls that are refused with UNAVAILABLE and google.rpc.RetryInfo, for grpc.aio.

    A call is looked at when it begins; one that goes on writing for long has to ask the gate
    itself.
    """

    def __init__(self, methods: GuardedMethods) -> None:
        self._methods = methods

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Found]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method, or what refuses the call before it is read."""
        handler = await continuation(handler_call_details)
        refusal = self._methods.refusal(handler_call_details)
        if handler is None or refusal is None:
            return handler

        async def refuse(requests: object, context: _AsyncContext) -> None:
            del requests
            await context.abort(
                grpc.StatusCode.UNAVAILABLE, refusal.message, trailing_metadata=_details(refusal)
            )

        # On the wire every kind of call is two streams, so this does for each of them.
        return _stream_handler(refuse)


class SyncWriteGateInterceptor(grpc.ServerInterceptor):
    """The same for grpc.Server."""

    def __init__(self, methods: GuardedMethods) -> None:
        self._methods = methods

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], _Found],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Found:
        """Return the handler of a method, or what refuses the call before it is read."""
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
    # Its stubs know neither handlers of grpc.aio nor such that answer nothing.
    make: Callable[[Callable[..., object]], _Found] = grpc.stream_stream_rpc_method_handler
    return make(behaviour)


def _details(refusal: Refusal) -> _Trailer:
    """Return a google.rpc.Status as trailing metadata, where clients look for the details."""
    retry = ProtoAny()
    delay = Duration(seconds=refusal.retry_after_s)
    retry.Pack(error_details_pb2.RetryInfo(retry_delay=delay))
    code: int = grpc.StatusCode.UNAVAILABLE.value[0]
    status = status_pb2.Status(code=code, message=refusal.message, details=[retry])
    return ((_STATUS_DETAILS, status.SerializeToString()),)
