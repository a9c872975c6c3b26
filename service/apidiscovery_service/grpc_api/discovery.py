"""DiscoveryService: reads the current snapshot, compares hashes, sends bytes."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.any_pb2 import Any as ProtoAny
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
    status_pb2,
)
from grpc_status import rpc_status

from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.feature_gates import FeatureGates
from apidiscovery_service.grpc_api import answers
from apidiscovery_service.grpc_api.requests import (
    InvalidRequest,
    NoCommonVersion,
    Selection,
    heartbeat_s,
    known,
    selection,
)
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.registry import Registry
from apidiscovery_service.snapshot import Snapshot

SERVICE = discovery_pb2.DESCRIPTOR.services_by_name["DiscoveryService"].full_name

_GetContext: TypeAlias = grpc.aio.ServicerContext[discovery_pb2.GetDiscoveryRequest, bytes]
_WatchContext: TypeAlias = grpc.aio.ServicerContext[discovery_pb2.WatchDiscoveryRequest, bytes]


class DiscoveryService:
    """The methods of DiscoveryService; they return encoded messages.

    Args:
        registry: Announces changes to watches.
        encoding: What is served, shared with HTTP.
        gates: Which document versions are served.
        metrics: Where calls and watches are counted.
        ready: Whether the local sources are in the snapshot.
    """

    def __init__(
        self,
        registry: Registry,
        encoding: CurrentEncoding,
        gates: FeatureGates,
        metrics: Metrics,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._encoding = encoding
        self._offered = gates.aggregated_versions
        self._metrics = metrics
        self._ready = ready
        self._changed: set[asyncio.Event] = set()
        self._stopping = False
        registry.subscribe(self._announce)

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what registers the service with a server."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "GetDiscovery": grpc.unary_unary_rpc_method_handler(
                    self.get,
                    request_deserializer=discovery_pb2.GetDiscoveryRequest.FromString,
                    response_serializer=_as_it_is,
                ),
                "WatchDiscovery": grpc.unary_stream_rpc_method_handler(
                    self.watch,
                    request_deserializer=discovery_pb2.WatchDiscoveryRequest.FromString,
                    response_serializer=_as_it_is,
                ),
            },
        )

    def stop_watches(self) -> None:
        """End every watch with UNAVAILABLE, so that its caller goes on at another replica."""
        self._stopping = True
        self._announce(None)

    def _announce(self, _snapshot: Snapshot | None) -> None:
        for event in self._changed:
            event.set()

    async def get(self, request: discovery_pb2.GetDiscoveryRequest, context: _GetContext) -> bytes:
        """Answer GetDiscovery."""
        chosen = await self._choose(context, request, "GetDiscovery")
        encoded = self._encoding.current
        snapshot = encoded.snapshot
        head = answers.head(snapshot, chosen)
        if request.if_none_match.strip('"') == answers.etag(snapshot, chosen):
            result = answers.not_modified()
        elif request.HasField("known_groups"):
            now = answers.state(snapshot, chosen)
            hashes = known(request.known_groups)
            result = answers.with_delta(answers.delta_from_hashes(now, hashes, chosen))
        else:
            result = await answers.document(encoded, chosen)
        self._metrics.grpc_requests.labels("GetDiscovery", "OK").inc()
        return head + result

    async def watch(
        self, request: discovery_pb2.WatchDiscoveryRequest, context: _WatchContext
    ) -> AsyncIterator[bytes]:
        """Answer WatchDiscovery.

        Between two messages nothing is queued: the next one tells the difference between what was
        sent last and what is there once the caller has taken it.
        """
        chosen = await self._choose(context, request, "WatchDiscovery")
        try:
            silence_s = heartbeat_s(request)
        except InvalidRequest as error:
            await self._abort_invalid(context, error, "WatchDiscovery")
        with self._watching() as changed:
            snapshot = self._encoding.current.snapshot
            sent = answers.state(snapshot, chosen)
            hashes = known(request.known_groups)
            delta = answers.delta_from_hashes(sent, hashes, chosen)
            yield answers.changes(answers.etag(snapshot, chosen), delta)
            loop = asyncio.get_running_loop()
            speak_by = loop.time() + silence_s
            while True:
                quiet = not await _set_by(changed, speak_by)
                changed.clear()
                if self._stopping:
                    break
                snapshot = self._encoding.current.snapshot
                now = answers.state(snapshot, chosen)
                difference = answers.delta_between(sent, now, chosen.version)
                sent = now
                if difference is not None:
                    yield answers.changes(answers.etag(snapshot, chosen), difference)
                elif quiet:
                    yield answers.heartbeat(answers.etag(snapshot, chosen))
                else:
                    continue  # a change out of scope
                speak_by = loop.time() + silence_s
        self._metrics.grpc_requests.labels("WatchDiscovery", "UNAVAILABLE").inc()
        await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    @contextmanager
    def _watching(self) -> Generator[asyncio.Event]:
        changed = asyncio.Event()
        self._changed.add(changed)
        self._metrics.grpc_watchers.inc()
        try:
            yield changed
        finally:
            self._changed.discard(changed)
            self._metrics.grpc_watchers.dec()

    async def _choose(
        self,
        context: grpc.aio.ServicerContext[Any, bytes],
        request: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest,
        method: str,
    ) -> Selection:
        if not self._ready() or self._stopping:
            self._metrics.grpc_requests.labels(method, "UNAVAILABLE").inc()
            what = "stopping" if self._stopping else "still reading its sources"
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the server is {what}")
        try:
            return selection(request.accept_versions, request.scope, self._offered)
        except InvalidRequest as error:
            await self._abort_invalid(context, error, method)
        except NoCommonVersion as error:
            violations = [
                error_details_pb2.PreconditionFailure.Violation(
                    type="DOCUMENT_VERSION",
                    subject="accept_versions",
                    description=f"{version} is offered",
                )
                for version in error.offered
            ]
            self._metrics.grpc_requests.labels(method, "FAILED_PRECONDITION").inc()
            details = error_details_pb2.PreconditionFailure(violations=violations)
            await _abort(context, code_pb2.FAILED_PRECONDITION, str(error), details)

    async def _abort_invalid(
        self, context: grpc.aio.ServicerContext[Any, bytes], error: InvalidRequest, method: str
    ) -> NoReturn:
        self._metrics.grpc_requests.labels(method, "INVALID_ARGUMENT").inc()
        violations = [
            error_details_pb2.BadRequest.FieldViolation(field=v.field, description=v.message)
            for v in error.violations
        ]
        details = error_details_pb2.BadRequest(field_violations=violations)
        await _abort(context, code_pb2.INVALID_ARGUMENT, str(error), details)


def _as_it_is(message: bytes) -> bytes:
    """Serialize a message that is encoded already."""
    return message


async def _set_by(event: asyncio.Event, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            return await event.wait()
    except TimeoutError:
        return False


async def _abort(
    context: grpc.aio.ServicerContext[Any, bytes],
    code: int,
    message: str,
    details: error_details_pb2.BadRequest | error_details_pb2.PreconditionFailure,
) -> NoReturn:
    """End a call with a rich status.

    Source: google.rpc error_details.proto, by grpcio-status.
    """
    packed = ProtoAny()
    packed.Pack(details)
    rich = status_pb2.Status(code=code, message=message, details=[packed])
    status = rpc_status.to_status(rich)  # pyright: ignore[reportUnknownMemberType] - google.rpc again
    context.set_trailing_metadata(status.trailing_metadata)
    await context.abort(status.code, status.details)
