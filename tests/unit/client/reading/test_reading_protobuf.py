"""Protobuf gives the same model as JSON, and unknown fields are kept."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from apidiscovery.meta.v1 import discovery_pb2 as plain_pb2
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_client._reading import UnreadableError, read_document, read_resources
from apidiscovery_client._reading.protobuf import MAGIC, aggregated_group
from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import NO_EXTRAS, GroupVersion
from apidiscovery_formats.negotiation import JSON, PROTOBUF, Representation
from apidiscovery_service.core.model import Group
from apidiscovery_service.encoding import aggregated as service_encoding
from fake_api_server import legacy
from google.protobuf.message import Message
from groups import GROUPS, document_of
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

NOW = datetime(2026, 1, 2, tzinfo=UTC)
PLAIN = "application/vnd.kubernetes.protobuf"
AGGREGATED = f"{PLAIN};g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
V1 = GroupVersion("example.io", "v1")


def enveloped(message: Message | bytes, kind: str, api_version: str = "", **fields: str) -> bytes:
    raw = message if isinstance(message, bytes) else message.SerializeToString()
    type_meta = runtime_pb2.TypeMeta(api_version=api_version, kind=kind)
    envelope = runtime_pb2.Unknown(type_meta=type_meta, raw=raw, **fields)  # pyright: ignore[reportArgumentType] - all are strings
    return MAGIC + envelope.SerializeToString()


@given(st.lists(GROUPS, max_size=2, unique_by=lambda group: group.name))
def test_protobuf_and_json_of_the_same_groups_say_the_same(groups: list[Group]) -> None:
    document = document_of(*groups)
    read = [
        read_document("/apis", made.content_type, service_encoding.encode(document, made), NOW)
        for made in (
            Representation(serializer, version)
            for serializer in (JSON, PROTOBUF)
            for version in ("v2", "v2beta1")
        )
    ]
    assert all(half == read[0] for half in read)
    assert [group.name for group in read[0].groups] == [group.name for group in groups]


@pytest.mark.parametrize("name", ["builtin/api", "builtin/apis", "edge/edge"])
@pytest.mark.parametrize("version", ["v2", "v2beta1"])
def test_recorded_protobuf_says_what_recorded_json_says(name: str, version: str) -> None:
    parameters = f"g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    read = [
        read_document("/apis", f"{kind};{parameters}", file.read_bytes(), NOW)
        for kind, file in (
            ("application/json", GOLDEN / f"{name}.{version}.json"),
            (PLAIN, GOLDEN / f"{name}.{version}.pb"),
        )
    ]
    assert read[0] == read[1]
    assert read[0].is_aggregated


def test_unaggregated_protobuf_says_what_json_says() -> None:
    """Servers that ignore the parameters in Accept answer with these documents."""
    version = plain_pb2.GroupVersionForDiscovery(group_version="apps/v1", version="v1")
    group = plain_pb2.APIGroup(name="apps", versions=[version], preferred_version=version)
    listed = enveloped(plain_pb2.APIGroupList(groups=[group]), "APIGroupList", "v1")
    json = (
        b'{"kind":"APIGroupList","groups":[{"name":"apps","versions":[{"version":"v1"}],'
        b'"preferredVersion":{"version":"v1"}}]}'
    )
    as_json = read_document("/apis", "application/json", json, NOW)
    assert read_document("/apis", PLAIN, listed, NOW) == as_json
    core = enveloped(plain_pb2.APIVersions(versions=["v1"]), "APIVersions")
    assert read_document("/api", PLAIN, core, NOW) == read_document(
        "/api", "application/json", legacy()["/api"].body, NOW
    )


def test_resource_list_in_protobuf_is_folded_as_in_json() -> None:
    entries = [
        plain_pb2.APIResource(
            name="as",
            namespaced=True,
            kind="A",
            singular_name="a",
            verbs=plain_pb2.Verbs(items=["get"]),
            short_names=["s"],
            categories=["all"],
            storage_version_hash="h",
        ),
        plain_pb2.APIResource(
            name="as/scale", namespaced=True, kind="Scale", group="autoscaling", version="v1"
        ),
    ]
    body = enveloped(plain_pb2.APIResourceList(resources=entries), "APIResourceList", "v1")
    json = (
        b'{"kind":"APIResourceList","resources":[{"name":"as","namespaced":true,"kind":"A",'
        b'"singularName":"a","verbs":["get"],"shortNames":["s"],"categories":["all"],'
        b'"storageVersionHash":"h"},{"name":"as/scale","namespaced":true,"kind":"Scale",'
        b'"group":"autoscaling","version":"v1"}]}'
    )
    assert read_resources(V1, PLAIN, body) == read_resources(V1, "application/json", json)


@pytest.mark.parametrize(
    "field",
    [
        pytest.param(b"\xa2\x06\x02hi", id="bytes"),
        pytest.param(b"\xa0\x06\xac\x02", id="varint"),
        pytest.param(b"\xa5\x06\x01\x00\x00\x80", id="32 bits"),
        pytest.param(b"\xa1\x06\x01\x00\x00\x00\x00\x00\x00\x80", id="64 bits"),
        pytest.param(b"\xa3\x06\x08\x01\xa4\x06", id="group"),
        pytest.param(b"\xa2\x06\x01a\xa2\x06\x01b", id="twice"),
    ],
)
@pytest.mark.parametrize("made", [
    discovery_pb2.APIGroupDiscovery,
    discovery_pb2.APIVersionDiscovery,
    discovery_pb2.APIResourceDiscovery,
    discovery_pb2.APISubresourceDiscovery,
])  # fmt: skip
def test_unknown_fields_are_kept_as_they_are_on_the_wire(
    made: Callable[[], Message], field: bytes
) -> None:
    subresource = discovery_pb2.APISubresourceDiscovery(subresource="status")
    resource = discovery_pb2.APIResourceDiscovery(resource="as", subresources=[subresource])
    version = discovery_pb2.APIVersionDiscovery(version="v1", resources=[resource])
    item = discovery_pb2.APIGroupDiscovery(versions=[version])
    chain: list[Message] = [
        item,
        item.versions[0],
        item.versions[0].resources[0],
        item.versions[0].resources[0].subresources[0],
    ]
    next(message for message in chain if type(message) is made).MergeFromString(field)
    group = aggregated_group(item, NOW)
    read = group.versions[0].resources[0]
    extras = [group.extra, group.versions[0].extra, read.extra, read.subresources[0].extra]
    assert [extra for extra in extras if extra != NO_EXTRAS] == [{PROTOBUF_EXTRA: field}]


EMPTY = discovery_pb2.APIGroupDiscoveryList()
NAMELESS = discovery_pb2.APIGroupDiscoveryList(
    items=[{"versions": [{"resources": []}]}]  # type: ignore[list-item]  # pyright: ignore[reportArgumentType] - it takes dicts, too
)


@pytest.mark.parametrize(
    ("content_type", "body", "message"),
    [
        pytest.param(AGGREGATED, b"", "the body begins with b''", id="empty"),
        pytest.param(AGGREGATED, b"{}", "the body begins with b'{}'", id="JSON"),
        pytest.param(AGGREGATED, MAGIC + b"\x0a\xff", "body is not of type Unknown", id="garbage"),
        pytest.param(AGGREGATED, MAGIC, "but the body is of no kind", id="no kind"),
        pytest.param(
            AGGREGATED,
            enveloped(b"\xff", "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
            "the body is not of type APIGroupDiscoveryList",
            id="garbage in the envelope",
        ),
        pytest.param(
            AGGREGATED,
            enveloped(EMPTY, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2beta1"),
            "but the body is APIGroupDiscoveryList apidiscovery.k8s.io/v2beta1",
            id="other version",
        ),
        pytest.param(
            AGGREGATED,
            enveloped(plain_pb2.APIGroupList(), "APIGroupList", "v1"),
            "promises APIGroupDiscoveryList apidiscovery.k8s.io/v2, but the body is APIGroupList",
            id="unaggregated",
        ),
        pytest.param(
            PLAIN,
            enveloped(EMPTY, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
            "promises APIGroupList, but the body is APIGroupDiscoveryList",
            id="aggregated without saying so",
        ),
        pytest.param(
            PLAIN, enveloped(b"", "Status", "v1"), "but the body is Status v1", id="Status"
        ),
        pytest.param(
            AGGREGATED,
            enveloped(
                EMPTY,
                "APIGroupDiscoveryList",
                "apidiscovery.k8s.io/v2",
                content_encoding="gzip",
            ),
            "the content is encoded as 'gzip'",
            id="encoded",
        ),
        pytest.param(
            AGGREGATED,
            enveloped(NAMELESS, "APIGroupDiscoveryList", "apidiscovery.k8s.io/v2"),
            "a version of group '' has no name",
            id="no name",
        ),
    ],
)
def test_wrong_protobuf_is_refused(content_type: str, body: bytes, message: str) -> None:
    with pytest.raises(UnreadableError) as caught:
        read_document("/apis", content_type, body, NOW)
    assert message in str(caught.value)


def test_aggregated_protobuf_is_not_that_of_a_group_version() -> None:
    with pytest.raises(UnreadableError, match="is of an aggregated document"):
        read_resources(V1, AGGREGATED, MAGIC)


@given(st.binary(max_size=60), st.sampled_from([AGGREGATED, PLAIN]))
def test_any_bytes_are_read_or_refused(data: bytes, content_type: str) -> None:
    kind = "APIGroupDiscoveryList" if content_type == AGGREGATED else "APIGroupList"
    body = enveloped(data, kind, "apidiscovery.k8s.io/v2")
    for sent in (body, body[: len(data)], MAGIC + data):
        try:
            read = read_document("/apis", content_type, sent, NOW)
        except UnreadableError:
            continue
        assert len(read.groups) == count_of_groups(sent, kind)


def count_of_groups(body: bytes, kind: str) -> int:
    raw = runtime_pb2.Unknown.FromString(body.removeprefix(MAGIC)).raw
    if kind == "APIGroupList":
        return len(plain_pb2.APIGroupList.FromString(raw).groups)
    return len(discovery_pb2.APIGroupDiscoveryList.FromString(raw).items)


def test_many_unknown_fields_take_no_longer_than_they_are_long() -> None:
    item = discovery_pb2.APIGroupDiscovery()
    item.MergeFromString(b"\xf8\x07\x01" * 400_000)  # field 127
    begin = time.process_time()
    kept = aggregated_group(item, NOW).extra[PROTOBUF_EXTRA]
    assert isinstance(kept, bytes)
    assert len(kept) == 1_200_000
    assert time.process_time() - begin < 10
