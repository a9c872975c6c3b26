"""Discovery by Connect, on the HTTP port, with the client of connectrpc and our messages.

Run `make run` first and `pip install connectrpc`, then this. `ProtocolType.GRPC_WEB` is the other
protocol that the port speaks.
"""

import asyncio
import sys

from apidiscovery.service.v1 import discovery_pb2
from connectrpc.client import ConnectClient
from connectrpc.compat import google_protobuf_binary_codec
from connectrpc.errors import ConnectError
from connectrpc.method import IdempotencyLevel, MethodInfo, StreamType
from connectrpc.protocol import ProtocolType

SERVICE = "apidiscovery.service.v1.DiscoveryService"
# What protoc-gen-connectrpc would write.
GET = MethodInfo(
    name="GetDiscovery",
    service_name=SERVICE,
    input=discovery_pb2.GetDiscoveryRequest,
    output=discovery_pb2.GetDiscoveryResponse,
    idempotency_level=IdempotencyLevel.NO_SIDE_EFFECTS,
    stream_type=StreamType.UNARY,
)
WATCH = MethodInfo(
    name="WatchDiscovery",
    service_name=SERVICE,
    input=discovery_pb2.WatchDiscoveryRequest,
    output=discovery_pb2.WatchDiscoveryResponse,
    idempotency_level=IdempotencyLevel.NO_SIDE_EFFECTS,
    stream_type=StreamType.SERVER_STREAM,
)


async def main(url: str = "http://127.0.0.1:8080") -> None:
    codec = google_protobuf_binary_codec()
    client = ConnectClient(url, codec=codec, protocol=ProtocolType.CONNECT)
    try:
        request = discovery_pb2.GetDiscoveryRequest()
        first = await client.execute_unary(request=request, method=GET, use_get=True)
        print(len(first.group_hashes), "groups,", first.etag[:12])

        known = {group.name: group.hash for group in first.group_hashes if group.name != "apps"}
        watch = discovery_pb2.WatchDiscoveryRequest(
            known_groups=discovery_pb2.KnownGroups(hashes=known)
        )
        # For three seconds; a real client goes on, and continues after an error.
        stream = client.execute_server_stream(request=watch, method=WATCH, timeout_ms=3000)
        try:
            async for message in stream:
                print("changed:", [group.name for group in message.changes.delta.changed])
        except ConnectError as error:
            print("ended:", error.code.value)
    finally:
        await client.close()
        # Without it, pyqwest may abort a process that ends just after a stream was cancelled.
        await asyncio.sleep(0.3)


asyncio.run(main(*sys.argv[1:]))
