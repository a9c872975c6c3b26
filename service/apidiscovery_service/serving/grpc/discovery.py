"""DiscoveryService: reads the current snapshot, compares hashes, sends bytes."""

import asyncio
import contextlib
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
from apidiscovery.service.v1 import discovery_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
    error_details_pb2,
)

from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import answers
from apidiscovery_service.serving.grpc.errors import abort, abort_invalid, counted
from apidiscovery_service.serving.grpc.provenance import list_sources, provenance
from apidiscovery_service.serving.grpc.requests import (
    NoCommonVersion,
    Selection,
    heartbeat_s,
    selection,
)

SERVICE = discovery_pb2.DESCRIPTOR.services_by_name["DiscoveryService"].full_name

# How long the end of a watch may take to be written.
_LAST_WORD_S = 0.5

_GetContext: TypeAlias = grpc.aio.ServicerContext[discovery_pb2.GetDiscoveryRequest, bytes]
_ListContext: TypeAlias = grpc.aio.ServicerContext[discovery_pb2.ListSourcesRequest, bytes]
_WatchContext: TypeAlias = grpc.aio.ServicerContext[discovery_pb2.WatchDiscoveryRequest, bytes]


class DiscoveryService:
    """The methods of DiscoveryService; they return encoded messages.

    Args:
        registry: Announces changes to watches.
        encoding: What is served, shared with HTTP.
        gates: Which document versions are served.
        metrics: Where calls and watches are counted.
        ready: Whether the local sources are in the snapshot.
        awaited: Returns which upstreams are waited for while there is nothing else to serve; empty
            for none.
        statuses: The sources about which there is something to tell.
    """

    def __init__(  # noqa: PLR0913 - each is another part of the server
        self,
        registry: Registry,
        encoding: CurrentEncoding,
        gates: FeatureGates,
        metrics: Metrics,
        *,
        ready: Callable[[], bool] = lambda: True,
        awaited: Callable[[], str] = str,
        statuses: Callable[[], Iterable[SourceStatus]] = tuple,
    ) -> None:
        self._registry = registry
        self._statuses = statuses
        self._encoding = encoding
        self._views = answers.Views(encoding.current)
        self._offered = gates.aggregated_versions
        self._metrics = metrics
        self._ready = ready
        self._awaited = awaited
        self._changed: set[asyncio.Event] = set()
        self._unwatched = asyncio.Event()
        self._unwatched.set()
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
                "ListSources": grpc.unary_unary_rpc_method_handler(
                    self.list_sources,
                    request_deserializer=discovery_pb2.ListSourcesRequest.FromString,
                    response_serializer=_as_it_is,
                ),
                "WatchDiscovery": grpc.unary_stream_rpc_method_handler(
                    self.watch,
                    request_deserializer=discovery_pb2.WatchDiscoveryRequest.FromString,
                    response_serializer=_as_it_is,
                ),
            },
        )

    async def stop_watches(self) -> None:
        """End every watch with UNAVAILABLE, so that its caller goes on at another replica.

        Returns once they have ended, or soon: one whose caller does not read cannot be told.
        """
        self._stopping = True
        self._announce(None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD_S):
                await self._unwatched.wait()

    def _announce(self, _snapshot: Snapshot | None) -> None:
        self._views = answers.Views(self._encoding.current)
        for event in self._changed:
            event.set()

    async def get(self, request: discovery_pb2.GetDiscoveryRequest, context: _GetContext) -> bytes:
        """Answer GetDiscovery."""
        with counted(self._metrics, "GetDiscovery", context):
            view = self._views.view(await self._choose(context, request))
            # Before anything is awaited: the registry goes on, the view does not.
            told = provenance(self._registry, view.groups) if request.with_provenance else b""
            if request.if_none_match.strip('"') == view.etag:
                return view.not_modified + told
            if request.HasField("known_groups"):
                delta = await asyncio.to_thread(view.delta, request.known_groups.hashes)
                return view.head + answers.with_delta(delta) + told
            return await view.whole() + told

    async def list_sources(
        self, _request: discovery_pb2.ListSourcesRequest, context: _ListContext
    ) -> bytes:
        """Answer ListSources."""
        with counted(self._metrics, "ListSources", context):
            await self._see_that_it_serves(context)
            return list_sources(self._registry, self._statuses()).SerializeToString()

    async def watch(
        self, request: discovery_pb2.WatchDiscoveryRequest, context: _WatchContext
    ) -> None:
        """Answer WatchDiscovery.

        Between two messages nothing is queued: the next one tells the difference between what was
        sent last and what is there once the caller has taken it.
        """
        with counted(self._metrics, "WatchDiscovery", context):
            chosen = await self._choose(context, request)
            try:
                silence_s = heartbeat_s(request)
            except InvalidFields as error:
                await abort_invalid(context, error.violations)
            with self._watching() as changed:
                # grpc can lose the cancellation of a handler that is just writing. The stubs want a
                # callback of a class that does not exist.
                context.add_done_callback(lambda _: changed.set())  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
                await self._follow(request, context, chosen, changed, silence_s)
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the server is stopping")

    async def _follow(
        self,
        request: discovery_pb2.WatchDiscoveryRequest,
        context: _WatchContext,
        chosen: Selection,
        changed: asyncio.Event,
        silence_s: float,
    ) -> None:
        """Send what differs now, and every change, until the server stops or the caller goes."""
        loop = asyncio.get_running_loop()
        # In a thread, since it may be all there is.
        message, sent = await asyncio.to_thread(self._first, chosen, request.known_groups.hashes)
        await context.write(message)
        del message  # it may be large
        speak_by = loop.time() + silence_s
        while not self._stopping and not context.done():
            quiet = not await _set_by(changed, speak_by)
            changed.clear()
            following, sent = self._next(chosen, sent, quiet=quiet)
            if following is not None:
                await context.write(following)
                del following
                speak_by = loop.time() + silence_s

    # Both give up their view before anything is awaited: a caller that does not read must not keep
    # a snapshot alive.

    def _first(self, chosen: Selection, known: Mapping[str, str]) -> tuple[bytes, answers.State]:
        view = self._views.view(chosen)
        return answers.changes(view.etag, view.delta(known)), view.state

    def _next(
        self, chosen: Selection, sent: answers.State, *, quiet: bool
    ) -> tuple[bytes | None, answers.State]:
        """Return the next message, None if there is nothing to say, and what is sent with it."""
        view = self._views.view(chosen)
        delta = view.delta_since(sent)
        if delta is not None:
            return answers.changes(view.etag, delta), view.state
        return answers.heartbeat(view.etag) if quiet else None, view.state

    @contextlib.contextmanager
    def _watching(self) -> Generator[asyncio.Event]:
        changed = asyncio.Event()
        self._changed.add(changed)
        self._unwatched.clear()
        self._metrics.grpc_watchers.inc()
        try:
            yield changed
        finally:
            self._changed.discard(changed)
            if not self._changed:
                self._unwatched.set()
            self._metrics.grpc_watchers.dec()

    async def _see_that_it_serves(self, context: grpc.aio.ServicerContext[Any, bytes]) -> None:
        if not self._ready() or self._stopping:
            what = "stopping" if self._stopping else "still reading its sources"
            await context.abort(grpc.StatusCode.UNAVAILABLE, f"the server is {what}")

    async def _choose(
        self,
        context: grpc.aio.ServicerContext[Any, bytes],
        request: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest,
    ) -> Selection:
        await self._see_that_it_serves(context)
        if self._awaited():
            message = "no upstream has answered yet; ListSources tells why"
            await context.abort(grpc.StatusCode.UNAVAILABLE, message)
        try:
            return selection(request.accept_versions, request.scope, self._offered)
        except InvalidFields as error:
            await abort_invalid(context, error.violations)
        except NoCommonVersion as error:
            await _abort_no_version(context, error)


def _as_it_is(message: bytes) -> bytes:
    """Serialize a message that is encoded already."""
    return message


async def _set_by(event: asyncio.Event, deadline: float) -> bool:
    try:
        async with asyncio.timeout_at(deadline):
            return await event.wait()
    except TimeoutError:
        return False


async def _abort_no_version(
    context: grpc.aio.ServicerContext[Any, bytes], error: NoCommonVersion
) -> NoReturn:
    violations = [
        error_details_pb2.PreconditionFailure.Violation(
            type="DOCUMENT_VERSION",
            subject="accept_versions",
            description=f"{version} is offered",
        )
        for version in error.offered
    ]
    details = error_details_pb2.PreconditionFailure(violations=violations)
    await abort(context, code_pb2.FAILED_PRECONDITION, str(error), details)
