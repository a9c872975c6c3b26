"""lightkube, with classes for whatever the server serves.

Run `make run` first, then this.
"""

import sys

from apidiscovery_client import DiscoveryClient, DiscoveryError
from apidiscovery_client.adapters.lightkube import load_generic_resources, resource
from lightkube.core.resource import api_info


def main(url: str = "http://127.0.0.1:8080") -> None:
    with DiscoveryClient(url) as discovery:
        # What lightkube has no class for, so that codecs.load_all_yaml can read it.
        for made in load_generic_resources(discovery):
            print(api_info(made).resource.api_version, made.__name__, api_info(made).verbs)
        for name in ("deploy", "deployments/scale", "no"):
            print(name, resource(name, discovery).__name__)
        print(discovery.traffic.requests, "requests")


try:
    main(*sys.argv[1:])
except DiscoveryError as error:
    sys.exit(f"error: {error}")
