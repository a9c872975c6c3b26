"""Asks DiscoveryService with the messages of betterproto over a channel of grpcio, blocking."""

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports import _betterproto_messages
from apidiscovery_client.transports._discovery import Discovery
from apidiscovery_client.transports._grpc_watching import Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls


class BetterprotoTransport(Discovery):
    """A `Transport`; threads may share it.

    Args:
        server: Who is asked.
        heartbeat_s: The longest silence of the server while it is listened to; after twice that
            the connection is taken for dead. Servers of ours take 1 to 3600.
        unreachable_s: After how long a server that is away is told to be, while it is listened to.

    Raises:
        InvalidConfiguration: The server has a `context` for grpclib, and no credentials of grpcio.
    """

    def __init__(
        self, server: GrpcServer, *, heartbeat_s: float = 30.0, unreachable_s: float = 30.0
    ) -> None:
        patience = Patience(heartbeat_s, unreachable_s)
        super().__init__(
            server,
            _betterproto_messages,
            lambda traffic: GrpcioCalls(server, traffic, _betterproto_messages.SyncStub, patience),
            patience,
        )
