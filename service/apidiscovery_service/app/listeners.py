"""The listeners of HTTP and gRPC, with TLS, authentication and limits in front of them."""

import asyncio
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from urllib.parse import quote

from grpc.aio import ServerInterceptor

from apidiscovery_service.access.authenticator import Access, OpenAccess, Peers
from apidiscovery_service.app.settings import Address, Security
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.serving.front import (
    Certificates,
    Front,
    FrontMetrics,
    TokenFile,
    follow,
)
from apidiscovery_service.serving.grpc import AdmissionInterceptor, GrpcServer
from apidiscovery_service.serving.http import HttpServer
from apidiscovery_service.serving.http.messages import Application


class SecureServing:
    """TLS, authentication and authorization, by the settings.

    Attributes:
        access: Authentication and authorization.
        peers: Where fronts register the clients of their connections.
    """

    def __init__(self, security: Security, metrics: Metrics) -> None:
        """Read the files of the settings.

        Raises:
            InvalidConfiguration: A file cannot be used.
        """
        self._limits, self._counts = security.limits, FrontMetrics()
        metrics.register(self._counts)
        self.peers = Peers()
        self._tokens: TokenFile | None = None
        self._certificates: Certificates | None = None
        self.access: Access = OpenAccess()
        if security.token_auth_file:
            self._tokens = TokenFile(security.token_auth_file, metrics=self._counts)
        if security.identifies:
            tokens = self._tokens.value if self._tokens else None
            self.access = Access(security.grants, tokens, self.peers, self._limits)
            if self._tokens:
                self._tokens.use = self.access.use_tokens
        if security.tls_cert_file and security.tls_private_key_file:
            self._certificates = Certificates(
                security.tls_cert_file,
                security.tls_private_key_file,
                security.client_ca_file,
                self._counts,
            )

    def front(self, name: str, address: Address) -> Front | None:
        """Listen, if a front is needed: for TLS, and for addresses that other machines can reach.

        Plain text on a loopback address needs none: all clients have one address, so limits by
        address would treat them as one, and relaying bytes halves the rate of answers.

        Raises:
            OSError: The address cannot be listened on.
        """
        if self._certificates is None and address.is_loopback:
            return None
        return Front(
            name,
            address.host,
            address.port,
            certificates=self._certificates,
            peers=self.peers,
            limits=self._limits,
            metrics=self._counts,
        )

    def interceptors(
        self, metrics: Metrics, *, limits_rate: bool = True
    ) -> Sequence[ServerInterceptor]:
        """Return the interceptors of calls.

        Args:
            metrics: Counts calls that are refused.
            limits_rate: Whether the rate of calls is limited; False where HTTP limits it.
        """
        if not self.access.identifies:
            return []
        return [AdmissionInterceptor(self.access, metrics, limits_rate=limits_rate)]

    def warnings(self) -> list[str]:
        """Return a line for each file that cannot be used as it is now."""
        return [text for file in self._files() for text in file.warnings()]

    async def follow(self) -> None:
        """Read files again when they change, until cancelled."""
        if files := self._files():
            await follow(*files)
        else:
            await asyncio.Event().wait()

    def _files(self) -> list[Certificates | TokenFile]:
        return [file for file in (self._certificates, self._tokens) if file]


class HttpListener:
    """HTTP on an address, until it is stopped."""

    def __init__(self, address: Address, application: Application, security: SecureServing) -> None:
        """Listen.

        Raises:
            OSError: The address cannot be listened on.
        """
        with _naming_flag("--http"):
            self._front = security.front("http", address)
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
        """Announce the end to clients, and answer them until they use another server."""
        self._server.announce_end()

    async def stop(self, grace_s: float) -> None:
        """Take no more connections, and give requests `grace_s` to end."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))


class GrpcListener:
    """gRPC on an address, until it is stopped."""

    def __init__(self, address: Address, server: GrpcServer, security: SecureServing) -> None:
        """Listen if there is a front; otherwise `start` does.

        Raises:
            OSError: The address cannot be listened on.
        """
        with _naming_flag("--grpc"):
            self._front = security.front("grpc", address)
        self._server = server
        self._serving: asyncio.Task[None] | None = None
        self.address = address

    async def start(self) -> None:
        """Serve, without being ready yet.

        Raises:
            OSError: The address cannot be listened on.
        """
        if self._front is None:
            with _naming_flag("--grpc"):
                port = await self._server.start(str(self.address))
        else:
            await self._server.start(f"unix:{quote(str(self._front.server_path))}")
            self._serving = asyncio.create_task(self._front.serve())
            port = self._front.port
        self.address = Address(self.address.host, port)

    async def set_ready(self) -> None:
        """Report by the health service that calls are answered."""
        await self._server.set_ready()

    async def announce_end(self) -> None:
        """Announce the end to clients, and answer them until they use another server."""
        await self._server.announce_end()

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, and give those under way `grace_s` to end."""
        await asyncio.gather(self._server.stop(grace_s), _stopped(self._front, grace_s))
        if self._serving is not None:
            await self._serving


@contextmanager
def _naming_flag(flag: str) -> Generator[None]:
    """Add the flag for another address to the error of one that cannot be listened on."""
    try:
        yield
    except OSError as error:
        hint = f"choose another address with {flag} HOST:PORT (port 0 for a free one)"
        raise OSError(f"{error}; {hint}") from error


async def _stopped(front: Front | None, grace_s: float) -> None:
    if front is not None:
        await front.stop(grace_s)
