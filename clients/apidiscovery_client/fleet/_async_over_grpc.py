"""Asks FleetService about clusters; `_over_grpc` is generated from this."""

from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import datetime
from typing import cast

import grpc
from apidiscovery.service.v1 import fleet_pb2, fleet_pb2_grpc
from apidiscovery_formats.matrix import Column, Matrix

from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._grpc.errors import CallFailedError, CallRefused, discovery_error
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.fleet._answer import MatrixAnswer, since_of, unknown
from apidiscovery_client.fleet._wire import (
    CLUSTERS,
    MATRIX,
    SERVICE,
    WATCH,
    Received,
    clusters_request,
    matrix_request,
    snapshot_of,
    unexpected,
    watch_request,
)
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._aio_calls import AioCalls
from apidiscovery_client.transports._async_calling import AsyncCaller
from apidiscovery_client.transports._async_scope import in_thread
from apidiscovery_client.transports._async_waiting import AsyncWaiting
from apidiscovery_client.transports._grpc_answers import InconsistentError, Message
from apidiscovery_client.transports._grpc_common import (
    CountingChannel,
    Renewal,
    Stub,
    closed,
    named,
    read_message,
)
from apidiscovery_client.transports._grpc_watching import Patience, ended

# How often the first page is asked for again when the server has lost the state of its pages.
_ATTEMPTS = 5
# The stub needs no more of a channel than a `CountingChannel` has.
_stub = cast("Callable[[CountingChannel], Stub]", fleet_pb2_grpc.FleetServiceStub)


class AsyncOverGrpc:
    """Calls FleetService."""

    can_listen = True

    def __init__(self, server: GrpcServer, selector: str) -> None:
        self._server = server
        self._selector = selector
        self._patience = Patience()
        traffic = Traffic()
        self._waiting = AsyncWaiting()
        self._calls = AioCalls(server, traffic, _stub, WATCH, self._patience)
        self._caller = AsyncCaller(server, SERVICE, self._calls, self._waiting, traffic)

    async def close(self) -> None:
        """Close all connections; it may be called again."""
        self._waiting.end()
        await self._calls.close()

    async def matrix(self, known: MatrixAnswer | None) -> MatrixAnswer:
        """Return the matrix; `known` itself where it has not changed."""
        for left in reversed(range(_ATTEMPTS)):
            try:
                return await self._pages(known)
            except CallRefused as error:
                if error.code != grpc.StatusCode.ABORTED or not left:
                    raise
        raise AssertionError("the last attempt raises")

    async def _pages(self, known: MatrixAnswer | None) -> MatrixAnswer:
        received, token = Received(), ""
        while True:
            request = matrix_request(self._selector, known.validator if known else "", token)
            message = self._read(MATRIX, await self._caller.called(MATRIX, request))
            match message.WhichOneof("result"):
                case "not_modified" if known is not None:
                    return known
                case "page":
                    received.add_page(message.page)
                case _:
                    raise self._senseless(MATRIX, "the answer has no result that was asked for")
            token = message.next_page_token
            if not token:
                return MatrixAnswer(await self._made(received), message.hash)

    async def _made(self, received: Received) -> Matrix:
        try:
            return await in_thread(received.matrix)
        except InconsistentError as error:
            raise unexpected(error, self._server.address, MATRIX) from None

    async def snapshots(
        self, columns: Sequence[Column], _max_age_s: float | None
    ) -> dict[str, Snapshot]:
        """Return what clusters serve, by name, as far as the matrix has it."""
        clusters: dict[str, fleet_pb2.FleetCluster] = {}
        token = ""
        while True:
            request = clusters_request(self._selector, token)
            message = self._read(CLUSTERS, await self._caller.called(CLUSTERS, request))
            clusters |= {cluster.name: cluster for cluster in message.clusters}
            token = message.next_page_token
            if not token:
                break
        matrix = (await self.matrix(None)).matrix
        there = {column.name for column in matrix.columns}
        return {
            column.name: snapshot_of(clusters[column.name], matrix)
            if column.name in clusters.keys() & there
            else unknown(column.name, since_of(column), column.reason)
            for column in columns
        }

    async def listen(self, known: MatrixAnswer | None) -> AsyncGenerator[MatrixAnswer]:
        """Yield the matrix now, and after each change, until the connection is lost.

        Raises:
            ServerUnreachable: The connection is lost, or there was none.
            CallRefused: The server refuses the watch, or ends it.
            UnexpectedDocument: A message makes no sense.
        """
        renewal = Renewal(self._server)
        while True:
            try:
                async for told in self._watched(known, renewal):
                    known = told
                    yield told
            except CallFailedError as error:
                if self._waiting.is_over:
                    raise closed(self._server.address) from None
                if renewal.may_help(error.failed) and await self._waiting.renewed(renewal):
                    continue
                address, silence_s = self._server.address, self._patience.silence_s
                lost = discovery_error(WATCH, address, error.failed, silence_s)
                raise named(lost, SERVICE, WATCH, address) from None
            except InconsistentError as error:
                raise unexpected(error, self._server.address, WATCH) from None

    async def _watched(
        self, known: MatrixAnswer | None, renewal: Renewal
    ) -> AsyncGenerator[MatrixAnswer]:
        """Yield the states of one watch; it ends with an error only."""
        # A watch continues from the rows of an earlier watch; without a hash they are incomplete.
        received = known.state if known and isinstance(known.state, Received) else Received()
        if not received.hash:
            received = Received()
        request = watch_request(self._selector, received.hash, self._patience.heartbeat_s)
        metadata = await self._waiting.metadata(self._server)
        async with self._calls.watch(request, metadata) as read:
            while True:
                answer = await self._waiting.message(read, self._patience)
                if answer is None:
                    raise CallFailedError(ended())
                message = self._read(WATCH, answer)
                renewal.taken()
                match message.WhichOneof("event"):
                    case "heartbeat":
                        if message.heartbeat.hash != received.hash:
                            raise InconsistentError(
                                "a heartbeat has another hash than the last changes"
                            )
                        yield MatrixAnswer(received.matrix(), received.hash, received)
                    case "changes":
                        matrix = received.change(message.changes)
                        if matrix is not None:
                            yield MatrixAnswer(matrix, received.hash, received)
                    case _:
                        raise self._senseless(WATCH, "the message has no event that is known")

    def _read(self, name: str, message: Message) -> Message:
        def itself(told: Message, _at: datetime) -> Message:
            return told

        return read_message(self._server.address, name, itself, message)

    def _senseless(self, method: str, problem: str) -> UnexpectedDocument:
        return UnexpectedDocument(problem, url=self._server.address, method=method)
