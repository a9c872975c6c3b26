"""The discovery of an application: its bytes, its changes, and the application beside it."""

import hashlib
import json
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest
from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiVersion,
    InvalidFields,
    discovery_app,
)
from conforming import GROUPS, SHELVES, WIDGETS, extension
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2
from repository import GOLDEN
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse
from starlette.routing import Mount, Route

RECORDED = GOLDEN / "asgi"
ONE = [ApiGroup("example.dev", [ApiVersion("v1", [SHELVES])])]
TWO = [ApiGroup("example.dev", [ApiVersion("v1", [SHELVES, replace(SHELVES, plural="racks")])])]


def client(app: Callable[..., Awaitable[None]]) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=app),
        base_url="http://example.dev",
        headers={"accept-encoding": "identity"},
    )


# Bytes.


@pytest.mark.parametrize(
    ("path", "accept", "name"),
    [
        ("/apis", JSON_V2, "aggregated.json"),
        ("/apis/", JSON_V2, "aggregated.json"),
        ("/apis", YAML_V2, "aggregated.yaml"),
        ("/apis", "application/json", "groups.json"),
        ("/apis/example.dev", "application/json", "group.json"),
        ("/apis/example.dev/v1", "application/json", "resources.json"),
    ],
)
async def test_documents_are_these_bytes(path: str, accept: str, name: str) -> None:
    async with client(extension()) as http:
        answer = await http.get(path, headers={"accept": accept})
    assert answer.status_code == 200
    assert answer.content == (RECORDED / name).read_bytes()


async def test_the_etag_is_the_hash_of_the_document_in_every_form() -> None:
    app = extension()
    async with client(app) as http:
        answer = await http.get("/apis", headers={"accept": JSON_V2})
        head = b'{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2",'
        hashed = b"{" + answer.content.removeprefix(head).rstrip(b"\n")
        etag = f'"{hashlib.sha512(hashed).hexdigest().upper()}"'
        assert answer.headers["etag"] == etag == f'"{app.etag}"'
        for accept in (PROTOBUF_V2, YAML_V2, JSON_V2BETA1, f"{JSON_V2},{JSON_V2BETA1}"):
            other = await http.get("/apis", headers={"accept": accept})
            assert (other.status_code, other.headers["etag"]) == (200, etag)
            known = {"accept": accept, "if-none-match": etag}
            assert (await http.get("/apis", headers=known)).status_code == 304


async def test_equal_groups_have_equal_etags_whatever_their_order() -> None:
    assert extension().etag == discovery_app(GROUPS[::-1]).etag


async def test_defaults_are_filled_in() -> None:
    app = discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [ApiResource("as", "AB")])])])
    async with client(app) as http:
        found = (await http.get("/apis/example.dev/v1")).json()["resources"]
        document = (await http.get("/openapi/v3/apis/example.dev/v1")).json()
    assert found == [
        {
            "name": "as",
            "singularName": "ab",
            "namespaced": True,
            "kind": "AB",
            "verbs": ["get", "list"],
        }
    ]
    assert {"dev.example.v1.AB", "dev.example.v1.ABList"} <= document["components"][
        "schemas"
    ].keys()
    assert document["x-apidiscovery-generated"] == "from discovery, for no schema is declared"


async def test_priorities_decide_the_order() -> None:
    groups = [
        ApiGroup("a.dev", [ApiVersion("v1"), ApiVersion("v2"), ApiVersion("v3alpha1")]),
        ApiGroup("b.dev", [ApiVersion("v1"), ApiVersion("v1beta1", priority=20)], priority=2000),
    ]
    async with client(discovery_app(groups)) as http:
        found = (await http.get("/apis", headers={"accept": JSON_V2})).json()["items"]
    versions = {
        item["metadata"]["name"]: [one["version"] for one in item["versions"]] for item in found
    }
    assert list(versions.items()) == [
        ("b.dev", ["v1beta1", "v1"]),
        ("a.dev", ["v2", "v1", "v3alpha1"]),
    ]


# OpenAPI.


async def test_a_schema_becomes_a_document_with_its_paths() -> None:
    async with client(extension()) as http:
        index = (await http.get("/openapi/v3")).json()["paths"]
        answer = await http.get(index["apis/example.dev/v1"]["serverRelativeURL"])
    assert answer.headers["cache-control"] == "public, immutable"
    document = answer.json()
    assert "x-apidiscovery-generated" not in document
    widget = document["components"]["schemas"]["dev.example.v1.Widget"]
    assert set(widget["properties"]) == {"apiVersion", "kind", "metadata", "size"}
    gvk = {"group": "example.dev", "kind": "Widget", "version": "v1"}
    assert widget["x-kubernetes-group-version-kind"] == [gvk]
    # Without a schema, unknown fields are kept.
    shelf = document["components"]["schemas"]["dev.example.v1.Shelf"]
    assert shelf["x-kubernetes-preserve-unknown-fields"] is True
    root = "/apis/example.dev/v1"
    assert {
        f"{root}/namespaces/{{namespace}}/widgets/{{name}}/spin",
        f"{root}/shelves/{{name}}",
        f"{root}/widgets",
    } <= document["paths"].keys()


async def test_a_list_kind_is_called_as_declared() -> None:
    shelf = replace(SHELVES, list_kind="ShelfCollection")
    app = discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [shelf])])])
    async with client(app) as http:
        schemas = (await http.get("/openapi/v3/apis/example.dev/v1")).json()["components"][
            "schemas"
        ]
    assert "dev.example.v1.ShelfCollection" in schemas
    assert "dev.example.v1.ShelfList" not in schemas


async def test_an_old_hash_gets_the_document_and_no_redirection() -> None:
    """kube-aggregator makes an error of redirections."""
    async with client(extension()) as http:
        old = await http.get("/openapi/v3/apis/example.dev/v1?hash=0")
        now = await http.get("/openapi/v3/apis/example.dev/v1")
    assert (old.status_code, old.content) == (200, now.content)
    assert old.headers["cache-control"] == "no-cache, private"


async def test_a_given_document_is_served_as_it_is() -> None:
    own = {
        "openapi": "3.0.0",
        "info": {"title": "Own", "version": "v1"},
        "paths": {},
        "components": {"schemas": {"Shelf": {"type": "object"}}},
    }
    app = discovery_app(ONE, openapi={"example.dev/v1": own})
    async with client(app) as http:
        assert (await http.get("/openapi/v3/apis/example.dev/v1")).json() == own
        app.update(TWO)  # it stays, for it was given for the group-version
        assert (await http.get("/openapi/v3/apis/example.dev/v1")).json() == own
        app.update(TWO, {})
        assert (await http.get("/openapi/v3/apis/example.dev/v1")).json() != own


async def test_a_declared_schema_is_not_changed() -> None:
    schema = {"type": "object", "properties": {"size": {"x-kubernetes-int-or-string": True}}}
    before = json.dumps(schema)
    discovery_app([ApiGroup("a.dev", [ApiVersion("v1", [replace(WIDGETS, schema=schema)])])])
    assert json.dumps(schema) == before


# Changes.


async def test_an_update_is_served_at_once_with_another_etag() -> None:
    app = discovery_app(ONE)
    async with client(app) as http:
        first = await http.get("/apis", headers={"accept": JSON_V2})
        index = (await http.get("/openapi/v3")).json()
        known = {"accept": JSON_V2, "if-none-match": first.headers["etag"]}
        app.update(ONE)
        assert (await http.get("/apis", headers=known)).status_code == 304
        app.update(TWO)
        second = await http.get("/apis", headers=known)
        assert second.status_code == 200
        assert second.headers["etag"] != first.headers["etag"]
        names = [
            one["name"] for one in (await http.get("/apis/example.dev/v1")).json()["resources"]
        ]
        assert names == ["shelves", "racks"]
        assert (await http.get("/openapi/v3")).json() != index
        app.update(ONE)
        again = await http.get("/apis", headers={"accept": JSON_V2})
        assert again.content == first.content
        assert again.headers["etag"] == first.headers["etag"]
        assert (await http.get("/openapi/v3")).json() == index


async def test_a_schema_alone_can_change() -> None:
    app = discovery_app(ONE)
    described = replace(SHELVES, schema={"type": "object", "description": "A shelf."})
    async with client(app) as http:
        etag = app.etag
        app.update([ApiGroup("example.dev", [ApiVersion("v1", [described])])])
        document = (await http.get("/openapi/v3/apis/example.dev/v1")).json()
    assert app.etag == etag
    schema = document["components"]["schemas"]["dev.example.v1.Shelf"]
    assert schema["description"] == "A shelf."


async def test_a_wrong_update_changes_nothing() -> None:
    app = discovery_app(ONE)
    etag = app.etag
    with pytest.raises(InvalidFields, match=r"groups\[1\]\.name"):
        app.update([*TWO, ApiGroup("Bad", [ApiVersion("v1")])])
    assert app.etag == etag
    async with client(app) as http:
        app.update([])
        assert (await http.get("/apis")).json()["groups"] == []
        assert (await http.get("/apis/example.dev")).status_code == 404


# The application beside it.


async def shelves(_: Request) -> JSONResponse:
    return JSONResponse({"kind": "ShelfList", "apiVersion": "example.dev/v1", "items": []})


async def anything(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"own {request.url.path}")


def of_its_own() -> Starlette:
    return Starlette(
        routes=[
            Route("/apis/example.dev/v1/shelves", shelves),
            Route("/{path:path}", anything, methods=["GET", "POST"]),
        ]
    )


@pytest.mark.parametrize(
    "path",
    [
        "/apis",
        "/apis/",
        "/apis/example.dev",
        "/apis/example.dev/v1",
        "/apis/example.dev/v1/",
        pytest.param("/openapi/v2", marks=pytest.mark.process),  # a worker makes it
        "/openapi/v3",
        "/openapi/v3/apis/example.dev/v1",
        "/version",
        "/healthz",
        "/livez",
        "/readyz",
        "/readyz/ping",
    ],
)
async def test_beside_a_wrapped_application_it_answers_its_own_paths(path: str) -> None:
    async with (
        client(discovery_app(ONE)) as alone,
        client(discovery_app(ONE, app=of_its_own())) as http,
    ):
        want, got = await alone.get(path), await http.get(path)
    assert got.status_code == 200
    assert (got.content, got.headers.get("etag")) == (want.content, want.headers.get("etag"))


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/metrics",
        "/openapi",
        "/api/users",
        "/schemas",
        "/schemas/",
        "/schemas/example.dev/shelf_v1.json",
        "/facts/kubernetes.json",
        "/apis/other.dev",
        "/apis/other.dev/v1",
        "/apis/example.dev/v2",
        "/apis/example.dev/v1/other",
    ],
)
async def test_a_wrapped_application_answers_the_other_paths(path: str) -> None:
    async with client(discovery_app(ONE, app=of_its_own())) as http:
        for method in ("GET", "POST"):
            assert (await http.request(method, path)).text == f"own {path}"
        assert (await http.get("/apis/example.dev/v1/shelves")).json()["kind"] == "ShelfList"
        assert (await http.post("/apis/example.dev/v1/shelves")).status_code in (200, 405)


async def test_there_is_never_a_core_group() -> None:
    mounted = Starlette(routes=[Mount("/", discovery_app(ONE))])
    for app in (mounted, discovery_app(ONE, app=of_its_own())):
        async with client(app) as http:
            for path in ("/api", "/api/"):
                answer = await http.get(path, headers={"accept": f"{JSON_V2},application/json"})
                assert (answer.status_code, answer.text) == (404, "404 page not found\n")


async def test_an_update_changes_the_paths_of_the_wrapped_application() -> None:
    app = discovery_app(ONE, app=of_its_own())
    async with client(app) as http:
        assert (await http.get("/apis/new.dev")).text == "own /apis/new.dev"
        app.update([ApiGroup("new.dev", [ApiVersion("v1", [SHELVES])])])
        assert (await http.get("/apis/new.dev")).json()["kind"] == "APIGroup"
        assert (await http.get("/apis/example.dev")).text == "own /apis/example.dev"


async def test_below_a_prefix_it_answers_its_own_paths() -> None:
    app = Starlette(routes=[Mount("/one", discovery_app(ONE, app=of_its_own()))])
    async with client(app) as http:
        assert (await http.get("/one/apis/example.dev")).json()["kind"] == "APIGroup"
        assert (await http.get("/one/nothing")).text.startswith("own ")


@pytest.mark.parametrize(
    ("root_path", "path"),
    [("/api", "/apis"), ("/api", "/api/apis"), ("/api/", "/api/apis"), ("/a", "/apis")],
)
@pytest.mark.parametrize("wraps", [False, True])
async def test_a_root_path_is_removed_in_whole_segments(
    root_path: str, path: str, *, wraps: bool
) -> None:
    app = discovery_app(ONE, app=of_its_own() if wraps else None)
    transport = httpx2.ASGITransport(app=app, root_path=root_path)
    async with httpx2.AsyncClient(transport=transport, base_url="http://host") as http:
        assert (await http.get(path)).json()["kind"] == "APIGroupList"


async def test_mounted_last_it_answers_paths_without_another_route() -> None:
    own = Route("/apis/example.dev/v1/shelves", shelves)
    async with client(Starlette(routes=[own, Mount("/", discovery_app(ONE))])) as http:
        assert (await http.get("/apis/example.dev/v1/shelves")).json()["kind"] == "ShelfList"
        assert (await http.get("/apis/example.dev/v1")).json()["kind"] == "APIResourceList"
        unrouted = (await http.get("/apis/example.dev/v1/shelves/one")).json()
        assert unrouted["message"].endswith("no route of this server answers the path")
        missing = await http.get("/apis/example.dev/v1/nothing")
        assert (missing.status_code, missing.json()["kind"]) == (404, "Status")
        index = (await http.get("/")).json()["paths"]
        assert "/apis/example.dev/v1" in index
        assert "/api" not in index


async def test_checks_of_the_application_decide_whether_it_is_ready() -> None:
    wrong: list[str] = ["no database"]
    app = discovery_app(ONE, checks={"database": lambda: wrong[0] if wrong else None})
    async with client(app) as http:
        assert (await http.get("/readyz")).status_code == 500
        text = (await http.get("/readyz/database")).text
        assert text == "internal server error: no database\n"
        wrong.clear()
        assert (await http.get("/readyz")).text == "ok"


async def test_answers_do_not_depend_on_the_caller() -> None:
    async with client(extension()) as http:
        want = await http.get("/apis", headers={"accept": JSON_V2})
        for user in ("system:kube-aggregator", "system:anonymous"):
            headers = {"accept": JSON_V2, "x-remote-user": user, "x-remote-group": "system:masters"}
            assert (await http.get("/apis", headers=headers)).content == want.content


async def test_the_wrapped_application_gets_lifespan_and_websockets() -> None:
    seen: list[str] = []

    async def app(scope: MutableMapping[str, Any], *_: object) -> None:
        seen.append(scope["type"])

    async def nothing(*_: object) -> MutableMapping[str, Any]:
        return {}

    async def sent(_: MutableMapping[str, Any]) -> None:
        return

    wrapped = discovery_app(ONE, app=app)
    for kind in ("lifespan", "websocket"):
        await wrapped({"type": kind, "path": "/apis"}, nothing, sent)
    assert seen == ["lifespan", "websocket"]


async def test_alone_it_goes_through_the_lifespan_protocol() -> None:
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[object] = []

    async def receive() -> dict[str, object]:
        return {"type": next(received)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])

    await discovery_app(ONE)({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
