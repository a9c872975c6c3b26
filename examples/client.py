"""What a server serves, for a program that blocks: over HTTP, as any Kubernetes API server has it.

Run `make run` first, then this, with the URL of another server if you like.
"""

import sys

from apidiscovery_client import Current, DiscoveryClient, DiscoveryError


def main(target: str = "http://127.0.0.1:8080") -> None:
    with DiscoveryClient(target) as client:
        print([resource.gvr.group_resource for resource in client.category("all")])
        print(client.explain_resolution("hpa"))

        # A version whose server does not answer is not gone: its freshness says since when.
        for version in client.snapshot().versions:
            if not isinstance(version.freshness, Current):
                print(f"{version.gv} is old since {version.freshness.since}")

        client.refresh()  # asks now, and is answered by 304
        print(client.traffic)


try:
    main(*sys.argv[1:])
except DiscoveryError as error:
    sys.exit(f"error: {error}")
