"""The gRPC server: our services, standard health and reflection on one address."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from apidiscovery_service.serving.grpc.discovery import SERVICE, DiscoveryService

# A document of 20 MB with its hashes fits with room; requests carry a map of hashes at most.
MAX_SENT_BYTES = 64 * 1024 * 1024
MAX_RECEIVED_BYTES = 8 * 1024 * 1024

# Of all connections, streams included; a caller has `unread.CALLER_CALLS` of them at most.
_MAX_CALLS = 10_000
# Calls that have come and that Python has not taken yet. Beyond 1000 of them grpc ends new ones
# with CANCELLED by lot, beyond 3000 all, whoever calls: three connections are enough for that.
# Once they are taken they are counted, and told why if they are too many.
_MAX_PENDING = 2 * _MAX_CALLS

_OPTIONS = (
    ("grpc.max_send_message_length", MAX_SENT_BYTES),
    ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
    # Two servers on one port would share its connections at random.
    ("grpc.so_reuseport", 0),
    # Of one connection; a client with more to ask waits.
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.server.max_pending_requests", _MAX_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
    # A connection without calls ends; one with calls is asked whether its client is still there,
    # which also shows whatever lies between that it is not idle.
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may ask as well, but not without end.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class Service(Protocol):
    """A service beside DiscoveryService.

    Attributes:
        name: Its full name.
    """

    @property
    def name(self) -> str: ...

    def handler(self) -> grpc.GenericRpcHandler:
        """Return what registers the service with a server."""
        ...


class GrpcServer:
    """Serves DiscoveryService until stopped; not serving, by its health, until told.

    Args:
        discovery: Its watches are ended when the server stops.
        interceptors: Stand around every call.
        services: What is served beside it.
        ending: Called when the server stops, to end the streams of these services; returns when
            they have ended, or soon.
    """

    def __init__(
        self,
        discovery: DiscoveryService,
        interceptors: Sequence[grpc.aio.ServerInterceptor] = (),
        services: Sequence[Service] = (),
        ending: Sequence[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        self._discovery = discovery
        self._ending = ending
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(
            interceptors=interceptors, options=_OPTIONS, maximum_concurrent_rpcs=_MAX_CALLS
        )
        self._names = (SERVICE, *(service.name for service in services))
        handlers = (discovery.handler(), *(service.handler() for service in services))
        self._server.add_generic_rpc_handlers(handlers)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (
                *self._names,
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
                reflection.SERVICE_NAME,
            ),
            self._server,
        )

    async def start(self, address: str) -> int:
        """Listen on `host:port`, port 0 for any free one, or on `unix:PATH`; return the port.

        Raises:
            OSError: The address cannot be listened on.
        """
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {address} for gRPC: {error}") from error
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)
        await self._server.start()
        return port

    async def set_ready(self) -> None:
        """Say by the health service that calls are answered."""
        await self._set(health_pb2.HealthCheckResponse.SERVING)

    async def announce_end(self) -> None:
        """Say by the health service that the end is near; calls are answered still."""
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, end the watches, and give the rest of the calls `grace_s` to end."""
        await self.announce_end()
        # Before the connections are told to go away, which some clients take for the end at once.
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        await asyncio.gather(self._discovery.stop_watches(), *(each() for each in self._ending))
        await self._server.stop(max(0.0, end - loop.time()))

    async def _set(self, status: int) -> None:
        for service in ("", *self._names):
            await self._health.set(service, status)
