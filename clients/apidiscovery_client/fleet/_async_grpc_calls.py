"""Calls of FleetService with asyncio."""

from typing import cast

import grpc.aio
from apidiscovery.service.v1 import fleet_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcServer, require_grpcio_credentials
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.fleet._wire import WATCH
from apidiscovery_client.transports._aio_calls import AioCalls
from apidiscovery_client.transports._async_calling import AsyncCalls
from apidiscovery_client.transports._grpc_common import CountingChannel, Stub
from apidiscovery_client.transports._grpc_watching import Patience


def fleet_calls(server: GrpcServer, traffic: Traffic, _patience: Patience) -> AsyncCalls:
    """Return what makes the calls; raise `InvalidConfiguration` for TLS settings of grpclib."""
    require_grpcio_credentials(server)
    return AioCalls(server, traffic, _stub, WATCH)


def _stub(channel: CountingChannel) -> Stub:
    # The stub asks for no more of a channel than this one has.
    return fleet_pb2_grpc.FleetServiceStub(cast("grpc.aio.Channel", channel))
