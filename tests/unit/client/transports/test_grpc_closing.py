"""A transport that is closed by one thread while another one begins to listen."""

import threading
from typing import cast

import grpc
from apidiscovery.service.v1 import discovery_pb2_grpc
from apidiscovery_client._grpc.calls import GrpcServer
from apidiscovery_client.transports import _protobuf_messages
from apidiscovery_client.transports._discovery import Discovery
from apidiscovery_client.transports._grpc_common import CountingChannel, Stub
from apidiscovery_client.transports._grpc_watching import WATCH, Patience
from apidiscovery_client.transports._grpcio_calls import GrpcioCalls
from programs import free_port


def test_closing_waits_for_a_stub_that_is_being_made() -> None:
    closing: list[threading.Thread] = []

    def stub(channel: CountingChannel) -> Stub:
        if made:  # not the first, which is that of the transport itself
            closing.append(threading.Thread(target=transport.close, daemon=True))
            closing[0].start()
            closing[0].join(0.2)
            assert closing[0].is_alive()
        # Which crashes the process if the channel is closed.
        whole = discovery_pb2_grpc.DiscoveryServiceStub(cast("grpc.Channel", channel))
        made.append(whole)
        return made[-1]

    made: list[Stub] = []
    server = GrpcServer(address=f"127.0.0.1:{free_port()}")
    patience = Patience(1.0, 1.0)
    transport = Discovery(
        server,
        _protobuf_messages.MESSAGES,
        lambda traffic: GrpcioCalls(server, traffic, stub, WATCH, patience),
        patience,
    )
    assert list(transport.listen(None)) == []
    closing[0].join(10)
    assert not closing[0].is_alive()
