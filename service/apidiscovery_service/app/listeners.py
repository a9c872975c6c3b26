"""What listens: HTTP and gRPC, each behind a front where the front has something to do."""

import asyncio
from dataclasses import dataclass
from urllib.parse import quote

from apidiscovery_service.access.authenticator import Peers
from apidiscovery_service.access.limits import Limits
from apidiscovery_service.app.settings import Address
from apidiscovery_service.serving.front import Certificates, Front, FrontMetrics
from apidiscovery_service.serving.grpc import GrpcServer
from apidiscovery_service.serving.http import HttpServer
from apidiscovery_service.serving.http.messages import Application


@dataclass(frozen=True, slots=True)
class Fronts:
    """What fronts are made with.

    Attributes:
        certificates: What TLS is served with; None for plain text.
        peers: Where the fronts note whose connections they carry.
    """

    certificates: Certificates | None
    peers: Peers
    limits: Limits
    metrics: FrontMetrics

    def front(self, name: str, address: Address) -> Front | None:
        """Listen, where a front is needed: for TLS, and for what other machines can reach.

        Plain text on a loopback address needs none. All its clients have one address, so limits
        for each address would part nobody, and carrying bytes would halve the rate of answers.

        Raises:
            OSError: The address cannot be listened on.
        """
        if self.certificates is None and address.is_loopback:
            return None
        return Front(
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

    def __init__(self, address: Address, application: Application, fronts: Fronts) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._front = fronts.front("http", address)
        if self._front:
            self._server = HttpServer(application, self._front.server_path)
        else:
            self._server = HttpServer(application, address.host, address.port)
        own_port = self._front.port if self._front else self._server.port
        self.address = Address(address.host, own_port)

    async def serve(self) -> None:
        """Serve until `stop`."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._server.serve())
            if self._front:
                tasks.create_task(self._front.serve())

    async def announce_end(self) -> None:
        """Have clients go to another server, and answer them until they do."""
        self._server.announce_end()

    async def stop(self, grace_s: float) -> None:
        """Take no more connections and let requests end for a while."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))


class GrpcListener:
    """gRPC on an address, until it is stopped."""

    def __init__(self, address: Address, server: GrpcServer, fronts: Fronts) -> None:
        """Listen, where there is a front; without one `start` does.

        Raises:
            OSError: The address cannot be listened on.
        """
        self._front = fronts.front("grpc", address)
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
            await self._server.start(f"unix:{quote(str(self._front.server_path))}")
            self._serving = asyncio.create_task(self._front.serve())
            port = self._front.port
        self.address = Address(self.address.host, port)

    async def set_ready(self) -> None:
        """Say by the health service that calls are answered."""
        await self._server.set_ready()

    async def announce_end(self) -> None:
        """Have clients go to another server, and answer them until they do."""
        await self._server.announce_end()

    async def stop(self, grace_s: float) -> None:
        """Take no more calls and let those under way end for a while."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))
        if self._serving is not None:
            await self._serving


async def _stopped(front: Front | None, grace_s: float) -> None:
    if front is not None:
        await front.stop(grace_s)
