"""Objects from their protobuf messages, in the JSON form that Kubernetes gives them.

Source of what is left out: k8s.io/apimachinery pkg/apis/meta/v1/types.go and time.go, k8s.io/api
coordination/v1/types.go and apiserverinternal/v1alpha1/types.go.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import cast

from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery.meta.v1 import meta_pb2
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# What Kubernetes writes although it is nothing.
_NULLABLE = "lastTransitionTime"


def storage_version_json(found: storageversion_pb2.StorageVersion) -> dict[str, object]:
    """Return a StorageVersion with its apiVersion and kind."""
    return {
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "kind": "StorageVersion",
        # Written whether they are sent or not, as Kubernetes does.
        "metadata": {},
        "spec": {},
        "status": {},
        **dict(_fields(found)),
    }


def lease_json(found: lease_pb2.Lease) -> dict[str, object]:
    """Return a Lease with its apiVersion and kind."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {},
        "spec": {},
        **dict(_fields(found)),
    }


def rfc3339(time: meta_pb2.Time | meta_pb2.MicroTime) -> str | None:
    """Return a time as Kubernetes writes it; None for one that is not set.

    A Time is to the second, a MicroTime to the microsecond. Beyond the years 1 to 9999, which a
    server does not send that is well, it is not set either.
    """
    if not time.HasField("seconds"):
        return None
    try:
        moment = _EPOCH + timedelta(seconds=time.seconds, microseconds=time.nanos // 1000)
    except OverflowError:
        return None
    text = moment.strftime("%Y-%m-%dT%H:%M:%S")
    micros = f".{moment.microsecond:06d}" if isinstance(time, meta_pb2.MicroTime) else ""
    return f"{text.zfill(19)}{micros}Z"


def _fields(message: Message) -> Iterator[tuple[str, object]]:
    for field, value in message.ListFields():
        written = _written(field, value)
        name = field.json_name
        if name == _NULLABLE or not (written is None or written == ""):
            yield name, written


def _written(field: FieldDescriptor, value: object) -> object:
    if field.message_type and field.message_type.GetOptions().map_entry:
        entries = cast("Mapping[str, str]", value)
        return {key: entries[key] for key in sorted(entries)}
    if field.is_repeated:
        return [_single(each) for each in cast("Sequence[object]", value)]
    # An int64 of these kinds is no pointer, so that zero is as good as nothing.
    if field.type == FieldDescriptor.TYPE_INT64 and value == 0:
        return None
    return _single(value)


def _single(value: object) -> object:
    match value:
        case meta_pb2.Time() | meta_pb2.MicroTime():
            return rfc3339(value)
        case meta_pb2.FieldsV1():
            return _json(value.raw)
        case Message():
            return dict(_fields(value))
        case _:
            return value


def _json(raw: bytes) -> object:
    try:
        parsed: object = json.loads(raw)
    except ValueError:
        return None
    return parsed
