"""What listens: HTTP and gRPC, each with TLS in front where that is wanted."""

import asyncio
from dataclasses import dataclass

from apidiscovery_service.access.limits import Limits
from apidiscovery_service.access.peers import Peers
from apidiscovery_service.app.settings import Address
from apidiscovery_service.grpc_api import GrpcServer
from apidiscovery_service.http_gateway import HttpServer
from apidiscovery_service.http_gateway.asgi import Application
from apidiscovery_service.tls_front import Certificates, FrontMetrics, TlsFront

_BACKEND = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Tls:
    """What TLS is served with.

    Attributes:
        peers: Where the fronts note whose connections they carry.
    """

    certificates: Certificates
    peers: Peers
    limits: Limits
    metrics: FrontMetrics

    def front(self, name: str, address: Address) -> TlsFront:
        """Listen with TLS; raise OSError when the address cannot be listened on."""
        return TlsFront(
            name,
            address.host,
            address.port,
            certificates=self.certificates,
            peers=self.peers,
            limits=self.limits,
            metrics=self.metrics,
        )


class HttpListener:
    """HTTP on an address, until it is stopped."""

    def __init__(self, address: Address, application: Application, tls: Tls | None) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._front = tls.front("http", address) if tls else None
        host, port = (_BACKEND, 0) if tls else (address.host, address.port)
        self._server = HttpServer(application, host, port)
        own_port = self._front.port if self._front else self._server.port
        self.address = Address(address.host, own_port)

    async def serve(self) -> None:
        """Serve until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._server.serve())
            if self._front:
                tasks.create_task(self._front.serve(self._server.port))

    async def stop(self, grace_s: float) -> None:
        """Take no more connections and let requests end for a while."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))


class GrpcListener:
    """gRPC on an address, until it is stopped."""

    def __init__(self, address: Address, server: GrpcServer, tls: Tls | None) -> None:
        """Listen, with TLS; without it `start` does.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._front = tls.front("grpc", address) if tls else None
        self._server = server
        self._serving: asyncio.Task[None] | None = None
        self.address = address

    async def start(self) -> None:
        """Serve from now on, without being ready.

        Raises:
            OSError: The address cannot be listened on.
        """
        if self._front is None:
            port = await self._server.start(str(self.address))
        else:
            backend = await self._server.start(f"{_BACKEND}:0")
            self._serving = asyncio.create_task(self._front.serve(backend))
            port = self._front.port
        self.address = Address(self.address.host, port)

    async def set_ready(self) -> None:
        """Say by the health service that calls are answered."""
        await self._server.set_ready()

    async def stop(self, grace_s: float) -> None:
        """Take no more calls and let those under way end for a while."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))
        if self._serving is not None:
            await self._serving


async def _stopped(front: TlsFront | None, grace_s: float) -> None:
    if front is not None:
        await front.stop(grace_s)
