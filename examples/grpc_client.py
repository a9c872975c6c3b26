"""Discovery over gRPC with the grpcio stubs: conditional, by delta, and watched.

Run `make run` first, then this.
"""

import asyncio
import sys

import grpc.aio
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc


async def main(target: str = "127.0.0.1:50051") -> None:
    # A message may be larger than the 4 MB that grpcio takes by default.
    options = [("grpc.max_receive_message_length", 64 * 1024 * 1024)]
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
        first = await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest())
        print(len(first.v2.groups.items), "groups,", first.etag[:12])

        again = discovery_pb2.GetDiscoveryRequest(if_none_match=first.etag)
        print((await stub.GetDiscovery(again)).WhichOneof("result"))

        known = {group.name: group.hash for group in first.group_hashes if group.name != "apps"}
        held = discovery_pb2.KnownGroups(hashes=known)
        request = discovery_pb2.GetDiscoveryRequest(known_groups=held)
        delta = (await stub.GetDiscovery(request)).delta
        print("changed:", [(group.name, group.position) for group in delta.changed])

        known["gone.example.com"] = "what it was"
        held = discovery_pb2.KnownGroups(hashes=known)
        watch = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest(known_groups=held))
        async for message in watch:
            print(
                "changes:", len(message.changes.delta.changed), list(message.changes.delta.removed)
            )
            break


asyncio.run(main(*sys.argv[1:]))
