"""Kubernetes objects: its own samples, and objects with a few fields."""

from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Serializer
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.decoding import from_value
from apidiscovery_service.kube.objects.kinds import Object, ObjectKind
from repository import GOLDEN

RELEASES = ("HEAD", "v1.33.0", "v1.35.0")
SUFFIXES = {JSON: "json", YAML: "yaml", PROTOBUF: "pb"}

_GOLDEN = GOLDEN / "kubernetes-wire"


def sample(release: str, kind: ObjectKind, serializer: Serializer) -> bytes:
    """Return Kubernetes' sample of a kind; its JSON is pretty."""
    name = f"{kind.group}.{kind.version}.{kind.kind}.{SUFFIXES[serializer]}"
    return (_GOLDEN / release / name).read_bytes()


def made(kind: ObjectKind, **fields: JSONValue) -> Object:
    """Return an object with these fields."""
    return from_value(fields, kind).object
