"""FleetService: the clusters that a caller may see, side by side."""

import asyncio
from collections.abc import Callable, Mapping

from apidiscovery.service.v1 import fleet_pb2
from apidiscovery_formats.matrix import Selection
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    code_pb2,
)

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.kube.objects.selectors import LabelSelector
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.recent import Recent
from apidiscovery_service.serving.grpc import fleet_messages as messages
from apidiscovery_service.serving.grpc.calls import (
    Behaviour,
    CallFailed,
    Context,
    Service,
    Stream,
)
from apidiscovery_service.serving.grpc.fleet_encoding import (
    EncodedMatrix,
    EncodedScope,
    Sent,
    heartbeat,
    write,
)
from apidiscovery_service.serving.grpc.message_fields import (
    heartbeat_s,
    page_size_of,
    page_token,
    token_parts,
)
from apidiscovery_service.waiting import happens_within

SERVICE = fleet_pb2.DESCRIPTOR.services_by_name["FleetService"]

# Scopes with label selectors whose encoded rows are cached. Making those of another one takes 0.1 s
# for a thousand clusters.
_MAX_WRITTEN = 32
# Cached matrices for further pages. They share most of their rows.
_MAX_PAGED = 8


class FleetService(Service):
    """The methods of FleetService.

    Args:
        scope_of: Returns what the caller of a call may see now; equal scopes are one object.
        metrics: Counts calls and watches.
        ready: Whether the local sources have been read.
    """

    def __init__(
        self,
        scope_of: Callable[[Context], Scope],
        metrics: Metrics,
        *,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__(SERVICE, metrics, ready)
        self._scope_of = scope_of
        self._followed: Recent[tuple[Scope, LabelSelector], _Followed] = Recent(_MAX_WRITTEN)
        self._paged: Recent[tuple[Scope, str], EncodedMatrix] = Recent(_MAX_PAGED)

    def behaviours(self) -> Mapping[str, Behaviour]:
        """Return the functions that answer the methods."""
        return {
            "ListClusters": self.list_clusters,
            "GetMatrix": self.get_matrix,
            "WatchFleet": self.watch,
        }

    async def list_clusters(
        self, request: fleet_pb2.ListClustersRequest, context: Context
    ) -> fleet_pb2.ListClustersResponse:
        """Answer ListClusters."""
        labels = messages.labels_of("label_selector", request.label_selector)
        page_size = page_size_of(request.page_size)
        after = str(token_parts(request.page_token, str)[0]) if request.page_token else ""
        scope = self._followed_by(context, labels).scope
        return await asyncio.to_thread(
            messages.clusters_page,
            [column for column in scope.columns() if column.name > after],
            scope.clusters,
            page_size,
            with_group_versions=request.with_group_versions,
        )

    async def get_matrix(self, request: fleet_pb2.GetMatrixRequest, context: Context) -> bytes:
        """Answer GetMatrix."""
        labels, selection = messages.selection_of(request.selection)
        page_size = page_size_of(request.page_size)
        selected = _name_of(request.selection)
        begin = 0
        if request.page_token:
            of, hash_, begin = _place_of(request.page_token)
            if of != selected:
                text = "want the selection of the first page"
                raise InvalidFields(FieldViolation("selection", text))
            matrix = self._paged_matrix(context, hash_)
        else:
            _, matrix = await self._followed_by(context, labels).encoded(selection)
            if request.if_none_match == matrix.hash:
                return matrix.not_modified
        page = await asyncio.to_thread(matrix.page, begin, page_size)
        if page.end is None:
            return page.with_token("")
        self._paged.put((self._scope_of(context), matrix.hash), matrix)
        return page.with_token(page_token(selected, matrix.hash, page.end))

    async def watch(self, request: fleet_pb2.WatchFleetRequest, stream: Stream) -> None:
        """Answer WatchFleet.

        Nothing is queued between two messages: each has the difference between what was sent last
        and the state that is current once the caller has taken it.
        """
        with self._metrics.grpc_watchers.track_inprogress():
            await self._follow(request, stream)

    async def _follow(self, request: fleet_pb2.WatchFleetRequest, stream: Stream) -> None:
        """Send all, or a heartbeat to a caller that has it, then every change and heartbeats."""
        labels, selection = messages.selection_of(request.selection)
        interval_s = heartbeat_s(request)
        loop, context = asyncio.get_running_loop(), stream.context
        scope, followed = self._scope_of(context), self._followed_by(context, labels)
        revision, sent = await _begin(stream, followed, selection, request.if_none_match)
        heartbeat_at = loop.time() + interval_s
        while True:
            is_heartbeat = not await happens_within(
                heartbeat_at - loop.time(), followed.scope.wait(revision)
            )
            if self._scope_of(context) is not scope:  # the caller may see more now, or less
                scope = self._scope_of(context)
                followed = self._followed_by(context, labels)
            revision, following, sent = await _next(followed, selection, sent)
            if not following and is_heartbeat:
                following = [heartbeat(sent)]
            for message in following:
                await stream.send(message)
                heartbeat_at = loop.time() + interval_s
            following = []  # it may be large

    def _followed_by(self, context: Context, labels: LabelSelector) -> "_Followed":
        """Return what a caller may see of the clusters with these labels."""
        scope = self._scope_of(context)
        key = (scope, labels)
        found = self._followed.get(key)
        if found is None:
            found = _Followed(scope.selected(labels) if labels.requirements else scope)
            self._followed.put(key, found)
        return found

    def _paged_matrix(self, context: Context, hash_: str) -> EncodedMatrix:
        """Return the matrix of an earlier page, of the same part of the fleet.

        Raises:
            CallFailed: It is not kept any more.
        """
        matrix = self._paged.get((self._scope_of(context), hash_))
        if matrix is None:
            message = "the matrix has changed since the first page; begin again without page_token"
            raise CallFailed(code_pb2.ABORTED, message)
        return matrix


class _Followed:
    """One scope, encoded again on the first request after a change.

    Args:
        scope: The scope.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._written: tuple[int, EncodedScope] | None = None
        self._turn = asyncio.Lock()

    async def encoded(self, selection: Selection) -> tuple[int, EncodedMatrix]:
        """Return the current state, no older than this call, and its revision."""
        if self._written is None or self._written[0] != self.scope.revision:
            # Cancelling one caller must not end the turn, whose thread goes on.
            await asyncio.shield(asyncio.create_task(self._write()))
        if self._written is None:
            raise AssertionError("a turn writes")
        revision, written = self._written
        return revision, written.selected(selection)

    async def _write(self) -> None:
        async with self._turn:
            revision = self.scope.revision
            before = self._written
            if before is not None and before[0] == revision:
                return
            matrix, clusters = self.scope.matrix(), self.scope.clusters
            # In a thread, since it may be the whole matrix.
            known = before[1] if before else None
            written = await asyncio.to_thread(write, matrix, clusters, known)
            self._written = revision, written


async def _begin(
    stream: Stream, followed: _Followed, selection: Selection, known: str
) -> tuple[int, Sent]:
    """Send the whole state; return its revision, and the digests of what was sent."""
    revision, matrix = await followed.encoded(selection)
    sent = matrix.sent
    for message in [heartbeat(sent)] if known == matrix.hash else matrix.whole():
        await stream.send(message)
    return revision, sent


async def _next(
    followed: _Followed, selection: Selection, sent: Sent
) -> tuple[int, list[bytes], Sent]:
    """Return the current revision, the messages that lead to it, and the digests after them.

    It refers to nothing else: a caller that does not read must not keep a state alive.
    """
    revision, matrix = await followed.encoded(selection)
    return revision, matrix.delta(sent), matrix.sent


def _name_of(selection: fleet_pb2.FleetSelection) -> str:
    """Return a digest of a selection, for page tokens."""
    return messages.digest(selection.SerializeToString(deterministic=True)).hex()


def _place_of(token: str) -> tuple[str, str, int]:
    """Return the selection, the hash and the place in a page token.

    Raises:
        InvalidFields: It is not a token.
    """
    of, hash_, begin = token_parts(token, str, str, int)
    return str(of), str(hash_), max(int(begin), 0)
