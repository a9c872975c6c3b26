"""Schemas of a real process: of its catalogue, of clusters and views, and of former times."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apidiscovery_client.openapi.json_documents import load
from apidiscovery_client.openapi.json_schema import Kind, json_schema
from crd_manifests import simple
from fake_api_server import Answer, FakeApiServer, aggregated, openapi_routes
from jsonschema import Draft7Validator  # type: ignore[import-untyped] # it has no types here
from raw_http import RawResponse, get
from schema_kinds import document_of
from server import Serve, Server
from upstream_setup import item
from waiting import eventually

DRAFT7: Any = Draft7Validator
SPEC: dict[str, Any] = {
    "replicas": 3,
    "selector": {"matchLabels": {"app": "web"}},
    "template": {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    },
}
NAMED: dict[str, Any] = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
DEPLOYMENT = {**NAMED, "spec": SPEC}
MISSPELT = {**NAMED, "spec": {**SPEC, "replcas": 3}}
MISTYPED = {**NAMED, "spec": {**SPEC, "replicas": "three"}}


def ask(server: Server, path: str, *lines: tuple[str, str]) -> RawResponse:
    return get(server.http_port, path, "*/*", *lines)


def errors(schema: object, value: object) -> list[str]:
    """Return the paths of what is wrong in a value."""
    DRAFT7.check_schema(schema)
    return ["/".join(map(str, error.path)) for error in DRAFT7(schema).iter_errors(value)]


def test_schemas_judge_manifests(server: Server) -> None:
    schema = ask(server, "/schemas/apps/deployment_v1.json").json()
    assert [errors(schema, value) for value in (DEPLOYMENT, MISSPELT)] == [[], []]
    assert errors(schema, MISTYPED) == ["spec/replicas"]
    assert errors(schema, {**DEPLOYMENT, "kind": "StatefulSet"}) == ["kind"]
    strict = ask(server, "/schemas/apps/deployment_v1.json?strict=true").json()
    assert [errors(strict, value) for value in (DEPLOYMENT, MISSPELT)] == [[], ["spec"]]


def test_recursion_ends(server: Server) -> None:
    path = "/schemas/apiextensions.k8s.io/customresourcedefinition_v1.json"
    definition = simple("things", "nested.example.com")
    assert errors(ask(server, path).json(), definition) == []


def test_every_schema_of_the_index_is_there_and_sound(server: Server) -> None:
    index: Any = ask(server, "/schemas/").json()
    assert index["failures"] == {}
    found = {(each["group"], each["version"], each["kind"]) for each in index["schemas"]}
    assert {("", "v1", "Pod"), ("apps", "v1", "Deployment"), ("batch", "v1", "CronJob")} <= found
    for each in index["schemas"][::5]:
        schema = ask(server, f"/schemas/{each['url']}").json()
        DRAFT7.check_schema(schema)
        enum: Any = schema["properties"]
        assert enum["kind"]["enum"] == [each["kind"]]


def test_a_schema_is_what_the_client_makes_of_the_document(server: Server) -> None:
    document = load(ask(server, "/openapi/v3/apis/batch/v1").body, "it")
    for strict in (False, True):
        served = ask(server, f"/schemas/batch/job_v1.json?strict={str(strict).lower()}").json()
        assert served == json_schema(document, Kind("batch", "v1", "Job"), strict=strict)


def routes(**properties: object) -> dict[str, Answer]:
    text = document_of("a.example.com", "v1", {"Widget": properties})
    return {
        "/api": aggregated(),
        "/apis": aggregated(item("a.example.com")),
        **openapi_routes({"apis/a.example.com/v1": text}),
    }


WIDGET = "/schemas/a.example.com/widget_v1.json"


def test_clusters_views_and_former_times(serve: Serve, tmp_path: Path) -> None:
    with (
        FakeApiServer(routes(size={"type": "integer"})) as east,
        FakeApiServer(routes(west={"type": "string"})) as west,
    ):
        quick = {"poll-interval": "200ms", "openapi-interval": "200ms"}
        clusters = {"east": {"url": east.url, **quick}, "west": {"url": west.url, **quick}}
        settings = {"upstreams": clusters, "views": {"all": {"of": "union"}}}
        (tmp_path / "config.json").write_text(json.dumps(settings))
        server = serve(
            *("--catalog", "none", "--store", "memory"), "--config", str(tmp_path / "config.json")
        )

        def fields(path: str) -> set[str]:
            answer = ask(server, path)
            properties: Any = answer.json().get("properties") or {"spec": {"properties": {}}}
            return set(properties["spec"]["properties"]) if answer.status == 200 else set()

        def becomes(path: str, *wanted: str) -> None:
            eventually(lambda: fields(path) == set(wanted), f"{path} has {wanted}")

        becomes(f"/clusters/east{WIDGET}", "size")
        becomes(f"/clusters/west{WIDGET}", "west")
        becomes(f"/views/all{WIDGET}", "size")
        for prefix in ("/clusters/east", "/views/all"):
            index: Any = ask(server, f"{prefix}/schemas/").json()
            assert [each["url"] for each in index["schemas"]] == ["a.example.com/widget_v1.json"]
            assert ask(server, f"{prefix}/facts/kubernetes.json").status == 404
        then = eventually(lambda: remembered(server, {"size"}), "it is remembered")
        east.answers = routes(colour={"type": "string"})
        becomes(f"/clusters/east{WIDGET}", "colour")
        becomes(f"/views/all{WIDGET}", "colour")
        assert ask(server, f"/views/all{WIDGET}?at={then}").status == 400
        assert ask(server, f"/views/all/apis?at={then}").status == 400
        old = ask(server, f"/clusters/east{WIDGET}?at={then}")
        assert spec_of(old) == {"size"}
        assert old.values("memento-datetime")[0].endswith("GMT")
        again = ask(
            server, f"/clusters/east{WIDGET}?at={then}", ("If-None-Match", old.values("etag")[0])
        )
        assert again.status == 304
        past: Any = ask(server, f"/clusters/east/schemas/?at={then}").json()
        (listed,) = past["schemas"]
        assert spec_of(ask(server, f"/clusters/east/schemas/{listed['url']}")) == {"size"}


def remembered(server: Server, wanted: set[str]) -> str | None:
    """Return a time at which the history has a schema with some fields; None before."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    answer = ask(server, f"/clusters/east{WIDGET}?at={now}")
    return now if answer.status == 200 and spec_of(answer) == wanted else None


def spec_of(answer: RawResponse) -> set[str]:
    properties: Any = answer.json()["properties"]
    return set(properties["spec"]["properties"])
