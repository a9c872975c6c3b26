"""Calls of HistoryService: changes in pages, as they come, and the documents of one."""

from collections.abc import Iterator

import grpc
from apidiscovery.service.v1 import history_pb2, history_pb2_grpc
from apidiscovery_client._grpc.calls import GrpcClient, GrpcServer

_PAGE_SIZE = 500


class HistoryClient(GrpcClient):
    """One connection to a server for its history."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__(server)
        self._stub = history_pb2_grpc.HistoryServiceStub(self._channel)

    def changes(
        self, request: history_pb2.ListChangesRequest
    ) -> Iterator[history_pb2.HistoryChange]:
        """Yield what a request selects, the newest first; pages are asked for as they are read."""
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

    def watch(
        self, request: history_pb2.WatchChangesRequest
    ) -> Iterator[history_pb2.WatchChangesResponse]:
        """Yield changes as they come, and heartbeats, until the server ends the watch."""
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
