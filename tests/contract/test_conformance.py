"""What kube-apiserver answers, rule by rule, read off a real socket.

Where this server does better on purpose, the docstring says so.
"""

import hashlib
import json
import re
from typing import cast

import pytest
import yaml
from apidiscovery.runtime.v1 import runtime_pb2
from apidiscovery.v2 import discovery_pb2
from apidiscovery_releases import newest
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2
from raw_http import RawResponse, get, request
from server import Server

RECORDED = {name: newest().aggregated(f"/{name}") for name in ("api", "apis")}

MEDIA_TYPES = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
NOT_ACCEPTABLE = f"""\
{{
  "kind": "Status",
  "apiVersion": "v1",
  "metadata": {{}},
  "status": "Failure",
  "message": "only the following media types are accepted: {MEDIA_TYPES}",
  "reason": "NotAcceptable",
  "code": 406
}}""".encode()

Fields = dict[str, object]


@pytest.fixture(scope="module")
def port(server: Server) -> int:
    return server.http_port


@pytest.fixture(scope="module")
def aggregated(port: int) -> RawResponse:
    return get(port, "/apis", JSON_V2)


def items(document: object, name: str = "items") -> list[Fields]:
    return cast("list[Fields]", cast("Fields", document)[name])


def by(name: str, objects: list[Fields]) -> dict[object, Fields]:
    return {one[name]: one for one in objects}


def group(response: RawResponse, name: str) -> Fields:
    """Return an item of an aggregated document."""
    named = {cast("Fields", item["metadata"]).get("name"): item for item in items(response.json())}
    return named[name]


def resources(port: int, path: str) -> dict[object, Fields]:
    return by("name", items(get(port, path).json(), "resources"))


def assert_plain_groups(response: RawResponse) -> None:
    assert response.status == 200
    assert response.content_type == ["application/json"]
    assert response.values("cache-control") == ["no-cache, private"]
    assert response.values("etag") == response.values("vary") == []
    assert response.body.startswith(
        b'{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apiregistration.k8s.io"'
    )
    assert response.body.endswith(b"]}\n")


def assert_aggregated(response: RawResponse, like: RawResponse) -> None:
    assert response.status == 200
    assert response.content_type == [JSON_V2]
    assert response.values("vary") == ["Accept"]
    assert response.values("cache-control") == ["public"]
    assert (response.etag, response.body) == (like.etag, like.body)


def assert_not_acceptable(response: RawResponse) -> None:
    assert response.status == 406
    assert response.content_type == ["application/json"]
    assert response.values("cache-control") == ["no-cache, private"]
    assert response.body == NOT_ACCEPTABLE


def test_without_accept_the_unaggregated_list_is_the_answer(port: int) -> None:
    assert_plain_groups(get(port, "/apis"))


def test_accept_asks_for_the_aggregated_document_by_its_parameters(aggregated: RawResponse) -> None:
    assert aggregated.status == 200
    assert aggregated.content_type == [JSON_V2]
    assert aggregated.body.startswith(
        b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",'
        b'"metadata":{},"items":['
    )
    assert aggregated.body.endswith(b"]}\n")
    assert aggregated.body == RECORDED["apis"]


def test_the_aggregated_document_has_a_strong_etag_and_is_cacheable(
    aggregated: RawResponse,
) -> None:
    assert re.fullmatch('"[0-9A-F]{128}"', aggregated.etag)
    assert aggregated.values("vary") == ["Accept"]
    assert aggregated.values("cache-control") == ["public"]


def test_the_etag_is_the_sha_512_of_the_document_without_its_head(aggregated: RawResponse) -> None:
    head = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",'
    hashed = b"{" + aggregated.body.removeprefix(head).removesuffix(b"\n")
    assert aggregated.etag == f'"{hashlib.sha512(hashed).hexdigest().upper()}"'


def test_a_client_that_has_the_document_gets_304_without_body_fields(
    port: int, aggregated: RawResponse
) -> None:
    response = get(port, "/apis", JSON_V2, ("If-None-Match", aggregated.etag))
    assert response.status == 304
    assert response.body == b""
    assert response.etag == aggregated.etag
    assert response.values("vary") == ["Accept"]
    assert response.values("cache-control") == ["public"]
    names = {name for name, _ in response.headers} - {"date", "server", "connection"}
    assert names == {"etag", "vary", "cache-control"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("W/{etag}", id="weak"),
        pytest.param("*", id="star"),
        pytest.param('"x", {etag}', id="list"),
        pytest.param('"x"\r\nIf-None-Match: {etag}', id="second line"),
    ],
)
def test_if_none_match_is_read_by_rfc_9110(port: int, aggregated: RawResponse, value: str) -> None:
    """Better than kube-apiserver, which answers 200 to each of these."""
    response = get(port, "/apis", JSON_V2, ("If-None-Match", value.format(etag=aggregated.etag)))
    assert (response.status, response.body, response.content_type) == (304, b"", [])


def test_the_aggregated_etag_validates_no_plain_document(
    port: int, aggregated: RawResponse
) -> None:
    none_match = ("If-None-Match", aggregated.etag)
    assert_plain_groups(get(port, "/apis", "application/json", none_match))


def test_protobuf_comes_in_its_envelope_with_the_same_etag(
    port: int, aggregated: RawResponse
) -> None:
    response = get(port, "/apis", PROTOBUF_V2)
    assert (response.status, response.content_type) == (200, [PROTOBUF_V2])
    assert response.body[:4] == b"k8s\0"
    assert response.etag == aggregated.etag


def test_the_protobuf_document_has_the_items_of_the_json_document(
    port: int, aggregated: RawResponse
) -> None:
    envelope = runtime_pb2.Unknown.FromString(get(port, "/apis", PROTOBUF_V2).body[4:])
    assert envelope.type_meta.api_version == "apidiscovery.k8s.io/v2"
    assert envelope.type_meta.kind == "APIGroupDiscoveryList"
    assert envelope.HasField("content_encoding")
    assert envelope.HasField("content_type")
    assert (envelope.content_encoding, envelope.content_type) == ("", "")
    assert envelope.raw.startswith(bytes.fromhex("0a060a0012001a00"))
    document = discovery_pb2.APIGroupDiscoveryList.FromString(envelope.raw)
    seen = [
        (
            item.metadata.name,
            [(v.version, [r.resource for r in v.resources]) for v in item.versions],
        )
        for item in document.items
    ]
    assert seen == [
        (
            cast("Fields", item["metadata"])["name"],
            [
                (v["version"], [r["resource"] for r in items(v, "resources")])
                for v in items(item, "versions")
            ],
        )
        for item in items(aggregated.json())
    ]


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param(
            "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", id="any order"
        ),
        pytest.param(
            f"application/json;q=1, {JSON_V2};q=0.1", id="beats a plain clause of more weight"
        ),
        pytest.param(f"{JSON_V2},application/json", id="client-go"),
        pytest.param(JSON_V2.replace("application/json", "*/*"), id="a wildcard means JSON"),
        pytest.param(f"{JSON_V2};profile=nopeer", id="the profile is not echoed"),
        pytest.param(f"{JSON_V2};foo=bar;charset=utf-8", id="unknown parameters are ignored"),
    ],
)
def test_a_clause_with_the_parameters_gets_the_aggregated_document(
    port: int, aggregated: RawResponse, accept: str
) -> None:
    assert_aggregated(get(port, "/apis", accept), aggregated)


@pytest.mark.parametrize(
    "accept",
    [
        pytest.param("application/json;g=apidiscovery.k8s.io;v=v2", id="without as"),
        pytest.param(f"{JSON_V2};sv=v1", id="with sv"),
    ],
)
def test_other_clauses_with_parameters_are_not_acceptable(port: int, accept: str) -> None:
    assert_not_acceptable(get(port, "/apis", accept))


def test_without_v2beta1_a_request_for_it_alone_is_not_acceptable(no_beta_server: Server) -> None:
    assert_not_acceptable(get(no_beta_server.http_port, "/apis", JSON_V2BETA1))


def test_without_v2beta1_old_clients_fall_back_and_new_ones_get_v2(
    no_beta_server: Server, aggregated: RawResponse
) -> None:
    port = no_beta_server.http_port
    assert_plain_groups(get(port, "/apis", f"{JSON_V2BETA1},application/json"))
    assert_aggregated(get(port, "/apis", f"{JSON_V2},{JSON_V2BETA1},application/json"), aggregated)


@pytest.mark.parametrize("rest", ["", ",application/json"])
def test_v2beta1_is_served_by_default(port: int, aggregated: RawResponse, rest: str) -> None:
    """By default v2beta1 is served, where kube-apiserver has removed it."""
    response = get(port, "/apis", JSON_V2BETA1 + rest)
    assert (response.status, response.content_type) == (200, [JSON_V2BETA1])
    assert response.etag == aggregated.etag
    assert response.body == RECORDED["apis"].replace(b"k8s.io/v2", b"k8s.io/v2beta1", 1)


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize("accept", [JSON_V2, JSON_V2BETA1, PROTOBUF_V2])
def test_no_aggregated_document_is_served_by_an_old_server(
    old_server: Server, path: str, accept: str
) -> None:
    """With the gate AggregatedDiscoveryEndpoint off, clients see what Kubernetes 1.26 does."""
    port = old_server.http_port
    assert_not_acceptable(get(port, path, accept))
    response = get(port, path, f"{accept},application/json")
    assert response.undated() == get(port, path).undated()
    assert response.content_type == ["application/json"]
    assert response.values("etag") == []


def test_yaml_is_the_same_document_with_the_same_etag(port: int, aggregated: RawResponse) -> None:
    response = get(port, "/apis", YAML_V2)
    assert (response.status, response.content_type) == (200, [YAML_V2])
    assert response.etag == aggregated.etag
    assert yaml.safe_load(response.body) == aggregated.json()


def test_only_the_first_accept_line_counts(port: int) -> None:
    assert_plain_groups(get(port, "/apis", "application/json", ("Accept", JSON_V2)))


def test_apis_with_a_slash_is_never_aggregated(port: int) -> None:
    assert_not_acceptable(get(port, "/apis/", JSON_V2))
    assert_plain_groups(get(port, "/apis/", f"{JSON_V2},application/json"))


def test_apis_answers_to_post_as_to_get(port: int, aggregated: RawResponse) -> None:
    assert_aggregated(request(port, "/apis", [("Accept", JSON_V2)], method="POST"), aggregated)


def test_head_tells_all_that_get_tells_but_the_body(port: int, aggregated: RawResponse) -> None:
    response = request(port, "/apis", [("Accept", JSON_V2)], method="HEAD")
    assert (response.status, response.body) == (200, b"")
    assert (response.etag, response.content_type) == (aggregated.etag, [JSON_V2])
    assert response.values("content-length") == [str(len(aggregated.body))]


def test_api_takes_get_alone(port: int) -> None:
    response = request(port, "/api", method="POST")
    assert (response.status, response.content_type) == (405, ["application/json"])
    assert response.values("allow") == []
    assert response.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        b'"message":"the server does not allow this method on the requested resource",'
        b'"reason":"MethodNotAllowed","details":{},"code":405}\n'
    )


def test_api_is_the_core_group_alone_without_a_name(port: int, aggregated: RawResponse) -> None:
    response = get(port, "/api", JSON_V2)
    assert (response.status, response.content_type) == (200, [JSON_V2])
    (core,) = items(response.json())
    assert core["metadata"] == {}
    assert [version["version"] for version in items(core, "versions")] == ["v1"]
    assert response.etag != aggregated.etag
    assert response.body == RECORDED["api"]


def test_the_unaggregated_api_has_no_api_version_and_the_server_s_address(server: Server) -> None:
    response = get(server.http_port, "/api")
    assert (response.status, response.content_type) == (200, ["application/json"])
    assert response.body.decode() == (
        '{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":'
        f'[{{"clientCIDR":"0.0.0.0/0","serverAddress":"{server.http}"}}]}}\n'
    )


def test_api_knows_no_wildcard_but_the_full_one_and_apis_does(port: int) -> None:
    response = get(port, "/api", "application/*")
    assert (response.status, response.content_type) == (406, ["application/json"])
    available = f"406: Not Acceptable\\n\\nAvailable representations: {MEDIA_TYPES}"
    assert response.body.decode() == (
        '{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
        f'"message":"{available}","reason":"NotAcceptable","details":{{}},"code":406}}\n'
    )
    assert_plain_groups(get(port, "/apis", "application/*"))


def test_api_v1_lists_resources_and_subresources_by_path(port: int) -> None:
    response = get(port, "/api/v1")
    assert response.body.startswith(
        b'{"kind":"APIResourceList","groupVersion":"v1","resources":[{"name":"bindings",'
    )
    names = [resource["name"] for resource in items(response.json(), "resources")]
    assert names.index("pods") < names.index("pods/attach")
    assert resources(port, "/api/v1")["pods"]["storageVersionHash"] == "xPOwRZ+Yhw8="


def test_a_listed_resource_has_a_group_and_version_only_where_they_differ(port: int) -> None:
    response = get(port, "/apis/apps/v1")
    assert response.body.startswith(
        b'{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":['
    )
    listed = resources(port, "/apis/apps/v1")
    assert listed["deployments/scale"] == {
        "name": "deployments/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    assert listed["deployments"].keys().isdisjoint({"group", "version"})
    subresources = [resource for name, resource in listed.items() if "/" in str(name)]
    assert {resource["singularName"] for resource in subresources} == {""}


def test_a_group_is_the_same_with_and_without_a_slash(port: int) -> None:
    response = get(port, "/apis/apps")
    assert response.body == get(port, "/apis/apps/").body
    assert response.body == (
        b'{"kind":"APIGroup","apiVersion":"v1","name":"apps",'
        b'"versions":[{"groupVersion":"apps/v1","version":"v1"}],'
        b'"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}\n'
    )


def test_autoscaling_v2_is_preferred_in_both_kinds_of_document(
    port: int, aggregated: RawResponse
) -> None:
    plain = get(port, "/apis/autoscaling").json()
    assert [version["version"] for version in items(plain, "versions")] == ["v2", "v1"]
    assert cast("Fields", plain["preferredVersion"])["version"] == "v2"
    versions = items(group(aggregated, "autoscaling"), "versions")
    assert [version["version"] for version in versions] == ["v2", "v1"]


def test_an_aggregated_kind_of_the_same_group_version_has_neither(aggregated: RawResponse) -> None:
    (version,) = items(group(aggregated, "apps"), "versions")
    assert version["freshness"] == "Current"
    deployments = by("resource", items(version, "resources"))["deployments"]
    assert json.dumps(deployments["responseKind"]) == (
        '{"group": "", "version": "", "kind": "Deployment"}'
    )
    scale = by("subresource", items(deployments, "subresources"))["scale"]
    assert scale["responseKind"] == {"group": "autoscaling", "version": "v1", "kind": "Scale"}
    for verbs in (cast("list[str]", one["verbs"]) for one in (deployments, scale)):
        assert verbs == sorted(verbs)


def test_health_and_version_are_worded_as_by_kube_apiserver(port: int) -> None:
    verbose = get(port, "/readyz?verbose")
    checks = ["ping", "log", "local-sources", "shutdown", "store"]
    lines = "".join(f"[+]{name} ok\n" for name in checks)
    assert verbose.body.decode() == f"{lines}readyz check passed\n"
    assert verbose.content_type == ["text/plain; charset=utf-8"]
    assert verbose.values("x-content-type-options") == ["nosniff"]
    single = get(port, "/readyz/ping")
    assert (single.status, single.body) == (200, b"ok")
    excluded = get(port, "/readyz?exclude=nope&verbose")
    assert excluded.body.decode() == (
        f'{lines}warn: some health checks cannot be excluded: no matches for "nope"\n'
        "readyz check passed\n"
    )
    version = get(port, "/version")
    assert version.content_type == ["application/json"]
    assert version.body.startswith(b'{\n  "major": "1",\n  "minor": "')
    assert version.body.endswith(b'"\n}')
