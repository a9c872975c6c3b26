"""The gRPC server: our services, standard health and reflection on one address."""

import asyncio
from collections.abc import Sequence

import grpc
import grpc.aio
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from apidiscovery_service.serving.grpc.calls import Service

# A document of 20 MB with its hashes fits; requests have a map of hashes at most.
MAX_SENT_BYTES = 64 * 1024 * 1024
MAX_RECEIVED_BYTES = 8 * 1024 * 1024

# Calls of all connections, streams included; a caller may have `unread.CALLER_CALLS` of them.
_MAX_CALLS = 10_000
# Calls that Python has not accepted yet. By default grpc ends new ones with CANCELLED at random
# beyond 1000 of them, and all beyond 3000, for every caller: three connections are enough for that.
# Accepted calls are counted, and refused with a reason if they are too many.
_MAX_PENDING = 2 * _MAX_CALLS

_OPTIONS = (
    ("grpc.max_send_message_length", MAX_SENT_BYTES),
    ("grpc.max_receive_message_length", MAX_RECEIVED_BYTES),
    # Otherwise two servers on one port would share its connections at random.
    ("grpc.so_reuseport", 0),
    # For one connection; further calls of the client wait.
    ("grpc.max_concurrent_streams", 1000),
    ("grpc.server.max_pending_requests", _MAX_PENDING),
    ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
    # A connection without calls is closed; one with calls gets pings, which find clients that have
    # gone and show proxies in between that the connection is not idle.
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Clients may send pings as well, at most every 10 s.
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class GrpcServer:
    """Serves services until stopped, with health and reflection; NOT_SERVING until `set_ready`.

    Args:
        *services: The services.
        interceptors: Wrap every call.
    """

    def __init__(
        self, *services: Service, interceptors: Sequence[grpc.aio.ServerInterceptor] = ()
    ) -> None:
        self._services = services
        self._health = health.aio.HealthServicer()
        self._server = grpc.aio.server(
            interceptors=interceptors, options=_OPTIONS, maximum_concurrent_rpcs=_MAX_CALLS
        )
        self._names = [service.name for service in services]
        self._server.add_generic_rpc_handlers(
            [
                grpc.method_handlers_generic_handler(service.name, service.methods())
                for service in services
            ]
        )
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        reflection.enable_server_reflection(
            (*self._names, health.SERVICE_NAME, reflection.SERVICE_NAME), self._server
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
        """Set the health status to SERVING."""
        await self._set(health_pb2.HealthCheckResponse.SERVING)

    async def announce_end(self) -> None:
        """Set the health status to NOT_SERVING; calls are still answered."""
        await self._set(health_pb2.HealthCheckResponse.NOT_SERVING)

    async def stop(self, grace_s: float) -> None:
        """Take no more calls, end the streams, and give other calls `grace_s` seconds to end."""
        await self.announce_end()
        # Before GOAWAY, which some clients take for the end of all calls.
        loop = asyncio.get_running_loop()
        end = loop.time() + grace_s
        await asyncio.gather(*(service.streams.end() for service in self._services))
        await self._server.stop(max(0.0, end - loop.time()))

    async def _set(self, status: int) -> None:
        for service in ("", *self._names):
            await self._health.set(service, status)
