"""The blocking form of `async_grpc`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Callable
from typing import cast

from apidiscovery.service.v1 import discovery_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports._discovery import Discovery
from apidiscovery_client.transports._grpc_common import CountingChannel, Stub
from apidiscovery_client.transports._grpc_watching import WATCH, Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls
from apidiscovery_client.transports._protobuf_messages import MESSAGES

# The stub needs no more of a channel than a `CountingChannel` has.
_stub = cast("Callable[[CountingChannel], Stub]", discovery_pb2_grpc.DiscoveryServiceStub)


class GrpcTransport(Discovery):
    """Implements `Transport`, or `AsyncTransport` for the event loop in which it is first used.

    Threads may share a `GrpcTransport`.

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
        patience = Patience(heartbeat_s, unreachable_s)
        super().__init__(
            server,
            MESSAGES,
            lambda traffic: GrpcioCalls(server, traffic, _stub, WATCH, patience),
            patience,
        )
