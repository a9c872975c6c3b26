"""Unaggregated documents and Status, compared with answers of Kubernetes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from apidiscovery.meta.v1 import discovery_pb2 as plain_pb2
from apidiscovery.meta.v1 import status_pb2
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Representation
from apidiscovery_service.core.model import (
    Contribution,
    Group,
    GroupVersionKind,
    Precedence,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.encoding import plain
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.sources.discovery_list import read_list
from apidiscovery_service.sources.fields import Node
from apidiscovery_service.sources.manifests.file import read_manifest
from decoded import json_object, unwrapped, yaml_object
from groups import GROUPS, document_of, resource
from hypothesis import given
from repository import GOLDEN

UNAGGREGATED = GOLDEN / "builtin-unaggregated"
CRDS = GOLDEN / "crds"

SERIALIZERS = {"json": JSON, "yaml": YAML, "pb": PROTOBUF}
PLAIN = Representation(JSON)
PRETTY = Representation(JSON, pretty=True)


@pytest.fixture(scope="module")
def catalogue() -> Snapshot:
    return Registry().publish(kubernetes_catalog())


# --------------------------------------------------------------------------------------------------
# Unaggregated documents: Kubernetes' own.


def golden(name: str) -> dict[str, Any]:
    return json_object((UNAGGREGATED / name).read_bytes())


def test_api_equals_that_of_kubernetes(catalogue: Snapshot) -> None:
    document = plain.api_versions(catalogue.core, plain.for_any_client("10.10.10.10:8050"))
    assert json_object(plain.encode(document, PLAIN)) == golden("api.json")


def test_apis_equals_that_of_kubernetes() -> None:
    offers = read_manifest(GOLDEN / "builtin" / "apis.v2.json").offers
    snapshot = Registry().publish(Contribution("builtin", Precedence.BUILTIN, offers))
    assert json_object(plain.encode(plain.group_list(snapshot.named), PLAIN)) == golden("apis.json")


def crd_groups() -> dict[str, Group]:
    value = json_object((CRDS / "apis.v2.json").read_bytes())
    return {name: Group(name, versions) for name, versions in read_list(Node(value))}


CRD_ANSWERS = sorted([*(CRDS / "groups").glob("*.json"), *(CRDS / "groups").glob("*.pb")])


def as_answered(version: Version, lines: list[tuple[str, str]]) -> Version:
    """Return a version with the order and hashes of an answer, which aggregated documents lack.

    Args:
        version: As the aggregated document has it.
        lines: Name and storage version hash of each line of the answer, in its order.
    """
    order = [name for name, _ in lines]
    resources = [
        replace(made, storage_version_hash=dict(lines)[made.resource])
        for made in sorted(version.resources, key=lambda made: order.index(made.resource))
    ]
    return replace(version, resources=tuple(resources))


@pytest.mark.parametrize("path", CRD_ANSWERS, ids=lambda path: path.name)
def test_unaggregated_answers_of_kubernetes_follow_from_aggregated_ones(path: Path) -> None:
    name, _, version_name = path.stem.partition("__")
    group, answer = crd_groups()[name], path.read_bytes()
    if not version_name:
        assert plain.encode(plain.group(group), PLAIN) == answer
        return
    (version,) = [v for v in group.versions if v.version == version_name]
    if path.suffix == ".json":
        resources = json_object(answer)["resources"]
        lines = [(line["name"], line.get("storageVersionHash", "")) for line in resources]
    else:
        message = plain_pb2.APIResourceList.FromString(unwrapped(answer).raw)
        lines = [(line.name, line.storage_version_hash) for line in message.resources]
    document = plain.resource_list(group, as_answered(version, lines))
    assert plain.encode(document, Representation(SERIALIZERS[path.suffix[1:]])) == answer


def test_every_answer_of_the_apiextensions_server_is_used() -> None:
    answers = {path.name for path in CRD_ANSWERS}
    headers = {path.name for path in (CRDS / "groups").glob("*.headers")}
    assert headers == {f"{name}.headers" for name in answers}
    assert {name.partition("__")[0].removesuffix(".json") for name in answers} == set(crd_groups())


# --------------------------------------------------------------------------------------------------
# Unaggregated documents: the contract's.


def test_api_has_the_bytes_of_the_contract() -> None:
    core = document_of(Group("", (Version("v1"),)))
    document = plain.api_versions(core, plain.for_any_client("10.0.0.1:6443"))
    assert plain.encode(document, PLAIN) == (
        b'{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":'
        b'[{"clientCIDR":"0.0.0.0/0","serverAddress":"10.0.0.1:6443"}]}\n'
    )
    assert plain.encode(document, Representation(PROTOBUF)) == bytes.fromhex(
        "6b 38 73 00 0a 0f 0a 00 12 0b 41 50 49 56 65 72 73 69 6f 6e 73 12 20 0a 02 76 31"
        "12 1a 0a 09 30 2e 30 2e 30 2e 30 2f 30 12 0d 31 30 2e 30 2e 30 2e 31 3a 36 34 34 33"
        "1a 00 22 00"
    )


def test_api_without_a_core_group_has_an_empty_list_of_versions() -> None:
    document = plain.api_versions(document_of(), plain.for_any_client("h:1"))
    assert plain.encode(document, PLAIN).startswith(b'{"kind":"APIVersions","versions":[],"server')


def test_groups_have_their_fields_in_the_order_of_the_contract() -> None:
    group = Group("apps", (Version("v1"), Version("v1beta1")))
    fields = (
        b'"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"},'
        b'{"groupVersion":"apps/v1beta1","version":"v1beta1"}],'
        b'"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}'
    )
    listed = plain.group_list(document_of(group))
    assert plain.encode(plain.group(group), PLAIN) == (
        b'{"kind":"APIGroup","apiVersion":"v1",' + fields + b"\n"
    )
    assert plain.encode(listed, PLAIN) == (
        b'{"kind":"APIGroupList","apiVersion":"v1","groups":[{' + fields + b"]}\n"
    )
    empty = plain.encode(plain.group_list(document_of()), PLAIN)
    assert empty == b'{"kind":"APIGroupList","apiVersion":"v1","groups":[]}\n'


GET_PATCH_UPDATE = ("get", "patch", "update")
DEPLOYMENTS = Resource(
    *("deployments", GroupVersionKind("", "", "Deployment"), Scope.NAMESPACED, "deployment"),
    ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"),
    ("deploy",),
    ("all",),
    (
        Subresource("scale", GroupVersionKind("autoscaling", "v1", "Scale"), GET_PATCH_UPDATE),
        Subresource("status", GroupVersionKind("", "", "Deployment"), GET_PATCH_UPDATE),
    ),
    "8aSe+NMegvE=",
)


def test_a_resource_list_has_its_fields_in_the_order_of_the_contract() -> None:
    group = Group("apps", (Version("v1", (DEPLOYMENTS,)),))
    hash_field = b',"storageVersionHash":"8aSe+NMegvE="'
    wanted = (
        b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":['
        b'{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment",'
        b'"verbs":["create","delete","deletecollection","get","list","patch","update","watch"],'
        b'"shortNames":["deploy"],"categories":["all"]' + hash_field + b"},"
        b'{"name":"deployments/scale","singularName":"","namespaced":true,"group":"autoscaling",'
        b'"version":"v1","kind":"Scale","verbs":["get","patch","update"]},'
        b'{"name":"deployments/status","singularName":"","namespaced":true,"kind":"Deployment",'
        b'"verbs":["get","patch","update"]}]}\n'
    )
    assert plain.encode(plain.resource_list(group, group.versions[0]), PLAIN) == wanted
    without = plain.resource_list(group, group.versions[0], storage_version_hashes=False)
    assert plain.encode(without, PLAIN) == wanted.replace(hash_field, b"")
    assert b"8aSe" not in plain.encode(without, Representation(PROTOBUF))


@pytest.mark.parametrize(
    ("group", "head"),
    [
        pytest.param("", '{"kind":"APIResourceList","groupVersion":"v1",', id="core"),
        pytest.param(
            "extensions",
            '{"kind":"APIResourceList","groupVersion":"extensions/v1",',
            id="extensions",
        ),
        pytest.param(
            "apps",
            '{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1",',
            id="any-other",
        ),
    ],
)
def test_a_resource_list_has_an_api_version_but_for_the_oldest_groups(
    group: str, head: str
) -> None:
    made = Group(group, (Version("v1"),))
    document = plain.resource_list(made, made.versions[0])
    assert plain.encode(document, PLAIN).decode() == f'{head}"resources":[]}}\n'
    unknown = unwrapped(plain.encode(document, Representation(PROTOBUF)))
    assert unknown.type_meta.api_version == ("v1" if "apiVersion" in head else "")
    assert unknown.type_meta.kind == "APIResourceList"


def lines_of(group_name: str, made: Resource) -> list[dict[str, Any]]:
    """Return the lines of a list of one resource."""
    group = Group(group_name, (Version("v1", (made,)),))
    document = json_object(plain.encode(plain.resource_list(group, group.versions[0]), PLAIN))
    lines: list[dict[str, Any]] = document["resources"]
    return lines


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        pytest.param(("", "", "K"), {"kind": "K"}, id="elided-already"),
        pytest.param(("g", "v1", "K"), {"kind": "K"}, id="of-the-list"),
        pytest.param(
            ("autoscaling", "v1", "K"),
            {"group": "autoscaling", "version": "v1", "kind": "K"},
            id="of-another-group",
        ),
        pytest.param(
            ("g", "v2", "K"), {"group": "g", "version": "v2", "kind": "K"}, id="of-another-version"
        ),
        pytest.param(("", "v1", "K"), {"version": "v1", "kind": "K"}, id="of-the-core-group"),
        pytest.param(("", "", ""), {"kind": ""}, id="of-empty-fields"),
        pytest.param(None, {"kind": ""}, id="absent"),
    ],
)
def test_group_and_version_are_elided_where_they_are_those_of_the_list(
    kind: tuple[str, str, str] | None, line: dict[str, str]
) -> None:
    response = GroupVersionKind(*kind) if kind else None
    below = (Subresource("s", response, ()),)
    lines = lines_of("g", Resource("r", response, "Cluster", "", (), subresources=below))
    common: dict[str, Any] = {"singularName": "", "namespaced": False, "verbs": []}
    assert lines == [{"name": n, **common, **line} for n in ("r", "r/s")]


@pytest.mark.parametrize(
    ("parent", "listed"),
    [
        pytest.param((GroupVersionKind("", "", ""), None), False, id="made-up"),
        pytest.param((None, None), False, id="without-kind"),
        pytest.param((GroupVersionKind("", "", "Pod"), None), True, id="of-a-kind"),
        pytest.param((GroupVersionKind("", "", ""), ()), True, id="with-empty-verbs"),
    ],
)
def test_a_parent_without_verbs_and_kind_is_not_listed(
    parent: tuple[GroupVersionKind | None, tuple[str, ...] | None], *, listed: bool
) -> None:
    kind, verbs = parent
    eviction = Subresource("eviction", GroupVersionKind("policy", "v1", "Eviction"), ("create",))
    pods = Resource("pods", kind, Scope.NAMESPACED, "", verbs, subresources=(eviction,))
    names = [line["name"] for line in lines_of("", pods)]
    assert names == ["pods", "pods/eviction"][not listed :]


@pytest.mark.parametrize(
    ("verbs", "text", "message"),
    [
        pytest.param(None, b'"verbs":null', None, id="nil"),
        pytest.param((), b'"verbs":[]', [], id="empty"),
        pytest.param(("get",), b'"verbs":["get"]', ["get"], id="some"),
    ],
)
def test_nil_and_empty_verbs_are_told_apart(
    verbs: tuple[str, ...] | None, text: bytes, message: list[str] | None
) -> None:
    group = Group("g", (Version("v1", (replace(resource(), verbs=verbs),)),))
    document = plain.resource_list(group, group.versions[0])
    assert text in plain.encode(document, PLAIN)
    raw = unwrapped(plain.encode(document, Representation(PROTOBUF))).raw
    (line,) = plain_pb2.APIResourceList.FromString(raw).resources
    assert (list(line.verbs.items) if line.HasField("verbs") else None) == message


# --------------------------------------------------------------------------------------------------
# The same in every representation.


def line_of_message(message: plain_pb2.APIResource) -> dict[str, Any]:
    """Return a line as its JSON would have it, with empty verbs for null."""
    line: dict[str, Any] = {
        "name": message.name,
        "singularName": message.singular_name,
        "namespaced": message.namespaced,
        "group": message.group,
        "version": message.version,
        "kind": message.kind,
        "verbs": list(message.verbs.items),
        "shortNames": list(message.short_names),
        "categories": list(message.categories),
        "storageVersionHash": message.storage_version_hash,
    }
    never_omitted = {"name", "singularName", "namespaced", "kind", "verbs"}
    return {key: value for key, value in line.items() if value or key in never_omitted}


@given(GROUPS)
def test_a_resource_list_says_the_same_in_every_representation(group: Group) -> None:
    document = plain.resource_list(group, group.versions[0])
    value = json_object(plain.encode(document, PLAIN))
    assert json_object(plain.encode(document, PRETTY)) == value
    assert yaml_object(plain.encode(document, Representation(YAML))) == value
    unknown = unwrapped(plain.encode(document, Representation(PROTOBUF)))
    message = plain_pb2.APIResourceList.FromString(unknown.raw)
    assert message.group_version == value["groupVersion"]
    lines = [line | {"verbs": line["verbs"] or []} for line in value["resources"]]
    assert list(map(line_of_message, message.resources)) == lines


# --------------------------------------------------------------------------------------------------
# Status and the index.

NOT_FOUND = "the server could not find the requested resource"


@pytest.mark.parametrize(
    ("document", "body"),
    [
        pytest.param(
            plain.status(404, "NotFound", NOT_FOUND, details=True),
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            f'"message":"{NOT_FOUND}","reason":"NotFound","details":{{}},"code":404}}\n',
            id="with-empty-details",
        ),
        pytest.param(
            plain.status(405, "MethodNotAllowed", "no"),
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            '"message":"no","reason":"MethodNotAllowed","code":405}\n',
            id="without-details",
        ),
        pytest.param(
            plain.status(503, "ServiceUnavailable", "a<b", retry_after_s=5),
            '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
            '"message":"a\\u003cb","reason":"ServiceUnavailable",'
            '"details":{"retryAfterSeconds":5},"code":503}\n',
            id="with-retry-after",
        ),
    ],
)
def test_a_status_has_its_fields_in_the_order_of_the_contract(
    document: plain.PlainDocument, body: str
) -> None:
    assert plain.encode(document, PLAIN).decode() == body
    value = json.loads(body)
    assert yaml_object(plain.encode(document, Representation(YAML))) == value
    unknown = unwrapped(plain.encode(document, Representation(PROTOBUF)))
    assert (unknown.type_meta.api_version, unknown.type_meta.kind) == ("v1", "Status")
    message = status_pb2.Status.FromString(unknown.raw)
    assert (message.status, message.message) == ("Failure", value["message"])
    assert (message.reason, message.code) == (value["reason"], value["code"])
    assert message.HasField("details") == ("details" in value)
    retry_after_s = value.get("details", {}).get("retryAfterSeconds", 0)
    assert message.details.retry_after_seconds == retry_after_s


def test_a_status_without_details_has_the_bytes_that_go_writes() -> None:
    raw = unwrapped(plain.encode(plain.status(406, "R", "m"), Representation(PROTOBUF))).raw
    assert raw == bytes.fromhex("0a060a0012001a00 1207") + b"Failure" + bytes.fromhex(
        "1a016d 220152 309603"
    )


def test_a_pretty_status_is_indented_by_two_without_a_line_feed_at_the_end() -> None:
    message = (
        "only the following media types are accepted: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )
    document = plain.status(406, "NotAcceptable", message)
    assert plain.encode(document, PRETTY).decode() == (
        '{\n  "kind": "Status",\n  "apiVersion": "v1",\n  "metadata": {},\n'
        f'  "status": "Failure",\n  "message": "{message}",\n'
        '  "reason": "NotAcceptable",\n  "code": 406\n}'
    )


def test_the_index_is_pretty_and_sorted_with_each_path_once() -> None:
    assert plain.index(["/b", "/a", "/b"]) == b'{\n  "paths": [\n    "/a",\n    "/b"\n  ]\n}'
