"""Aggregated documents and snapshots, compared with answers of Kubernetes."""

import asyncio
import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from apidiscovery.v2 import discovery_pb2
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Representation
from apidiscovery_service.core.model import (
    Contribution,
    Group,
    GroupVersionKind,
    Precedence,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Document, Snapshot
from apidiscovery_service.encoding import (
    Aggregated,
    APIGroup,
    APIGroupList,
    APIResourceList,
    APIVersions,
    CurrentEncoding,
    EncodedSnapshot,
    Target,
    aggregated,
    compression,
    plain,
)
from apidiscovery_service.kube import wire
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.manifests.file import read_manifest
from decoded import go_text, groups_of_message, groups_of_value, json_object, unwrapped, yaml_object
from groups import GROUPS, contribution, document_of, widget_group, without_hashes
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

EDGE = GOLDEN / "edge" / "edge.json"
CRDS = GOLDEN / "crds"

SERIALIZERS = {"json": JSON, "yaml": YAML, "pb": PROTOBUF}
PLAIN = Representation(JSON)
V2 = {suffix: Representation(serializer, "v2") for suffix, serializer in SERIALIZERS.items()}


@pytest.fixture(scope="module")
def catalogue() -> Snapshot:
    return Registry().publish(kubernetes_catalog())


@pytest.fixture(scope="module")
def builtin() -> Snapshot:
    offers = [
        offer
        for name in ("api", "apis")
        for offer in read_manifest(GOLDEN / "builtin" / f"{name}.v2.json").offers
    ]
    return Registry().publish(Contribution("builtin", Precedence.BUILTIN, tuple(offers)))


@pytest.fixture(scope="module")
def edge() -> Snapshot:
    return Registry().publish(Contribution("edge", Precedence.BUILTIN, read_manifest(EDGE).offers))


@pytest.fixture(scope="module")
def goldens(builtin: Snapshot, edge: Snapshot) -> Mapping[str, Document]:
    """The documents by the name that their goldens begin with."""
    return {
        "builtin/api": builtin.core,
        "builtin/apis": builtin.named,
        "edge/edge": edge.named,
    }


# --------------------------------------------------------------------------------------------------
# Aggregated documents.

ANSWERS = sorted(
    path for folder in ("builtin", "edge") for path in (GOLDEN / folder).iterdir() if path != EDGE
)


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.name)
def test_an_answer_of_kubernetes_is_reproduced_exactly(
    path: Path, goldens: Mapping[str, Document]
) -> None:
    """A file of an unknown form fails too."""
    name, *form = path.name.split(".")
    document = goldens[f"{path.parent.name}/{name}"]
    if form == ["etag"]:
        assert f'"{document.etag}"' == path.read_text(encoding="ascii").strip()
    else:
        version, suffix = form
        representation = Representation(SERIALIZERS[suffix], version)
        assert aggregated.encode(document, representation) == path.read_bytes()


def test_there_are_answers_of_each_form() -> None:
    assert len(ANSWERS) == 3 * (2 * len(SERIALIZERS) + 1)


def test_pretty_json_is_indented_by_two_without_a_line_feed_at_the_end(edge: Snapshot) -> None:
    golden = EDGE.with_name("edge.v2.json").read_bytes()
    pretty = aggregated.encode(edge.named, Representation(JSON, "v2", pretty=True))
    assert json_object(pretty) == json_object(golden)
    assert pretty.startswith(b'{\n  "kind": "APIGroupDiscoveryList",\n  "apiVersion": "')
    assert pretty.endswith(b"\n  ]\n}")
    without_spaces = b"".join(line.strip() for line in pretty.splitlines())
    assert without_spaces.replace(b'": ', b'":') + b"\n" == golden


WIDGET_JSON = (
    b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",'
    b'"metadata":{},"items":[{"metadata":{"name":"example.com"},"versions":[{"version":"v1",'
    b'"resources":[{"resource":"widgets","responseKind":{"group":"example.com","version":"v1",'
    b'"kind":"Widget"},"scope":"Namespaced","singularResource":"widget","verbs":["delete",'
    b'"deletecollection","get","list","patch","create","update","watch"],"shortNames":["wd"],'
    b'"categories":["all"],"subresources":[{"subresource":"status","responseKind":{'
    b'"group":"example.com","version":"v1","kind":"Widget"},"verbs":["get","patch","update"]}]}],'
    b'"freshness":"Current"}]}]}\n'
)
WIDGET_PROTOBUF_SHA256 = "fc28b72b731d95eac9e950467a656291e43f31ad17b2be4ea62046b64081635a"
EMPTY_PROTOBUF = """
6b 38 73 00 0a 2f 0a 16 61 70 69 64 69 73 63 6f 76 65 72 79 2e 6b 38 73 2e 69 6f 2f 76 32
12 15 41 50 49 47 72 6f 75 70 44 69 73 63 6f 76 65 72 79 4c 69 73 74
12 08 0a 06 0a 00 12 00 1a 00 1a 00 22 00
"""


def test_the_one_crd_document_has_the_bytes_of_the_contract() -> None:
    document = document_of(widget_group())
    text = aggregated.encode(document, V2["json"])
    protobuf = aggregated.encode(document, V2["pb"])
    assert (text, len(text)) == (WIDGET_JSON, 610)
    assert len(protobuf) == 308
    assert hashlib.sha256(protobuf).hexdigest() == WIDGET_PROTOBUF_SHA256


def test_the_empty_document_has_the_bytes_of_the_contract() -> None:
    empty = document_of()
    head = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",'
    assert aggregated.encode(empty, V2["json"]) == head + b'"metadata":{},"items":[]}\n'
    assert aggregated.encode(empty, V2["pb"]) == bytes.fromhex(EMPTY_PROTOBUF)
    assert aggregated.encode(empty, V2["yaml"]) == (
        b"apiVersion: apidiscovery.k8s.io/v2\nitems: []\n"
        b"kind: APIGroupDiscoveryList\nmetadata: {}\n"
    )


def test_a_stale_version_has_the_bytes_of_the_contract() -> None:
    document = document_of(Group("remote.example.com", (Version("v1", (), "Stale"),)))
    assert aggregated.encode(document, V2["pb"]).endswith(
        bytes.fromhex("0a 02 76 31 1a 05 53 74 61 6c 65 1a 00 22 00")
    )
    assert b'"versions":[{"version":"v1","freshness":"Stale"}]' in aggregated.encode(
        document, V2["json"]
    )


FIELDS = [
    pytest.param(
        Resource("r", None, "Cluster", "", None),
        '{"resource":"r","scope":"Cluster","singularResource":"","verbs":null}',
        id="nil-verbs-are-null",
    ),
    pytest.param(
        Resource("r", None, "Cluster", "", ()),
        '{"resource":"r","scope":"Cluster","singularResource":"","verbs":[]}',
        id="empty-verbs-are-a-list",
    ),
    pytest.param(
        Resource("r", GroupVersionKind("", "", ""), "", "s", ("get",), ("n",), ("c",)),
        '{"resource":"r","responseKind":{"group":"","version":"","kind":""},"scope":"",'
        '"singularResource":"s","verbs":["get"],"shortNames":["n"],"categories":["c"]}',
        id="kind-of-empty-fields",
    ),
    pytest.param(
        Resource("r", None, "", "", (), storage_version_hash="xPOwRZ+Yhw8="),
        '{"resource":"r","scope":"","singularResource":"","verbs":[]}',
        id="no-storage-version-hash",
    ),
    pytest.param(
        Resource(
            *("r", None, "", "", ()),
            subresources=(Subresource("s", None, None, (GroupVersionKind("g", "v", "k"),)),),
        ),
        '{"resource":"r","scope":"","singularResource":"","verbs":[],"subresources":['
        '{"subresource":"s","acceptedTypes":[{"group":"g","version":"v","kind":"k"}],'
        '"verbs":null}]}',
        id="subresource-without-kind-and-verbs",
    ),
]


@pytest.mark.parametrize(("made", "wanted"), FIELDS)
def test_a_resource_has_its_fields_in_the_order_and_with_the_omissions_of_the_contract(
    made: Resource, wanted: str
) -> None:
    document = document_of(Group("", (Version("v1", (made,), ""),)))
    body = aggregated.encode(document, V2["json"]).decode()
    item = f'{{"metadata":{{}},"versions":[{{"version":"v1","resources":[{wanted}]}}]}}'
    assert body.endswith(f'"metadata":{{}},"items":[{item}]}}\n')


# --------------------------------------------------------------------------------------------------
# Decoding gives back what was encoded.


def without_nil_verbs(group: Group) -> Group:
    """Return a group without the difference of null and empty verbs, which protobuf lacks."""

    def changed(made: Resource) -> Resource:
        subresources = tuple(replace(s, verbs=s.verbs or ()) for s in made.subresources)
        return replace(made, verbs=made.verbs or (), subresources=subresources)

    versions = [replace(v, resources=tuple(map(changed, v.resources))) for v in group.versions]
    return replace(group, versions=tuple(versions))


@given(st.lists(GROUPS, max_size=2), st.sampled_from(["v2", "v2beta1"]))
def test_an_aggregated_document_decodes_to_its_groups_and_has_the_etag_of_its_json(
    groups: list[Group], version: str
) -> None:
    document = document_of(*groups)
    told = list(map(without_hashes, groups))
    text = aggregated.encode(document, Representation(JSON, version))
    for value in (
        json_object(text),
        json_object(aggregated.encode(document, Representation(JSON, version, pretty=True))),
        yaml_object(aggregated.encode(document, Representation(YAML, version))),
    ):
        assert groups_of_value(value) == told
        assert value["apiVersion"] == f"apidiscovery.k8s.io/{version}"
        assert value["kind"] == "APIGroupDiscoveryList"
    hashed = go_text({"metadata": {}, "items": json_object(text)["items"]})
    assert document.etag == hashlib.sha512(hashed).hexdigest().upper()
    unknown = unwrapped(aggregated.encode(document, Representation(PROTOBUF, version)))
    assert unknown.type_meta.api_version == f"apidiscovery.k8s.io/{version}"
    message = discovery_pb2.APIGroupDiscoveryList.FromString(unknown.raw)
    assert groups_of_message(message) == list(map(without_nil_verbs, told))
    for published, item in zip(document.groups, message.items, strict=True):
        alone = discovery_pb2.APIGroupDiscovery.FromString(aggregated.group_message(published))
        assert alone == item


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
@pytest.mark.parametrize("suffix", ["json", "pb"])
def test_aggregated_answers_of_an_apiextensions_server_are_reproduced(
    version: str, suffix: str
) -> None:
    path = CRDS / f"apis.{version}.{suffix}"
    headers = path.with_name(f"{path.name}.headers").read_text(encoding="ascii")
    body = path.read_bytes()
    if suffix == "json":
        groups = groups_of_value(json_object(body))
    else:
        message = discovery_pb2.APIGroupDiscoveryList.FromString(unwrapped(body).raw)
        groups = groups_of_message(message)
    document = document_of(*groups)
    representation = Representation(SERIALIZERS[suffix], version)
    assert aggregated.encode(document, representation) == body
    assert f'etag: "{document.etag}"\n' in headers
    assert f"content-type: {representation.content_type}\n" in headers


# --------------------------------------------------------------------------------------------------
# A snapshot with its bodies.

AGGREGATED = Aggregated(core=False)


async def test_each_target_has_the_body_of_its_document(catalogue: Snapshot) -> None:
    encoded = EncodedSnapshot(catalogue)
    (core,) = catalogue.core.groups
    apps = catalogue.named.by_name["apps"].group
    addresses = plain.for_any_client("h:1")
    wanted: dict[Target, plain.PlainDocument] = {
        APIVersions(addresses): plain.api_versions(catalogue.core, addresses),
        APIGroupList(): plain.group_list(catalogue.named),
        APIGroup("apps"): plain.group(apps),
        APIResourceList("apps", "v1"): plain.resource_list(apps, apps.versions[0]),
        APIResourceList("", "v1"): plain.resource_list(core.group, core.group.versions[0]),
        APIResourceList("apps", "v1", storage_version_hashes=False): plain.resource_list(
            apps, apps.versions[0], storage_version_hashes=False
        ),
    }
    for target, content in wanted.items():
        assert encoded.serves(target)
        assert await encoded.body(target, PLAIN) == plain.encode(content, PLAIN)
    for core_too in (True, False):
        document = catalogue.core if core_too else catalogue.named
        made = await encoded.body(Aggregated(core_too), V2["pb"])
        assert made == aggregated.encode(document, V2["pb"])
        assert await encoded.list_message(core=core_too) == unwrapped(made).raw


@pytest.mark.parametrize(
    "target",
    [
        pytest.param(APIGroup("nope"), id="unknown-group"),
        pytest.param(APIGroup(""), id="core-is-no-group"),
        pytest.param(APIResourceList("nope", "v1"), id="group-of-no-version"),
        pytest.param(APIResourceList("apps", "v9"), id="unknown-version"),
        pytest.param(APIResourceList("", "v2"), id="unknown-core-version"),
    ],
)
async def test_missing_groups_and_versions_are_not_served(
    target: APIGroup | APIResourceList, catalogue: Snapshot
) -> None:
    encoded = EncodedSnapshot(catalogue)
    assert not encoded.serves(target)
    with pytest.raises(KeyError):
        await encoded.body(target, PLAIN)


async def test_a_body_is_made_once_even_if_the_first_request_is_cancelled(
    catalogue: Snapshot,
) -> None:
    encoded = EncodedSnapshot(catalogue)
    first = asyncio.create_task(encoded.body(AGGREGATED, V2["json"]))
    others = [asyncio.create_task(encoded.body(AGGREGATED, V2["json"])) for _ in range(3)]
    await asyncio.sleep(0)
    first.cancel()
    bodies = await asyncio.gather(*others)
    assert all(body is bodies[0] for body in bodies)
    assert await encoded.body(AGGREGATED, V2["json"]) is bodies[0]
    assert await encoded.coded_body(AGGREGATED, V2["json"], "identity") == (bodies[0], "identity")


@pytest.mark.parametrize("coding", ["gzip", "zstd"])
async def test_a_body_is_compressed_once(coding: compression.Coding, catalogue: Snapshot) -> None:
    encoded = EncodedSnapshot(catalogue)
    made = await encoded.coded_body(AGGREGATED, V2["yaml"], coding)
    content = await encoded.body(AGGREGATED, V2["yaml"])
    assert made == (compression.compress(content, coding), coding)
    assert (await encoded.coded_body(AGGREGATED, V2["yaml"], coding))[0] is made[0]


def test_the_current_encoding_follows_the_registry() -> None:
    registry = Registry()
    encoding = CurrentEncoding(registry)
    before = encoding.current
    registry.publish(contribution("a", "g/v1"))
    assert encoding.current.snapshot is registry.snapshot
    assert encoding.current is not before
    same = encoding.current
    registry.publish(contribution("a", "g/v1"))
    assert encoding.current is same


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (2**35, "808080808001")],
)
def test_a_varint_is_minimal(number: int, encoded: str) -> None:
    assert wire.varint(number).hex() == encoded


@given(st.integers(1, 15), st.binary(max_size=400))
def test_a_delimited_field_gives_back_its_payload(number: int, payload: bytes) -> None:
    assert wire.payload_of(wire.delimited(number, payload)) == payload
