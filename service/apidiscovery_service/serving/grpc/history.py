"""HistoryService: what changed when, and what was served at a time, as far as a caller may see."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import grpc
import structlog
from apidiscovery.service.v1 import history_pb2
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.encoding import EncodedSnapshot
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.history import LOOK_EVERY_S, History
from apidiscovery_service.history.model import (
    MERGED,
    Change,
    ContentDamaged,
    Filter,
    HistoryError,
    Kind,
    NothingRecorded,
    NotRecorded,
)
from apidiscovery_service.kube import wire
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.grpc import history_messages as messages
from apidiscovery_service.serving.grpc.admission import CallAccess
from apidiscovery_service.serving.grpc.calls import (
    CallFailed,
    Context,
    Handler,
    Service,
    Stream,
    heartbeat_s,
    number_of,
)
from apidiscovery_service.serving.grpc.discovery_messages import STATES
from apidiscovery_service.serving.grpc.fleet_messages import page_size_of, parts_of, token

SERVICE = history_pb2.DESCRIPTOR.services_by_name["HistoryService"].full_name

# Changes of a page or of a message of a watch, groups before and after included.
_MAX_PAGE = 500
_DOCUMENT_PART_BYTES = 1024 * 1024

_CORE = number_of(history_pb2.GetAtResponse, "core")
_GROUPS = number_of(history_pb2.GetAtResponse, "groups")

_CODES: tuple[tuple[type[HistoryError], int], ...] = (
    (NothingRecorded, code_pb2.NOT_FOUND),
    (NotRecorded, code_pb2.OUT_OF_RANGE),
    (ContentDamaged, code_pb2.DATA_LOSS),
)

_log = structlog.get_logger(__name__)


class HistoryService(Service):
    """The methods of HistoryService; they return encoded messages.

    Args:
        history: What is remembered; None where nothing is.
        metrics: Counts calls and watches.
        ready: Whether the local sources have been read.
        access: Tells which clusters a caller may read about; None for all.
    """

    def __init__(
        self,
        history: History | None,
        metrics: Metrics,
        *,
        ready: Callable[[], bool] = lambda: True,
        access: CallAccess | None = None,
    ) -> None:
        super().__init__(SERVICE, metrics, ready)
        self._kept = history
        self._access = access or CallAccess()
        self._publisher = Publisher()

    def methods(self) -> Mapping[str, Handler]:
        """Return the handlers; their answers are encoded already."""
        return {
            "ListChanges": grpc.unary_unary_rpc_method_handler(
                self.list_changes,
                request_deserializer=history_pb2.ListChangesRequest.FromString,
            ),
            "GetAt": grpc.unary_unary_rpc_method_handler(
                self.get_at, request_deserializer=history_pb2.GetAtRequest.FromString
            ),
            "GetOpenAPIChange": grpc.unary_stream_rpc_method_handler(
                self.get_openapi_change,
                request_deserializer=history_pb2.GetOpenAPIChangeRequest.FromString,
            ),
            "WatchChanges": grpc.unary_stream_rpc_method_handler(
                self.watch, request_deserializer=history_pb2.WatchChangesRequest.FromString
            ),
        }

    async def list_changes(
        self, request: history_pb2.ListChangesRequest, context: Context
    ) -> bytes:
        """Answer ListChanges."""
        async with self.answering("ListChanges", context):
            history = self._history()
            only = messages.filter_of(request.selection, self._may_read(context))
            if request.HasField("since"):
                only = replace(only, since=messages.time_of("since", request.since))
            if request.HasField("until"):
                only = replace(only, until=messages.time_of("until", request.until))
            size = min(page_size_of(request.page_size) or _MAX_PAGE, _MAX_PAGE)
            before = int(parts_of(request.page_token, int)[0]) if request.page_token else None
            try:
                found = await history.changes(only, before=before, limit=size + 1)
                told = await _part(history, found[:size], with_groups=request.with_groups)
            except HistoryError as error:
                _fail(error)
            is_last = len(told) == len(found)
            return history_pb2.ListChangesResponse(
                changes=told, next_page_token="" if is_last else token(told[-1].id)
            ).SerializeToString()

    async def get_at(self, request: history_pb2.GetAtRequest, context: Context) -> bytes:
        """Answer GetAt."""
        async with self.answering("GetAt", context):
            history = self._history()
            if not request.HasField("time"):
                raise InvalidFields(FieldViolation("time", "want a time, got none"))
            when = messages.time_of("time", request.time)
            may_read = self._may_read(context)
            try:
                if may_read and not may_read(request.cluster):
                    text = f"the history has nothing of cluster {request.cluster}"
                    raise NothingRecorded(text, None)
                cluster = await history.cluster_at(request.cluster, when)
            except HistoryError as error:
                _fail(error)
            return await self._state(cluster)

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
        self, request: history_pb2.GetOpenAPIChangeRequest, context: Context
    ) -> None:
        """Answer GetOpenAPIChange."""
        async with self.streaming("GetOpenAPIChange", context) as stream:
            history = self._history()
            if request.side not in (
                history_pb2.HISTORY_SIDE_BEFORE,
                history_pb2.HISTORY_SIDE_AFTER,
            ):
                text = f"want HISTORY_SIDE_BEFORE or HISTORY_SIDE_AFTER, got {request.side}"
                raise InvalidFields(FieldViolation("side", text))
            may_read = self._may_read(context)
            try:
                change = await history.change(request.change_id)
                if (
                    change is None
                    or change.kind is not Kind.OPENAPI
                    or (may_read and not may_read(change.cluster))
                ):
                    text = f"there is no change of an OpenAPI document with id {request.change_id}"
                    raise CallFailed(code_pb2.NOT_FOUND, text)
                is_before = request.side == history_pb2.HISTORY_SIDE_BEFORE
                key = change.before if is_before else change.after
                content = await history.content(key) if key else b""
            except HistoryError as error:
                _fail(error)
            for begin in range(0, len(content), _DOCUMENT_PART_BYTES):
                part = content[begin : begin + _DOCUMENT_PART_BYTES]
                message = history_pb2.GetOpenAPIChangeResponse(part=part)
                await stream.send(message.SerializeToString())

    async def watch(self, request: history_pb2.WatchChangesRequest, context: Context) -> None:
        """Answer WatchChanges.

        Nothing is queued: after each message the next changes are read from the file.
        """
        async with self.streaming("WatchChanges", context) as stream:
            history = self._history()
            only = messages.filter_of(request.selection, None)
            interval_s = heartbeat_s(request)
            try:
                last = await history.last_id()
                after = request.after_id if request.HasField("after_id") else last
                if not 0 <= after <= last:
                    text = f"after_id: want an id of up to {last}, the last change, got {after}"
                    raise CallFailed(code_pb2.OUT_OF_RANGE, text)
                watch = _Watch(
                    history,
                    stream,
                    lambda: replace(only, may_read=self._may_read(context)),
                    request.with_groups,
                )
                self._metrics.grpc_watchers.inc()
                try:
                    await watch.follow(after, interval_s)
                finally:
                    self._metrics.grpc_watchers.dec()
            except HistoryError as error:
                _fail(error)

    def _history(self) -> History:
        """Return the history.

        Raises:
            CallFailed: There is none.
        """
        if self._kept is None:
            text = "this server keeps no history; start it with --history, such as 90d,2GiB"
            raise CallFailed(code_pb2.FAILED_PRECONDITION, text)
        return self._kept

    def _may_read(self, context: Context) -> Callable[[str], bool] | None:
        """Return what tells the clusters that a caller may read about; None for all.

        What was merged is for those who may read about all: it was merged by the grants of then.
        """
        patterns = self._access.admit(context).clusters
        if "*" in patterns:
            return None
        pattern = matching(patterns)
        return lambda name: name != MERGED and bool(pattern.fullmatch(name))


@dataclass(frozen=True, slots=True)
class _Watch:
    """A watch, and what it sends.

    Attributes:
        history: Is read after each message.
        stream: Takes the messages.
        selected: Returns what to send now: grants of the caller may change.
        with_groups: Whether to send groups before and after.
    """

    history: History
    stream: Stream
    selected: Callable[[], Filter]
    with_groups: bool

    async def follow(self, after: int, interval_s: float) -> None:
        """Send changes after an id as they come, and a heartbeat after each interval without."""
        loop = asyncio.get_running_loop()
        heartbeat_at = loop.time() + interval_s
        with self.history.watching() as appended:
            while True:
                appended.clear()
                found, after = await self.history.following(self.selected(), after, _MAX_PAGE)
                if found:
                    await self._send(found)
                    heartbeat_at = loop.time() + interval_s
                    continue
                if loop.time() >= heartbeat_at:
                    await self.stream.send(_heartbeat(after))
                    heartbeat_at = loop.time() + interval_s
                await _set_by(appended, min(heartbeat_at, loop.time() + LOOK_EVERY_S))

    async def _send(self, changes: Sequence[Change]) -> None:
        while changes:
            told = await _part(self.history, changes, with_groups=self.with_groups)
            await self.stream.send(_changes(told))
            changes = changes[len(told) :]


async def _part(
    history: History, changes: Sequence[Change], *, with_groups: bool
) -> list[history_pb2.HistoryChange]:
    """Return the first of these changes as messages, as many as one message holds.

    Raises:
        HistoryError: The history cannot be read.
    """
    told: list[history_pb2.HistoryChange] = []
    size = 0
    for change in changes:
        sides = await history.read_sides(change) if with_groups else (None, None)
        message = messages.change_message(change, *sides)
        size += message.ByteSize()
        if told and size > messages.PART_BYTES:
            break
        told.append(message)
    return told


def _changes(told: list[history_pb2.HistoryChange]) -> bytes:
    changes = history_pb2.WatchChangesResponse.Changes(changes=told)
    return history_pb2.WatchChangesResponse(changes=changes).SerializeToString()


def _heartbeat(after: int) -> bytes:
    heartbeat = history_pb2.WatchChangesResponse.Heartbeat(after_id=after)
    return history_pb2.WatchChangesResponse(heartbeat=heartbeat).SerializeToString()


def _fail(error: HistoryError) -> NoReturn:
    """Raise the status of an error.

    Raises:
        CallFailed: Always. The details of a file, such as its path, are only in the log.
    """
    code = next((code for kind, code in _CODES if isinstance(error, kind)), None)
    if code is not None:
        raise CallFailed(code, str(error)) from error
    _log.warning("history cannot be read", reason=str(error))
    text = "the history cannot be read now, try again; the log of the server has the reason"
    raise CallFailed(code_pb2.UNAVAILABLE, text) from error


async def _set_by(event: asyncio.Event, deadline: float) -> None:
    try:
        async with asyncio.timeout_at(deadline):
            await event.wait()
    except TimeoutError:
        pass
