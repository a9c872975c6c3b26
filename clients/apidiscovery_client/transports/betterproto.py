"""Asks DiscoveryService with the messages of betterproto over a channel of grpcio, blocking."""

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports import _betterproto_messages
from apidiscovery_client.transports._discovery import Discovery
from apidiscovery_client.transports._grpc_watching import WATCH, Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls


class BetterprotoTransport(Discovery):
    """A `Transport`; threads may share it.

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
            _betterproto_messages.MESSAGES,
            lambda traffic: GrpcioCalls(
                server, traffic, _betterproto_messages.SyncStub, WATCH, patience
            ),
            patience,
        )
