"""The fake API server answers as kube-apiserver does."""

import gzip
import http.client
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import ambiguous_cluster
import pytest
import yaml
from apidiscovery_client import _reading, _writing
from apidiscovery_client.model import GroupVersionKind
from apidiscovery_client.testing import FakeApiServer, builtin_groups, group, resource
from asking_fake import JSON, PROTOBUF, YAML, ask
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2
from repository import GOLDEN

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(scope="module")
def server() -> Iterator[FakeApiServer]:
    """Yield a server that no test changes."""
    with FakeApiServer() as started:
        yield started


@pytest.fixture(scope="module")
def recorded_server() -> Iterator[FakeApiServer]:
    """Yield a server of the groups that `tests/golden/builtin` has the documents of."""
    with FakeApiServer(ambiguous_cluster.builtin_groups()) as started:
        yield started


@pytest.mark.parametrize("name", ["api", "apis"])
@pytest.mark.parametrize(
    ("accept", "ending"), [(JSON_V2, "json"), (PROTOBUF_V2, "pb"), (YAML_V2, "yaml")]
)
def test_aggregated_documents_are_those_of_kubernetes(
    recorded_server: FakeApiServer, name: str, accept: str, ending: str
) -> None:
    reply = ask(recorded_server, f"/{name}", accept)
    assert reply.body == (GOLDEN / "builtin" / f"{name}.v2.{ending}").read_bytes()
    etag = (GOLDEN / "builtin" / f"{name}.etag").read_text().strip().strip('"')
    assert (reply.status, reply.headers["content-type"]) == (200, accept)
    assert reply.headers["etag"] == f'"{etag}"'
    assert reply.headers["vary"] == "Accept"
    assert reply.headers["cache-control"] == "public"


def test_v2beta1_has_the_etag_of_v2() -> None:
    with FakeApiServer(release="1.30") as server:
        etags = {ask(server, "/apis", accept).headers["etag"] for accept in (JSON_V2, JSON_V2BETA1)}
    assert len(etags) == 1


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_304_answers_exactly_the_etag_of_the_document(server: FakeApiServer, path: str) -> None:
    etag = ask(server, path, JSON_V2).headers["etag"]
    for accept in (JSON_V2, PROTOBUF_V2):
        reply = ask(server, path, accept, headers={"If-None-Match": etag})
        assert (reply.status, reply.body) == (304, b"")
        assert reply.headers["etag"] == etag
        assert "content-type" not in reply.headers
    for other in (etag.strip('"'), f"W/{etag}", "*", f'{etag}, "x"', etag.lower()):
        assert ask(server, path, JSON_V2, headers={"If-None-Match": other}).status == 200
    plain = ask(server, path, JSON, headers={"If-None-Match": etag})
    assert (plain.status, plain.headers.get("etag")) == (200, None)


def test_unaggregated_documents_are_plain(server: FakeApiServer) -> None:
    core, named = builtin_groups()[0], builtin_groups()[1:]
    address = server.url.removeprefix("http://")
    apps = next(found for found in named if found.name == "apps")
    for path, body in {
        "/api": _writing.core_versions_fields(core, address),
        "/apis": _writing.group_list_fields(named),
        "/api/v1": _writing.resource_list_fields(core.versions[0]),
        "/apis/apps": _writing.group_fields(apps),
        "/apis/apps/v1": _writing.resource_list_fields(apps.versions[0]),
    }.items():
        for asked in (path, f"{path}/"):
            reply = ask(server, asked)
            assert (reply.status, reply.headers["content-type"]) == (200, JSON)
            assert reply.headers["cache-control"] == "no-cache, private"
            assert reply.body == _writing.document_json(body)


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/api/v1"])
def test_unaggregated_documents_are_there_in_protobuf_and_yaml(
    server: FakeApiServer, path: str
) -> None:
    encoded = ask(server, path, PROTOBUF)
    assert encoded.body.startswith(b"k8s\x00")
    assert encoded.headers["content-type"] == PROTOBUF
    assert yaml.safe_load(ask(server, path, YAML).body) == ask(server, path).json


def test_a_slash_at_the_end_of_apis_is_never_aggregated(server: FakeApiServer) -> None:
    assert ask(server, "/apis/", f"{JSON_V2},{JSON}").json["kind"] == "APIGroupList"
    assert ask(server, "/api/", f"{JSON_V2},{JSON}").json["kind"] == "APIGroupDiscoveryList"


def test_apis_takes_any_method_and_api_takes_get_alone(server: FakeApiServer) -> None:
    head = ask(server, "/apis", JSON_V2, method="HEAD")
    assert (head.status, head.body) == (200, b"")
    assert int(head.headers["content-length"]) > 10_000
    assert ask(server, "/apis", JSON_V2, method="POST", body=b"{}").status == 200
    refused = ask(server, "/api", JSON_V2, method="HEAD")
    assert (refused.status, refused.body) == (405, b"")
    assert ask(server, "/apis/apps/v1", method="PUT").json["reason"] == "MethodNotAllowed"


def test_406_is_indented_and_without_a_line_feed(server: FakeApiServer) -> None:
    reply = ask(server, "/apis", JSON_V2BETA1)
    assert (reply.status, reply.headers["content-type"]) == (406, JSON)
    assert reply.body.startswith(b'{\n  "kind": "Status",\n')
    assert reply.body.endswith(b'"code": 406\n}')
    assert b"accepted: application/json, application/yaml, application/vnd" in reply.body
    restful = ask(server, "/api", "application/*")
    assert restful.json["message"].startswith("406: Not Acceptable\n\nAvailable representations:")


@pytest.mark.parametrize("path", ["/apis/nope", "/apis/nope/v1", "/apis/apps/v9", "/api/v2", "/x"])
def test_404_is_text(server: FakeApiServer, path: str) -> None:
    reply = ask(server, path, JSON)
    assert (reply.status, reply.body) == (404, b"404 page not found\n")
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.headers["x-content-type-options"] == "nosniff"


def test_objects_are_not_there(server: FakeApiServer) -> None:
    reply = ask(server, "/apis/apps/v1/deployments?limit=500", JSON)
    assert reply.body == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"the '
        b'server could not find the requested resource","reason":"NotFound","details":{},'
        b'"code":404}\n'
    )


def test_json_is_indented_for_curl_and_with_pretty(server: FakeApiServer) -> None:
    for path, agent in (("/apis", "curl/8.0"), ("/apis?pretty=true", "x")):
        reply = ask(server, path, JSON_V2, headers={"User-Agent": agent})
        assert reply.body.startswith(b'{\n  "kind": "APIGroupDiscoveryList",\n')
        assert not reply.body.endswith(b"\n")
    compact = ask(server, "/apis?pretty=0", JSON_V2, headers={"User-Agent": "curl/8.0"})
    assert compact.body.startswith(b'{"kind":')


def test_health_version_openapi_and_the_root_are_there() -> None:
    with FakeApiServer(release="1.29") as server:
        for path in ("/healthz", "/livez", "/readyz"):
            assert ask(server, path).body == b"ok"
        assert ask(server, "/version").json["gitVersion"] == "v1.29.14"
        assert ask(server, "/openapi/v3").json == {"paths": {}}
        assert {"/apis/apps/v1", "/api/v1", "/version"} <= set(ask(server, "/").json["paths"])


def test_large_answers_are_compressed_if_gzip_is_accepted() -> None:
    many = [resource(f"widgets{number}", f"Widget{number}") for number in range(1000)]
    with FakeApiServer([group("example.com", v1=many)]) as server:
        small = ask(server, "/api", JSON_V2, headers={"Accept-Encoding": "gzip"})
        large = ask(server, "/apis", JSON_V2, headers={"Accept-Encoding": "br, gzip"})
        plain = ask(server, "/apis", JSON_V2, headers={"Accept-Encoding": "gzip;q=1"})
        assert "content-encoding" not in small.headers
        assert "content-encoding" not in plain.headers
        assert large.headers["content-encoding"] == "gzip"
        assert gzip.decompress(large.body) == plain.body
        assert large.headers["etag"] == plain.headers["etag"]


@pytest.mark.parametrize(
    ("release", "content_types"),
    [
        ("1.7", [JSON, JSON, JSON]),
        ("1.15", [JSON, JSON, JSON]),
        ("1.26", [JSON, JSON, JSON]),
        ("1.27", [JSON_V2BETA1, JSON_V2BETA1, JSON]),
        ("1.30", [JSON_V2, JSON_V2BETA1, JSON_V2]),
        ("1.33", [JSON_V2, JSON, JSON_V2]),
        ("1.36", [JSON_V2, JSON, JSON_V2]),
    ],
)
def test_releases_have_what_they_had(release: str, content_types: list[str]) -> None:
    accepts = [f"{JSON_V2},{JSON_V2BETA1},{JSON}", f"{JSON_V2BETA1},{JSON}", f"{JSON_V2},{JSON}"]
    with FakeApiServer(release=release) as server:
        for accept, content_type in zip(accepts, content_types, strict=True):
            for path in ("/api", "/apis"):
                assert ask(server, path, accept).headers["content-type"] == content_type
        if JSON_V2 not in content_types:
            assert ask(server, "/apis", JSON_V2).status == 406


def test_groups_have_a_creation_timestamp_before_1_34() -> None:
    with FakeApiServer(release="1.33") as server:
        before = ask(server, "/apis", JSON_V2)
        server.old("1.34")
        after = ask(server, "/apis", JSON_V2)
    assert b'{"name":"apps","creationTimestamp":null}' in before.body
    assert b'{"name":"apps"}' in after.body
    assert before.headers["etag"] != after.headers["etag"]
    assert _writing.etag_of(before.body) in before.headers["etag"]


def test_half_of_a_cluster_may_be_upgraded() -> None:
    with FakeApiServer(release="1.36") as server:
        server.old("1.26", "/api")
        accept = f"{JSON_V2},{JSON}"
        assert ask(server, "/api", accept).headers["content-type"] == JSON
        assert ask(server, "/apis", accept).headers["content-type"] == JSON_V2
        server.old("1.36")
        assert ask(server, "/api", accept).headers["content-type"] == JSON_V2


def test_a_malformed_release_is_refused() -> None:
    with pytest.raises(ValueError, match=r"is not a release of Kubernetes; write it as '1\.30'"):
        FakeApiServer([], release="latest")


def test_only_api_and_apis_have_a_release_of_their_own(server: FakeApiServer) -> None:
    with pytest.raises(ValueError, match="wanted '/api' or '/apis'"):
        server.old("1.26", "/apis/apps")


def test_groups_are_served_as_they_were_built() -> None:
    built = group(
        "example.com",
        v1=[
            resource(
                "widgets",
                "Widget",
                short_names=["wd"],
                categories=["all"],
                subresources=["status", "scale"],
            ),
            resource("clusterwidgets", "ClusterWidget", namespaced=False, verbs=["get"]),
        ],
        v1alpha1=[],
    )
    with FakeApiServer([built]) as server:
        reply = ask(server, "/apis", JSON_V2)
        (listed,) = _reading.read_document("/apis", JSON_V2, reply.body, NOW).groups
        assert listed == built
        assert ask(server, "/api", JSON_V2).json["items"] == []
        assert ask(server, "/api").json["versions"] == []
        names = [line["name"] for line in ask(server, "/apis/example.com/v1").json["resources"]]
        assert names == ["widgets", "widgets/status", "widgets/scale", "clusterwidgets"]
        assert ask(server, "/apis/example.com").json["preferredVersion"]["version"] == "v1"
        assert ask(server, "/apis/example.com/v1alpha1").json["resources"] == []
    widgets, cluster = listed.versions[0].resources
    assert widgets.gvk == GroupVersionKind("example.com", "v1", "Widget")
    assert widgets.subresources[1].response_kind == GroupVersionKind("autoscaling", "v1", "Scale")
    assert (cluster.scope, cluster.singular_name) == ("Cluster", "clusterwidget")


def test_names_that_are_no_path_are_found_quoted() -> None:
    odd = group("a/b é", **{"v 1": [resource("widgets", "Widget")]})
    with FakeApiServer([odd]) as server:
        assert ask(server, odd.versions[0].gv.path).json["groupVersion"] == "a/b é/v 1"


def test_connections_are_kept(server: FakeApiServer) -> None:
    server.forget_requests()
    host = server.url.removeprefix("http://")
    with closing(http.client.HTTPConnection(host, timeout=10)) as connection:
        for method, path in (("GET", "/apis"), ("HEAD", "/apis"), ("POST", "/apis"), ("GET", "/x")):
            connection.request(method, path, body=b"1234" if method == "POST" else None)
            connection.getresponse().read()
            assert connection.sock is not None
    assert server.paths == ("/apis", "/apis", "/apis", "/x")
