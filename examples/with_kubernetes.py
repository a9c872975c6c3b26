"""The official client's dynamic client, with discovery by this package.

Run `make run` first, then this. The package's own discoverer needs a request for each
group-version to find a kind; here it is two requests for all kinds.
"""

import sys
from typing import Any, cast

from apidiscovery_client import DiscoveryError
from apidiscovery_client.adapters.kubernetes import apidiscovery_discoverer
from kubernetes import client
from kubernetes.dynamic import DynamicClient
from kubernetes.dynamic.exceptions import ResourceNotFoundError
from urllib3.exceptions import HTTPError


def main(url: str = "http://127.0.0.1:8080") -> None:
    # With a kubeconfig: `config.new_client_from_config()`.
    api_client = cast("Any", client.ApiClient)(cast("Any", client.Configuration)(host=url))
    discoverer = apidiscovery_discoverer()
    dynamic = cast("Any", DynamicClient)(api_client, discoverer=discoverer)

    deployments = dynamic.resources.get(api_version="apps/v1", kind="Deployment")
    print(deployments.path(name="web", namespace="default"))
    print(dynamic.resources.resolve("hpa").group_version)
    try:
        dynamic.resources.get(kind="Depoyment")
    except ResourceNotFoundError as error:
        print(error)
    print(dynamic.resources.discovery.traffic.requests, "requests")


try:
    main(*sys.argv[1:])
except (DiscoveryError, HTTPError) as error:  # the second from the package, which is the one to ask
    sys.exit(f"error: {error}")
