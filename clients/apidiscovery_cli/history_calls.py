"""Calls of HistoryService: lists and watches of changes, and their documents."""

from collections.abc import Iterator
from datetime import UTC, datetime

import grpc
from apidiscovery.service.v1 import discovery_pb2, history_pb2, history_pb2_grpc
from apidiscovery_client import UnexpectedDocument
from apidiscovery_client._grpc.calls import GrpcClient, GrpcServer
from apidiscovery_client._reading.parsed import UnreadableError
from apidiscovery_client._reading.protobuf import aggregated_group
from apidiscovery_client.model import CURRENT, Snapshot, Stale
from google.protobuf.timestamp_pb2 import Timestamp

_PAGE_SIZE = 500


class HistoryClient(GrpcClient):
    """One connection to a server for its history."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._stub = history_pb2_grpc.HistoryServiceStub(self._channel)

    def changes(
        self, request: history_pb2.ListChangesRequest
    ) -> Iterator[history_pb2.HistoryChange]:
        """Yield the changes that a request selects, the newest first, fetching pages as needed."""
        asked = history_pb2.ListChangesRequest()
        asked.CopyFrom(request)
        asked.page_size = asked.page_size or _PAGE_SIZE
        while True:
            page, _ = self._call("ListChanges", self._stub.ListChanges, asked)
            yield from page.changes
            asked.page_token = page.next_page_token
            if not asked.page_token:
                return

    def last_id(self) -> int:
        """Return the id of the newest change that the caller may see; 0 for none."""
        newest = self.changes(history_pb2.ListChangesRequest(page_size=1))
        return next((change.id for change in newest), 0)

    def cluster_at(self, name: str, when: datetime) -> Snapshot:
        """Return what a cluster served at a time; a time in the future means now.

        Raises:
            CallRefused: There is no history, or none of the cluster at that time.
            UnexpectedDocument: The answer cannot be read.
        """
        request = history_pb2.GetAtRequest(cluster=name, time=timestamp(when))
        found, _ = self._call("GetAt", self._stub.GetAt, request)
        now = datetime.now(UTC)
        try:
            groups = tuple(
                aggregated_group(group, now)
                for document in (found.core, found.groups)
                for group in document.items
            )
        except UnreadableError as error:
            raise UnexpectedDocument(str(error), url=self._server.address, method="GetAt") from None
        known = {"/api": found.HasField("core"), "/apis": found.HasField("groups")}
        failures = {path: "it was not known" for path, is_known in known.items() if not is_known}
        is_current = found.state == discovery_pb2.SOURCE_STATE_CURRENT
        freshness = CURRENT if is_current else Stale(now, "the cluster did not answer")
        return Snapshot(groups, name, now, failures=failures, freshness=freshness)

    def watch(
        self, request: history_pb2.WatchChangesRequest
    ) -> Iterator[history_pb2.WatchChangesResponse]:
        """Yield new changes and heartbeats until the server ends the watch."""
        try:
            yield from self._stub.WatchChanges(request, metadata=self._metadata)
        except grpc.RpcError as error:
            raise self._error("WatchChanges", error) from None

    def openapi(self, change: int, side: history_pb2.HistorySide.ValueType) -> bytes:
        """Return the OpenAPI document on one side of a change; empty where there is none."""
        request = history_pb2.GetOpenAPIChangeRequest(change_id=change, side=side)
        try:
            parts = self._stub.GetOpenAPIChange(
                request, metadata=self._metadata, timeout=self.request_timeout_s
            )
            return b"".join(part.part for part in parts)
        except grpc.RpcError as error:
            raise self._error("GetOpenAPIChange", error) from None


def timestamp(when: datetime | None) -> Timestamp | None:
    """Return a time as a message; None for None."""
    if when is None:
        return None
    message = Timestamp()
    message.FromDatetime(when)
    return message
