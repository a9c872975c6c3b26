"""What a server serves, for asyncio: over gRPC, with names resolved and changes pushed.

Run `make run` first, then this; another target may be named, such as `https://...`, or `-` for the
server that kubectl would ask.
"""

import asyncio
import sys
from contextlib import aclosing

from apidiscovery_client import AsyncDiscoveryClient, DiscoveryError, NotServed


async def main(target: str = "grpc://127.0.0.1:50051") -> None:
    async with AsyncDiscoveryClient(None if target == "-" else target) as client:
        snapshot = await client.snapshot()
        resources = sum(1 for _ in snapshot.resources)
        print(f"{snapshot.server}: {len(snapshot.groups)} groups, {resources} resources")

        # All at once: they share one answer, and here need none.
        names = ("deploy", "deployments/scale", "Ingress.networking.k8s.io", "v1/pods")
        for found in await asyncio.gather(*map(client.resolve, names)):
            below = f"/{found.subresource.name}" if found.subresource else ""
            print(f"{found.resource.gv} {found.resource.name}{below}, {found.rule.value}")
        try:
            await client.resolve("deploymnets")
        except NotServed as error:
            print(error)

        # With `initial`, the first changes of a watch are what is served now.
        async with aclosing(client.watch(initial=True)) as changes:
            print(await anext(changes))
        print(client.traffic)


try:
    asyncio.run(main(*sys.argv[1:]))
except DiscoveryError as error:
    sys.exit(f"error: {error}")
