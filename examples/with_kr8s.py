"""kr8s, with discovery by this package.

Run `make run` first, then this. kr8s warns of releases of Kubernetes that are newer than itself.
"""

import sys
from typing import Any

import httpx
import kr8s
from apidiscovery_client import DiscoveryError
from apidiscovery_client.adapters.kr8s import use


def main(url: str = "http://127.0.0.1:8080") -> None:
    api: Any = kr8s.api(url=url)  # its methods are typed in part
    discovery = use(api)

    for name in ("deploy", "hpa.autoscaling/v1", "ingress.networking.k8s.io"):
        print(name, *api.lookup_kind(name))
    try:
        api.lookup_kind("deploymnts")
    except ValueError as error:
        print(error)
    print(len(api.api_resources()), "resources,", discovery.traffic.requests, "requests")


try:
    main(*sys.argv[1:])
except (DiscoveryError, httpx.HTTPError) as error:  # the second from kr8s, which is the one to ask
    sys.exit(f"error: {error}")
