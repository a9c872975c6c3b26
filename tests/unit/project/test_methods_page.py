"""docs/reference/grpc.md lists every method, and how it is called over Connect."""

import re

from apidiscovery.service.v1 import (
    discovery_pb2,
    fleet_pb2,
    history_pb2,
    openapi_pb2,
    registry_pb2,
    storage_version_pb2,
)
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pb2 import MethodOptions
from repository import ROOT

FILES = (discovery_pb2, fleet_pb2, history_pb2, openapi_pb2, registry_pb2, storage_version_pb2)


def how(method: MethodDescriptor) -> str:
    if method.server_streaming:
        return "stream"
    level = method.GetOptions().idempotency_level
    return "GET" if level == MethodOptions.NO_SIDE_EFFECTS else "POST"


def test_every_method_is_listed_with_how_it_is_called() -> None:
    page = (ROOT / "docs" / "reference" / "grpc.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| (\w+Service) \| (\w+) \| (\w+) \| \S", page, re.MULTILINE)
    assert listed == [
        (service.name, method.name, how(method))
        for file in FILES
        for service in file.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    ]
