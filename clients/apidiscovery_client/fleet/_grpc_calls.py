"""Calls of FleetService that block."""

from typing import cast

import grpc
from apidiscovery.service.v1 import fleet_pb2_grpc

from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client._interfaces import Traffic
from apidiscovery_client.fleet._wire import WATCH
from apidiscovery_client.transports._calling import Calls
from apidiscovery_client.transports._grpc_common import CountingChannel, Stub
from apidiscovery_client.transports._grpc_watching import Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls


def fleet_calls(server: GrpcServer, traffic: Traffic, patience: Patience) -> Calls:
    """Return what makes the calls; raise `InvalidConfiguration` for TLS settings of grpclib."""
    return GrpcioCalls(server, traffic, _stub, WATCH, patience)


def _stub(channel: CountingChannel) -> Stub:
    # The stub asks for no more of a channel than this one has.
    return fleet_pb2_grpc.FleetServiceStub(cast("grpc.Channel", channel))
