"""Frames of watch events."""

import pytest
from apidiscovery.meta.v1 import watch_pb2
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML
from apidiscovery_service.kube.objects.decoding import decode
from apidiscovery_service.kube.objects.encoding import encode
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.kube.objects.watch_events import EventType, bookmark, frame
from kube_samples import made


def test_an_event_in_json_is_one_line() -> None:
    body = encode(made(LEASE, metadata={"name": "a<b"}), LEASE, JSON)

    assert frame(EventType.ADDED, body, JSON) == (
        b'{"type":"ADDED","object":{"kind":"Lease","apiVersion":"coordination.k8s.io/v1",'
        b'"metadata":{"name":"a\\u003cb"},"spec":{}}}\n'
    )


@pytest.mark.parametrize("length", [1, 200, 70_000])
def test_an_event_in_protobuf_has_its_length_before_it(length: int) -> None:
    body = encode(made(LEASE, metadata={"name": "n" * length}), LEASE, PROTOBUF)

    framed = frame(EventType.DELETED, body, PROTOBUF)

    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    event = watch_pb2.WatchEvent.FromString(framed[4:])
    assert event.type == "DELETED"
    assert event.object.raw == body


def test_yaml_does_not_stream() -> None:
    with pytest.raises(ValueError, match="application/yaml does not stream"):
        frame(EventType.ADDED, b"kind: Lease\n", YAML)


def test_a_bookmark_has_its_revision_and_nothing_else() -> None:
    assert encode(bookmark(STORAGE_VERSION, "7"), STORAGE_VERSION, JSON) == (
        b'{"kind":"StorageVersion","apiVersion":"internal.apiserver.k8s.io/v1alpha1",'
        b'"metadata":{"resourceVersion":"7"},"spec":{},"status":{}}\n'
    )


def test_the_bookmark_after_the_initial_events_is_marked() -> None:
    body = encode(bookmark(LEASE, "7", initial_events_end=True), LEASE, PROTOBUF)

    assert decode(body, PROTOBUF, LEASE).object["metadata"] == {
        "resourceVersion": "7",
        "annotations": {"k8s.io/initial-events-end": "true"},
    }
