"""HistoryService in this process on a real loopback socket, and a history that is written."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc.aio
from apidiscovery.service.v1 import history_pb2_grpc
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import Retention
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.serving.grpc import GrpcServer
from apidiscovery_service.serving.grpc.history import HistoryService
from grpc_server import DEADLINE_S

Stub: TypeAlias = "history_pb2_grpc.HistoryServiceAsyncStub"


@dataclass
class Remembered:
    """A history behind a server.

    Attributes:
        documents: OpenAPI documents by cluster and path.
    """

    history: History
    stub: Stub
    documents: dict[str, dict[str, Recipe]] = field(default_factory=dict[str, dict[str, Recipe]])

    async def until_written(self, count: int) -> None:
        """Wait until there are so many changes."""
        async with asyncio.timeout(DEADLINE_S):
            while len(await self.history.changes(limit=10**6)) < count:  # noqa: ASYNC110 - a thread writes
                await asyncio.sleep(0.01)


@asynccontextmanager
async def remembered(path: Path | None = None) -> AsyncGenerator[Remembered]:
    """Serve a history that this process writes."""
    documents: dict[str, dict[str, Recipe]] = {}

    async def openapi_of(name: str) -> dict[str, Recipe]:
        return documents.get(name, {})

    history = await History.open(path, Retention(), lambda name: f"ETAG OF {name}", openapi_of)
    recording = asyncio.create_task(history.record())
    try:
        async with stub_of(history) as stub:
            yield Remembered(history, stub, documents)
    finally:
        recording.cancel()
        await asyncio.wait([recording])
        await history.close()


@asynccontextmanager
async def stub_of(history: History | None) -> AsyncGenerator[Stub]:
    """Serve a history, or none, and connect with grpcio's stub."""
    server = GrpcServer(HistoryService(history, Metrics()))
    port = await server.start("127.0.0.1:0")
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield history_pb2_grpc.HistoryServiceStub(channel)
    finally:
        await server.stop(0)
