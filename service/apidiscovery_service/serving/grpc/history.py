"""HistoryService: changes and their times, and earlier documents, that a caller may see."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from apidiscovery.service.v1 import history_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.access.authenticator import Access, OpenAccess
from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.history import LOOK_EVERY_S, History
from apidiscovery_service.history.model import (
    MERGED,
    Change,
    ChangeFilter,
    ChangeKind,
    NothingRecorded,
)
from apidiscovery_service.kube import wire
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import history_messages as messages
from apidiscovery_service.serving.grpc.admission import admit_call
from apidiscovery_service.serving.grpc.calls import (
    Behaviour,
    CallFailed,
    Context,
    Service,
    Stream,
    number_of,
)
from apidiscovery_service.serving.grpc.discovery_messages import STATES
from apidiscovery_service.serving.grpc.message_fields import (
    PART_BYTES,
    heartbeat_s,
    page_size_of,
    page_token,
    time_of,
    token_parts,
)
from apidiscovery_service.waiting import happens_within

SERVICE = history_pb2.DESCRIPTOR.services_by_name["HistoryService"]

# Changes of a page or of a message of a watch, groups before and after included.
_MAX_PAGE = 500
_DOCUMENT_PART_BYTES = 1024 * 1024

_CORE = number_of(history_pb2.GetAtResponse, "core")
_GROUPS = number_of(history_pb2.GetAtResponse, "groups")


class HistoryService(Service):
    """The methods of HistoryService.

    Args:
        history: The recorded changes; None without a history.
        metrics: Counts calls and watches.
        ready: Whether the local sources have been read.
        access: Returns the clusters that a caller may read about; None for all.
    """

    def __init__(
        self,
        history: History | None,
        metrics: Metrics,
        *,
        ready: Callable[[], bool] = lambda: True,
        access: Access | None = None,
    ) -> None:
        super().__init__(SERVICE, metrics, ready)
        self._recorded = history
        self._access = access or OpenAccess()
        self._publisher = Publisher()

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {
            "ListChanges": self.list_changes,
            "GetAt": self.get_at,
            "GetOpenAPIChange": self.get_openapi_change,
            "WatchChanges": self.watch,
        }

    async def list_changes(
        self, request: history_pb2.ListChangesRequest, context: Context
    ) -> history_pb2.ListChangesResponse:
        """Answer ListChanges."""
        history = self._history()
        only = messages.filter_of(request.selection, self._may_read(context))
        if request.HasField("since"):
            only = replace(only, since=time_of("since", request.since))
        if request.HasField("until"):
            only = replace(only, until=time_of("until", request.until))
        size = min(page_size_of(request.page_size) or _MAX_PAGE, _MAX_PAGE)
        before = int(token_parts(request.page_token, int)[0]) if request.page_token else None
        found = await history.changes(only, before=before, limit=size + 1)
        changes = await _part(history, found[:size], with_groups=request.with_groups)
        is_last = len(changes) == len(found)
        return history_pb2.ListChangesResponse(
            changes=changes, next_page_token="" if is_last else page_token(changes[-1].id)
        )

    async def get_at(self, request: history_pb2.GetAtRequest, context: Context) -> bytes:
        """Answer GetAt."""
        history = self._history()
        if not request.HasField("time"):
            raise InvalidFields(FieldViolation("time", "want a time, got none"))
        when = time_of("time", request.time)
        may_read = self._may_read(context)
        if may_read and not may_read(request.cluster):
            raise NothingRecorded(f"the history has nothing of cluster {request.cluster}", None)
        return await self._state(await history.cluster_at(request.cluster, when))

    async def _state(self, cluster: Cluster) -> bytes:
        """Return GetAtResponse for a cluster as it was."""
        snapshot = await asyncio.to_thread(self._publisher.snapshot, cluster)
        encoded = EncodedSnapshot(snapshot)
        message = history_pb2.GetAtResponse(
            version=cluster.dialect.version, state=STATES[cluster.status.state]
        )
        documents = b""
        if cluster.core is not None:
            message.core_etag = snapshot.core.etag
            documents += wire.delimited(_CORE, await encoded.list_message(core=True))
        if cluster.named is not None:
            message.groups_etag = snapshot.named.etag
            documents += wire.delimited(_GROUPS, await encoded.list_message(core=False))
        return message.SerializeToString() + documents

    async def get_openapi_change(
        self, request: history_pb2.GetOpenAPIChangeRequest, stream: Stream
    ) -> None:
        """Answer GetOpenAPIChange."""
        history = self._history()
        if request.side not in (history_pb2.HISTORY_SIDE_BEFORE, history_pb2.HISTORY_SIDE_AFTER):
            text = f"want HISTORY_SIDE_BEFORE or HISTORY_SIDE_AFTER, got {request.side}"
            raise InvalidFields(FieldViolation("side", text))
        may_read = self._may_read(stream.context)
        change = await history.change(request.change_id)
        if (
            change is None
            or change.kind is not ChangeKind.OPENAPI
            or (may_read and not may_read(change.cluster))
        ):
            text = f"there is no change of an OpenAPI document with id {request.change_id}"
            raise CallFailed(code_pb2.NOT_FOUND, text)
        is_before = request.side == history_pb2.HISTORY_SIDE_BEFORE
        key = change.before if is_before else change.after
        content = await history.content(key) if key else b""
        for begin in range(0, len(content), _DOCUMENT_PART_BYTES):
            part = content[begin : begin + _DOCUMENT_PART_BYTES]
            await stream.send(history_pb2.GetOpenAPIChangeResponse(part=part))

    async def watch(self, request: history_pb2.WatchChangesRequest, stream: Stream) -> None:
        """Answer WatchChanges.

        Nothing is queued: after each message the next changes are read from the file.
        """
        history = self._history()
        only = messages.filter_of(request.selection, None)
        interval_s = heartbeat_s(request)
        last = await history.last_id()
        after = request.after_id if request.HasField("after_id") else last
        if not 0 <= after <= last:
            text = f"after_id: want an id of up to {last}, the last change, got {after}"
            raise CallFailed(code_pb2.OUT_OF_RANGE, text)

        def selected() -> ChangeFilter:
            return replace(only, may_read=self._may_read(stream.context))

        watch = _Watch(history, stream, selected, request.with_groups)
        with self._metrics.grpc_watchers.track_inprogress():
            await watch.follow(after, interval_s)

    def _history(self) -> History:
        """Return the history.

        Raises:
            CallFailed: There is none.
        """
        if self._recorded is None:
            text = "this server keeps no history; start it with --history, such as 90d,2GiB"
            raise CallFailed(code_pb2.FAILED_PRECONDITION, text)
        return self._recorded

    def _may_read(self, context: Context) -> Callable[[str], bool] | None:
        """Return a filter of the clusters that a caller may read about; None for all.

        Merged documents are for callers that may read about all clusters, since earlier grants
        decided what was merged.
        """
        patterns = admit_call(self._access, context).clusters
        if "*" in patterns:
            return None
        pattern = matching(patterns)
        return lambda name: name != MERGED and bool(pattern.fullmatch(name))


@dataclass(frozen=True, slots=True)
class _Watch:
    """One call of WatchChanges.

    Attributes:
        history: Is read after each message.
        stream: Takes the messages.
        selected: Returns what to send now: grants of the caller may change.
        with_groups: Whether to send groups before and after.
    """

    history: History
    stream: Stream
    selected: Callable[[], ChangeFilter]
    with_groups: bool

    async def follow(self, after: int, interval_s: float) -> None:
        """Send changes after an id as they come, and a heartbeat after each interval without."""
        loop = asyncio.get_running_loop()
        heartbeat_at = loop.time() + interval_s
        while True:
            news = self.history.news.next()
            found, after = await self.history.following(self.selected(), after, _MAX_PAGE)
            if found:
                await self._send(found)
                heartbeat_at = loop.time() + interval_s
                continue
            if loop.time() >= heartbeat_at:
                await self.stream.send(_heartbeat(after))
                heartbeat_at = loop.time() + interval_s
            await happens_within(min(heartbeat_at - loop.time(), LOOK_EVERY_S), news.wait())

    async def _send(self, changes: Sequence[Change]) -> None:
        while changes:
            sent = await _part(self.history, changes, with_groups=self.with_groups)
            message = history_pb2.WatchChangesResponse.Changes(changes=sent)
            await self.stream.send(history_pb2.WatchChangesResponse(changes=message))
            changes = changes[len(sent) :]


async def _part(
    history: History, changes: Sequence[Change], *, with_groups: bool
) -> list[history_pb2.HistoryChange]:
    """Return the first of these changes as messages, as many as one message holds.

    Raises:
        HistoryError: The history cannot be read.
    """
    part: list[history_pb2.HistoryChange] = []
    size = 0
    for change in changes:
        sides = await history.read_sides(change) if with_groups else (None, None)
        message = messages.change_message(change, *sides)
        size += message.ByteSize()
        if part and size > PART_BYTES:
            break
        part.append(message)
    return part


def _heartbeat(after: int) -> history_pb2.WatchChangesResponse:
    heartbeat = history_pb2.WatchChangesResponse.Heartbeat(after_id=after)
    return history_pb2.WatchChangesResponse(heartbeat=heartbeat)
