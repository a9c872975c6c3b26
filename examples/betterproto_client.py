"""Discovery over gRPC with the betterproto stubs, on grpclib: conditional, by delta, and watched.

Run `make run` first, then this.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from typing import cast

import betterproto
from apidiscovery_betterproto.apidiscovery.service import v1
from grpclib.client import Channel


async def main(host: str, port: int) -> None:
    async with Channel(host, port) as channel:
        stub = v1.DiscoveryServiceStub(channel)
        first = await stub.get_discovery(v1.GetDiscoveryRequest())
        print(len(first.v2.groups.items), "groups,", first.etag[:12])

        again = await stub.get_discovery(v1.GetDiscoveryRequest(if_none_match=first.etag))
        print(betterproto.which_one_of(again, "result")[0])

        # For a delta from nothing: `KnownGroups(hashes={})`; betterproto drops `KnownGroups()`.
        known = {group.name: group.hash for group in first.group_hashes if group.name != "apps"}
        request = v1.GetDiscoveryRequest(known_groups=v1.KnownGroups(hashes=known))
        delta = (await stub.get_discovery(request)).delta
        print("changed:", [(group.name, group.position) for group in delta.changed])

        known["gone.example.com"] = "what it was"
        watch = v1.WatchDiscoveryRequest(
            known_groups=v1.KnownGroups(hashes=known), heartbeat_interval=timedelta(seconds=10)
        )
        # betterproto calls it an iterator; it is a generator, to be closed when left early.
        watching = cast("AsyncGenerator[v1.WatchDiscoveryResponse]", stub.watch_discovery(watch))
        async with aclosing(watching) as messages:
            async for message in messages:
                print("changes:", len(message.changes.delta.changed), message.changes.delta.removed)
                break


host, _, port = (sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:50051").rpartition(":")
asyncio.run(main(host, int(port)))
