"""Asks DiscoveryService with the stubs of grpcio, for asyncio."""

from typing import cast

import grpc.aio
from apidiscovery.service.v1 import discovery_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcServer, require_grpcio_credentials
from apidiscovery_client.transports import _protobuf_messages
from apidiscovery_client.transports._aio_calls import AioCalls
from apidiscovery_client.transports._async_discovery import AsyncDiscovery
from apidiscovery_client.transports._grpc_common import CountingChannel, Stub
from apidiscovery_client.transports._grpc_watching import WATCH, Patience


class AsyncGrpcTransport(AsyncDiscovery):
    """An `AsyncTransport`, for the event loop in which it is first used.

    Args:
        server: The server.
        heartbeat_s: The interval of heartbeats in a watch; after twice that the connection counts
            as dead. Our servers accept 1 to 3600.
        unreachable_s: How long a server may be unreachable in a watch before it is stale.

    Raises:
        InvalidConfiguration: The server has a `context` for grpclib, and no credentials of grpcio.
    """

    def __init__(
        self, server: GrpcServer, *, heartbeat_s: float = 30.0, unreachable_s: float = 30.0
    ) -> None:
        require_grpcio_credentials(server)
        patience = Patience(heartbeat_s, unreachable_s)
        super().__init__(
            server,
            _protobuf_messages.MESSAGES,
            lambda traffic: AioCalls(server, traffic, _stub, WATCH),
            patience,
        )


def _stub(channel: CountingChannel) -> Stub:
    # The stub asks for no more of a channel than this one has.
    return discovery_pb2_grpc.DiscoveryServiceStub(cast("grpc.aio.Channel", channel))
