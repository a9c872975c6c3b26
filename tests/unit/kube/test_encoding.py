"""Encoding of objects and lists, byte for byte as Kubernetes does."""

from collections.abc import Mapping
from datetime import datetime

import pytest
from apidiscovery.coordination.v1 import lease_pb2
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Serializer
from apidiscovery_service.kube import go_json
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.decoding import decode
from apidiscovery_service.kube.objects.encoding import ListMeta, encode, encode_list, encode_value
from apidiscovery_service.kube.objects.kinds import (
    DELETE_OPTIONS,
    LEASE,
    PARTIAL_OBJECT_METADATA,
    PARTIAL_OBJECT_METADATA_V1BETA1,
    STORAGE_VERSION,
    ObjectKind,
)
from apidiscovery_service.kube.objects.metadata import partial
from decoded import unwrapped
from hypothesis import given
from hypothesis import strategies as st
from kube_samples import RELEASES, SUFFIXES, made, sample

SERIALIZERS = [pytest.param(one, id=suffix) for one, suffix in SUFFIXES.items()]
KINDS = [pytest.param(kind, id=kind.kind) for kind in (STORAGE_VERSION, LEASE)]


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("read", SERIALIZERS)
@pytest.mark.parametrize("written", SERIALIZERS)
def test_samples_of_kubernetes_come_out_byte_for_byte_in_every_form(
    release: str, kind: ObjectKind, read: Serializer, written: Serializer
) -> None:
    decoded = decode(sample(release, kind, read), read, kind)

    assert decoded.problems == ()
    assert sample(release, kind, written) == encode(decoded.object, kind, written, pretty=True)


@pytest.mark.parametrize("kind", KINDS)
def test_json_that_is_not_pretty_has_no_blanks_and_ends_with_a_line_feed(kind: ObjectKind) -> None:
    item = decode(sample("HEAD", kind, JSON), JSON, kind).object

    body = encode(item, kind, JSON)

    assert body.endswith(b"}\n")
    assert b" " not in body
    assert decode(body, JSON, kind).object == item


def test_an_object_without_anything_has_what_go_always_writes() -> None:
    item = made(STORAGE_VERSION)

    assert encode(item, STORAGE_VERSION, JSON) == (
        b'{"kind":"StorageVersion","apiVersion":"internal.apiserver.k8s.io/v1alpha1",'
        b'"metadata":{},"spec":{},"status":{}}\n'
    )
    no_metadata = bytes.fromhex("0a001200 1a002200 2a003200 38004200")
    body = b"\x0a\x10" + no_metadata + b"\x12\x00\x1a\x00"
    assert body in encode(item, STORAGE_VERSION, PROTOBUF)


def test_a_condition_without_a_time_has_null_in_json_and_nothing_in_protobuf() -> None:
    item = made(STORAGE_VERSION, status={"conditions": [{"type": "A", "message": "m"}]})

    assert (
        b'"conditions":[{"type":"A","status":"","lastTransitionTime":null,"reason":"",'
        b'"message":"m"}]' in encode(item, STORAGE_VERSION, JSON)
    )
    assert b"\x0a\x01A\x12\x00\x18\x00\x22\x00\x2a\x00\x32\x01m" in encode(
        item, STORAGE_VERSION, PROTOBUF
    )


def test_a_pointer_to_an_empty_value_is_written() -> None:
    item = made(LEASE, spec={"holderIdentity": "", "leaseTransitions": 0})

    assert b'"spec":{"holderIdentity":"","leaseTransitions":0}' in encode(item, LEASE, JSON)
    assert b"\x12\x04\x0a\x00\x28\x00" in encode(item, LEASE, PROTOBUF)


def test_keys_of_maps_are_sorted_wherever_they_come_from() -> None:
    item = made(LEASE, metadata={"labels": {"b": "2", "a": "1"}})

    assert b'"labels":{"a":"1","b":"2"}' in encode(item, LEASE, JSON)
    first, second = b"\x5a\x06\x0a\x01a\x12\x011", b"\x5a\x06\x0a\x01b\x12\x012"
    assert first + second in encode(item, LEASE, PROTOBUF)


def test_a_list_has_its_items_without_their_type() -> None:
    items = [made(STORAGE_VERSION, metadata={"name": name}) for name in ("core.pods", "a.b")]

    body = encode_list(STORAGE_VERSION, items, ListMeta("7", "next", 3), JSON)

    assert body == (
        b'{"kind":"StorageVersionList","apiVersion":"internal.apiserver.k8s.io/v1alpha1",'
        b'"metadata":{"resourceVersion":"7","continue":"next","remainingItemCount":3},'
        b'"items":[{"metadata":{"name":"core.pods"},"spec":{},"status":{}},'
        b'{"metadata":{"name":"a.b"},"spec":{},"status":{}}]}\n'
    )


def test_an_empty_list_says_so() -> None:
    body = encode_list(LEASE, [], ListMeta("7"), JSON, pretty=True)

    assert body == (
        b'{\n  "kind": "LeaseList",\n  "apiVersion": "coordination.k8s.io/v1",\n'
        b'  "metadata": {\n    "resourceVersion": "7"\n  },\n  "items": []\n}'
    )
    assert encode_list(LEASE, [], ListMeta("7"), YAML) == (
        b"apiVersion: coordination.k8s.io/v1\nitems: []\nkind: LeaseList\n"
        b'metadata:\n  resourceVersion: "7"\n'
    )


def test_a_list_in_protobuf_is_what_its_message_says() -> None:
    items = [made(LEASE, metadata={"name": name}) for name in ("a", "b")]

    body = encode_list(LEASE, items, ListMeta("7", "", 0), PROTOBUF)

    assert body.startswith(b"k8s\x00\x0a\x23\x0a\x16coordination.k8s.io/v1\x12\x09LeaseList\x12")
    message = lease_pb2.LeaseList.FromString(unwrapped(body).raw)
    assert [item.metadata.name for item in message.items] == ["a", "b"]
    assert message.metadata.resource_version == "7"
    assert message.metadata.HasField("remaining_item_count")
    assert body.endswith(b"\x1a\x00\x22\x00")


def test_metadata_alone_keeps_its_type_in_a_list() -> None:
    item = made(LEASE, metadata={"name": "a"}, spec={"holderIdentity": "h"})

    body = encode_list(PARTIAL_OBJECT_METADATA, [partial(item)], ListMeta("7"), JSON)

    assert body == (
        b'{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1",'
        b'"metadata":{"resourceVersion":"7"},"items":[{"kind":"PartialObjectMetadata",'
        b'"apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"}}]}\n'
    )


@pytest.mark.parametrize(
    ("kind", "metadata", "items"),
    [
        pytest.param(PARTIAL_OBJECT_METADATA, b"\x0a", b"\x12", id="v1"),
        pytest.param(PARTIAL_OBJECT_METADATA_V1BETA1, b"\x12", b"\x0a", id="v1beta1"),
    ],
)
def test_lists_of_metadata_alone_number_their_fields_by_version(
    kind: ObjectKind, metadata: bytes, items: bytes
) -> None:
    item = partial(made(LEASE, metadata={"name": "a"}), kind)

    body = encode_list(kind, [item], ListMeta("7"), PROTOBUF)

    assert metadata + b"\x07\x0a\x00\x12\x017\x1a\x00" in body
    message = b"\x0a\x11\x0a\x01a" + bytes.fromhex("12001a0022002a00320038004200")
    assert items + bytes([len(message)]) + message in body
    assert (body.index(b"\x12\x017") < body.index(message)) == (kind is PARTIAL_OBJECT_METADATA)


def test_a_value_of_no_kind_has_no_protobuf() -> None:
    with pytest.raises(ValueError, match="Table has no protobuf"):
        encode_value({"kind": "Table"}, PROTOBUF)


def test_there_are_no_lists_of_options() -> None:
    with pytest.raises(ValueError, match="no lists of DeleteOptions"):
        encode_list(DELETE_OPTIONS, [], ListMeta("7"), JSON)


FIRST = datetime(1, 1, 2)  # noqa: DTZ001 - isoformat is to have no offset
TEXTS = st.text(st.characters(max_codepoint=0x2FFFF, exclude_categories=["Cs", "Cc", "Cn"]))
INT64 = st.integers(-(2**63), 2**63 - 1)
TIMES = st.datetimes(min_value=FIRST).map(lambda moment: moment.isoformat(timespec="seconds") + "Z")
MAPS = st.dictionaries(TEXTS, TEXTS, max_size=3)
JSON_VALUES: st.SearchStrategy[JSONValue] = st.recursive(
    st.none() | st.booleans() | INT64 | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2),
    max_leaves=5,
)


def record(
    optional: Mapping[str, st.SearchStrategy[JSONValue]],
) -> st.SearchStrategy[dict[str, JSONValue]]:
    """Return JSON objects with some of these fields."""
    return st.fixed_dictionaries({}, optional=dict(optional))


METADATA: st.SearchStrategy[dict[str, JSONValue]] = record(
    {
        "name": TEXTS,
        "generation": INT64,
        "creationTimestamp": TIMES,
        "deletionTimestamp": TIMES,
        "deletionGracePeriodSeconds": INT64,
        "labels": MAPS,
        "ownerReferences": st.lists(
            record({"kind": TEXTS, "controller": st.booleans()}),
            max_size=2,
        ),
        "finalizers": st.lists(TEXTS, max_size=2),
        "managedFields": st.lists(record({"time": TIMES, "fieldsV1": JSON_VALUES}), max_size=2),
    },
)
SPECS = record(
    {
        "holderIdentity": TEXTS,
        "leaseDurationSeconds": st.integers(-(2**31), 2**31 - 1),
        "renewTime": st.datetimes(min_value=FIRST).map(
            lambda moment: moment.isoformat(timespec="microseconds") + "Z"
        ),
    },
)


@given(METADATA, SPECS, st.sampled_from([JSON, YAML, PROTOBUF]))
def test_what_is_written_is_read_again(
    metadata: dict[str, JSONValue], spec: dict[str, JSONValue], serializer: Serializer
) -> None:
    item = made(LEASE, metadata=metadata, spec=spec)

    decoded = decode(encode(item, LEASE, serializer), serializer, LEASE)

    assert decoded.problems == ()
    assert decoded.object == item
    if serializer is not YAML:  # which sorts what stands in fieldsV1
        assert go_json.dumps(decoded.object) == go_json.dumps(item)
