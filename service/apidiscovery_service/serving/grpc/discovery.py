"""DiscoveryService: reads the current snapshot, compares hashes, sends bytes."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from apidiscovery.service.v1 import discovery_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.access.authenticator import Access, OpenAccess
from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.source import SourceStatus
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import discovery_messages as messages
from apidiscovery_service.serving.grpc.admission import admit_call
from apidiscovery_service.serving.grpc.calls import (
    Behaviour,
    CallFailed,
    Context,
    Service,
    Stream,
)
from apidiscovery_service.serving.grpc.message_fields import heartbeat_s
from apidiscovery_service.waiting import Wakeup, happens_within

SERVICE = discovery_pb2.DESCRIPTOR.services_by_name["DiscoveryService"]


class DiscoveryService(Service):
    """The methods of DiscoveryService.

    Args:
        registry: Announces changes to watches.
        encoding: The encoded snapshot, shared with HTTP.
        gates: Decide which document versions are served.
        metrics: Counts calls and watches.
        ready: Whether the local sources are in the snapshot.
        awaited: Returns the upstreams that are waited for while there is nothing else to serve;
            empty for none.
        statuses: Returns the sources that have a status.
        access: Returns the clusters that a caller may read about; None for all.
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
        access: Access | None = None,
    ) -> None:
        super().__init__(SERVICE, metrics, ready)
        self._access = access or OpenAccess()
        self._registry = registry
        self._statuses = statuses
        self._encoding = encoding
        self._views: dict[messages.Selection, messages.SelectedSnapshot] = {}
        self._offered = gates.aggregated_versions
        self._awaited = awaited
        self._news = Wakeup()
        registry.subscribe(self._announce)

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {
            "GetDiscovery": self.get,
            "ListSources": self.list_sources,
            "WatchDiscovery": self.watch,
        }

    def _announce(self, _snapshot: Snapshot) -> None:
        self._views = {}
        self._news.ring()

    async def get(self, request: discovery_pb2.GetDiscoveryRequest, _context: Context) -> bytes:
        """Answer GetDiscovery."""
        view = self._view(self._selection(request))
        # Before any await: the registry changes then, the view does not.
        provenance = (
            messages.provenance(self._registry, view.groups) if request.with_provenance else b""
        )
        if request.if_none_match.strip('"') == view.etag:
            return view.not_modified + provenance
        if request.HasField("known_groups"):
            delta = await asyncio.to_thread(view.delta, request.known_groups.hashes)
            return view.head + messages.with_delta(delta) + provenance
        return await view.whole() + provenance

    async def list_sources(
        self, _request: discovery_pb2.ListSourcesRequest, context: Context
    ) -> discovery_pb2.ListSourcesResponse:
        """Answer ListSources."""
        may_read = matching(admit_call(self._access, context).clusters)
        return messages.list_sources(self._registry, self._statuses(), may_read)

    async def watch(self, request: discovery_pb2.WatchDiscoveryRequest, stream: Stream) -> None:
        """Answer WatchDiscovery.

        Nothing is queued between two messages: each has the difference between what was sent last
        and the snapshot that is current once the caller has taken it.
        """
        selection = self._selection(request)
        interval_s = heartbeat_s(request)
        with self._metrics.grpc_watchers.track_inprogress():
            await self._follow(request, stream, selection, interval_s)

    async def _follow(
        self,
        request: discovery_pb2.WatchDiscoveryRequest,
        stream: Stream,
        selection: messages.Selection,
        interval_s: float,
    ) -> None:
        """Send the difference to what the caller knows, then every change and heartbeats."""
        loop = asyncio.get_running_loop()
        news = self._news.next()
        # In a thread, since it may be the whole document.
        known = request.known_groups.hashes
        message, sent = await asyncio.to_thread(_first, self._view(selection), known)
        await stream.send(message)
        del message  # it may be large
        heartbeat_at = loop.time() + interval_s
        while True:
            is_heartbeat = not await happens_within(heartbeat_at - loop.time(), news.wait())
            news = self._news.next()
            following, sent = self._next(selection, sent, is_heartbeat=is_heartbeat)
            if following is not None:
                await stream.send(following)
                del following
                heartbeat_at = loop.time() + interval_s

    def _next(
        self, selection: messages.Selection, sent: messages.GroupHashes, *, is_heartbeat: bool
    ) -> tuple[bytes | None, messages.GroupHashes]:
        """Return the next message, None if nothing has changed, and the hashes sent with it.

        It drops its view before the message is sent: a caller that does not read must not keep a
        snapshot alive.
        """
        view = self._view(selection)
        delta = view.delta_since(sent)
        if delta is not None:
            return messages.changes(view.etag, delta), view.group_hashes
        return messages.heartbeat(view.etag) if is_heartbeat else None, view.group_hashes

    def _view(self, selection: messages.Selection) -> messages.SelectedSnapshot:
        """Return the view of the current snapshot, which all callers with a selection share."""
        view = self._views.get(selection)
        if view is None:
            view = self._views[selection] = messages.SelectedSnapshot(
                self._encoding.current, selection
            )
        return view

    def _selection(
        self, request: discovery_pb2.GetDiscoveryRequest | discovery_pb2.WatchDiscoveryRequest
    ) -> messages.Selection:
        """Return what a request selects.

        Raises:
            CallFailed: There is nothing to serve yet, or no accepted document version is served.
            InvalidFields: A field is wrong.
        """
        if self._awaited():
            message = "no upstream has answered yet; ListSources has the reasons"
            raise CallFailed(code_pb2.UNAVAILABLE, message)
        return messages.selection(request.accept_versions, request.scope, self._offered)


def _first(
    view: messages.SelectedSnapshot, known: Mapping[str, str]
) -> tuple[bytes, messages.GroupHashes]:
    """Return the first message to a caller that knows some groups, and the hashes sent with it."""
    return messages.changes(view.etag, view.delta(known)), view.group_hashes
