"""Asks DiscoveryService with the stubs of grpcio, blocking."""

from typing import cast

import grpc
from apidiscovery.service.v1 import discovery_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports import _protobuf_messages
from apidiscovery_client.transports._discovery import Discovery
from apidiscovery_client.transports._grpc_common import CountingChannel
from apidiscovery_client.transports._grpc_watching import Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls, Stub


class GrpcTransport(Discovery):
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
            _protobuf_messages,
            lambda traffic: GrpcioCalls(server, traffic, _stub, patience),
            patience,
        )


def _stub(channel: CountingChannel) -> Stub:
    # The stub asks for no more of a channel than this one has.
    return cast("Stub", discovery_pb2_grpc.DiscoveryServiceStub(cast("grpc.Channel", channel)))
