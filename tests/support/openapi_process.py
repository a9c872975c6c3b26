"""A real server with OpenAPI documents: requests over HTTP, registrations over gRPC."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import grpc
from apidiscovery.service.v1 import registry_pb2
from apidiscovery.service.v1.registry_pb2_grpc import RegistryServiceStub
from crd_manifests import CRONTABS, edited
from raw_http import RawResponse, get
from server import Server
from waiting import WITHIN_S

INDEX = "/openapi/v3"
PROTOBUF = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"


# Reading.


def index(server: Server) -> dict[str, str]:
    """Return the hash of each document by key, from the index."""
    paths = cast("dict[str, dict[str, str]]", get(server.http_port, INDEX).json()["paths"])
    return {
        key: entry["serverRelativeURL"].removeprefix(f"{INDEX}/{key}?hash=")
        for key, entry in paths.items()
    }


def document(server: Server, key: str, accept: str | None = None) -> RawResponse:
    """Return a document by its hash in the present index."""
    return get(server.http_port, f"{INDEX}/{key}?hash={index(server)[key]}", accept)


def is_not_found(server: Server, key: str) -> bool:
    answer = get(server.http_port, f"{INDEX}/{key}")
    return key not in index(server) and answer.status == 404


def groups(server: Server) -> set[str]:
    """Return the groups of a server, without the suffix `.example.com`."""
    items = cast("list[dict[str, str]]", get(server.http_port, "/apis").json()["groups"])
    return {item["name"].removesuffix(".example.com") for item in items}


# Registering.


@contextmanager
def registry(server: Server) -> Generator[RegistryServiceStub]:
    with grpc.insecure_channel(server.grpc) as channel:
        yield RegistryServiceStub(channel)


def describing(group: str, text: str = "A thing.") -> dict[str, Any]:
    """Return the document of a group-version with one kind, which kubectl can explain."""
    gvk = {"group": group, "kind": "Thing", "version": "v1"}
    kind = {
        "type": "object",
        "description": text,
        "properties": {"size": {"type": "integer", "description": "How large <it> is."}},
        "x-kubernetes-group-version-kind": [gvk],
    }
    listing = {
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "list",
        "x-kubernetes-group-version-kind": gvk,
    }
    return {
        "openapi": "3.0.0",
        "info": {"title": group, "version": "v1"},
        "paths": {f"/apis/{group}/v1/things": {"get": listing}},
        "components": {"schemas": {"com.example.Thing": kind}},
    }


def canonical(value: Mapping[str, Any]) -> bytes:
    """Return a document as Kubernetes writes it: compact, with the escapes of Go."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").encode()


def publication(group: str, *documents: Mapping[str, Any]) -> registry_pb2.PublishRequest:
    """Return the request to publish a group of one version, with or without its document."""
    request = registry_pb2.PublishRequest(name=group.partition(".")[0])
    published = request.groups.groups.add()
    published.group.metadata.name = group
    version = published.group.versions.add(version="v1", freshness="Current")
    resource = version.resources.add(
        resource="things", singular_resource="thing", scope="Cluster", verbs=["get", "list"]
    )
    resource.response_kind.kind = "Thing"
    for one in documents:
        published.openapi_v3["v1"] = json.dumps(one, indent=1).encode()
    return request


def publish(server: Server, group: str, *documents: Mapping[str, Any]) -> str:
    """Publish a group; return the key of its document."""
    with registry(server) as stub:
        stub.Publish(publication(group, *documents), timeout=WITHIN_S)
    return f"apis/{group}/v1"


def apply(server: Server, *definitions: Mapping[str, Any]) -> None:
    manifests = [
        registry_pb2.ApplyRequest.Manifest(content=json.dumps(one).encode()) for one in definitions
    ]
    with registry(server) as stub:
        stub.Apply(registry_pb2.ApplyRequest(manifests=manifests), timeout=WITHIN_S)


def withdraw(server: Server, kind: registry_pb2.RegistrationKind.ValueType, name: str) -> None:
    reference = registry_pb2.RegistrationReference(kind=kind, name=name)
    with registry(server) as stub:
        stub.Withdraw(registry_pb2.WithdrawRequest(registrations=[reference]), timeout=WITHIN_S)


def crontabs(group: str, text: str = "") -> dict[str, Any]:
    """Return the definition of CronTabs in a group, with a description of its v1."""
    moved = edited(CRONTABS, "spec.group", group)
    moved = edited(moved, "metadata.name", f"crontabs.{group}")
    separate = cast("dict[str, Any]", json.loads(json.dumps(moved)))
    schema = {"type": "object", "description": text}
    return edited(separate, "spec.versions[0].schema.openAPIV3Schema", schema)
