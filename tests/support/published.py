"""Groups published to a server that is a process of its own, and what it then serves."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

import grpc
from apidiscovery.service.v1 import registry_pb2
from apidiscovery.service.v1.registry_pb2_grpc import RegistryServiceStub
from raw_http import get
from server import Server


@contextmanager
def registry(address: str) -> Generator[RegistryServiceStub]:
    """Connect to the registry of a server."""
    with grpc.insecure_channel(address) as channel:
        yield RegistryServiceStub(channel)


def publish(stub: RegistryServiceStub, name: str) -> None:
    """Publish the group NAME.example.com."""
    request = registry_pb2.PublishRequest(name=name)
    published = request.groups.groups.add()
    published.group.metadata.name = f"{name}.example.com"
    published.group.versions.add(version="v1", freshness="Current")
    stub.Publish(request, timeout=15)


def publish_to(server: Server, name: str) -> None:
    """Publish a group to a server."""
    with registry(server.grpc) as stub:
        publish(stub, name)


def groups(server: Server) -> set[str]:
    """Return the names before `.example.com` of the groups that a server has."""
    items = cast("list[dict[str, str]]", get(server.http_port, "/apis").json()["groups"])
    return {item["name"].removesuffix(".example.com") for item in items}
