"""DiscoveryService in this process, behind a gateway for Connect and gRPC-Web."""

import struct
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
from apidiscovery_service.core.model import Contribution
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.connect.calls import ConnectCalls
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.grpc import DiscoveryService
from apidiscovery_service.serving.grpc.calls import Service
from apidiscovery_service.serving.grpc.openapi import OpenAPIService
from apidiscovery_service.serving.grpc.unread import UnreadInterceptor
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, HttpServer, Site
from apidiscovery_service.serving.http.cross_origin import CrossOrigin
from apidiscovery_service.serving.http.messages import Application
from apidiscovery_service.serving.unread import UnreadBudget
from apidiscovery_service.sources.catalog import kubernetes_catalog
from http_server import running
from metrics_text import Scraped
from openapi_recipes import APPS_DOCUMENT, APPS_KEY, FakeRecipes
from waiting import WITHIN_S

DISCOVERY = "/apidiscovery.service.v1.DiscoveryService"
GET = f"{DISCOVERY}/GetDiscovery"
WATCH = f"{DISCOVERY}/WatchDiscovery"
DOCUMENT = "/apidiscovery.service.v1.OpenAPIService/GetDocument"

END, TRAILERS = 0x02, 0x80


@dataclass
class Connected(Scraped):
    """A running server and its parts.

    Attributes:
        http: A client of the server.
        ready: Whether the service says that its sources have been read.
    """

    registry: Registry
    metrics: Metrics
    unread: UnreadBudget
    service: DiscoveryService
    http: httpx2.AsyncClient = field(init=False)
    port: int = 0
    ready: bool = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def connected(
    *contributions: Contribution, origins: Sequence[str] = (), document: bytes = APPS_DOCUMENT
) -> AsyncGenerator[Connected]:
    """Serve contributions, or the built-in catalogue, and one document."""
    registry, metrics, unread = Registry(), Metrics(), UnreadBudget()
    for contribution in contributions or (kubernetes_catalog(),):
        registry.publish(contribution)
    encoding = CurrentEncoding(registry)
    discovery = DiscoveryService(
        registry, encoding, FeatureGates(), metrics, ready=lambda: served.ready
    )
    served = Connected(registry, metrics, unread, discovery)
    documents = Documents(FakeRecipes({"apps": {APPS_KEY: document}}))
    services: list[Service] = [discovery, OpenAPIService(documents, metrics)]
    calls = ConnectCalls(services, [UnreadInterceptor(unread)], metrics)
    gateway: Application = Gateway(encoding, Site(Checks(), metrics), unread=unread, calls=calls)
    server = HttpServer(CrossOrigin(gateway, origins) if origins else gateway, "127.0.0.1")
    served.port = server.port
    async with (
        running(server, grace_s=0.2),
        httpx2.AsyncClient(base_url=served.url, trust_env=False, timeout=WITHIN_S) as served.http,
    ):
        try:
            yield served
        finally:
            await discovery.streams.end()


def enveloped(message: bytes = b"", flags: int = 0) -> bytes:
    """Return a message in an envelope."""
    return struct.pack(">BI", flags, len(message)) + message


def envelopes(body: bytes) -> list[tuple[int, bytes]]:
    """Return flags and message of each envelope; the last one must be complete."""
    found: list[tuple[int, bytes]] = []
    while body:
        flags, size = struct.unpack_from(">BI", body)
        found.append((flags, body[5 : 5 + size]))
        assert len(found[-1][1]) == size
        body = body[5 + size :]
    return found


async def arriving(answer: httpx2.Response) -> AsyncIterator[tuple[int, bytes]]:
    """Yield the flags and messages of a stream as they arrive."""
    kept = b""
    async for piece in answer.aiter_bytes():
        kept += piece
        while len(kept) >= 5:
            size = int.from_bytes(kept[1:5], "big")
            if len(kept) < 5 + size:
                break
            yield kept[0], kept[5 : 5 + size]
            kept = kept[5 + size :]
    assert not kept
