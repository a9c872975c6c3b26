"""The gateway below the routes of a FastAPI application: each answers what is its own."""

import asyncio
import json
from pathlib import Path

from apidiscovery_service.extension_server import ApiGroup, ApiResource, ApiVersion, discovery_app
from conforming import SCHEMA
from fastapi import FastAPI, HTTPException
from httpx2 import ASGITransport, AsyncClient
from programs import kubectl
from raw_http import AGG
from tampering import served

from tools import find_tool

V1 = "/apis/example.dev/v1"
WIDGETS = ApiResource(
    "widgets", "Widget", verbs=("get", "list"), short_names=("wd",), schema=SCHEMA
)
OAK: dict[str, object] = {
    "apiVersion": "example.dev/v1",
    "kind": "Widget",
    "metadata": {"name": "oak", "namespace": "forest"},
    "size": 3,
}


def application() -> FastAPI:
    """Return an application whose own documentation is where Kubernetes has none."""
    app = FastAPI(title="Widgets", openapi_url="/own/openapi.json", docs_url=None, redoc_url=None)

    @app.get(f"{V1}/namespaces/{{namespace}}/widgets")
    async def listed(namespace: str) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - FastAPI calls it
        items = [OAK] if namespace == "forest" else []
        return {"apiVersion": "example.dev/v1", "kind": "WidgetList", "items": items}

    @app.get(f"{V1}/namespaces/{{namespace}}/widgets/{{name}}")
    async def got(namespace: str, name: str) -> dict[str, object]:  # pyright: ignore[reportUnusedFunction] - FastAPI calls it
        if (namespace, name) != ("forest", "oak"):
            raise HTTPException(404, f"no widget {name}")
        return OAK

    app.mount("/", discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [WIDGETS])])]))
    return app


def client(app: FastAPI) -> AsyncClient:
    return AsyncClient(transport=ASGITransport(app=app), base_url="http://example.dev")


async def test_each_answers_what_is_its_own() -> None:
    async with client(application()) as http:
        widgets = await http.get(f"{V1}/namespaces/forest/widgets")
        missing = await http.get(f"{V1}/namespaces/forest/widgets/elm")
        resources = await http.get(V1)
        nothing = await http.get("/apis/example.dev/v2")
        ready = await http.get("/readyz")
    assert widgets.json()["items"] == [OAK]
    assert (missing.status_code, missing.json()) == (404, {"detail": "no widget elm"})
    assert [found["name"] for found in resources.json()["resources"]] == ["widgets"]
    assert (nothing.status_code, nothing.text) == (404, "404 page not found\n")
    assert ready.text == "ok"


async def test_both_openapi_documents_are_served() -> None:
    async with client(application()) as http:
        own = (await http.get("/own/openapi.json")).json()
        index = (await http.get("/openapi/v3")).json()["paths"]
        kubernetes = (await http.get(index[V1.removeprefix("/")]["serverRelativeURL"])).json()
    assert own["info"]["title"] == "Widgets"
    assert f"{V1}/namespaces/{{namespace}}/widgets" in own["paths"]
    assert "dev.example.v1.Widget" in kubernetes["components"]["schemas"]


async def test_a_real_server_answers_304_to_who_knows() -> None:
    async with served(application()) as url, AsyncClient(base_url=url) as http:
        first = await http.get("/apis", headers={"accept": AGG})
        known = {"accept": AGG, "if-none-match": first.headers["etag"]}
        second = await http.get("/apis", headers=known)
        widgets = await http.get(f"{V1}/namespaces/forest/widgets")
    assert (first.status_code, first.headers["content-type"]) == (200, AGG)
    assert [item["metadata"]["name"] for item in first.json()["items"]] == ["example.dev"]
    assert (second.status_code, second.content) == (304, b"")
    assert widgets.json()["items"] == [OAK]


async def test_kubectl_finds_and_reads_what_the_application_serves(tmp_path: Path) -> None:
    find_tool("kubectl")
    async with served(application()) as url:

        async def ask(*args: str) -> str:
            outcome = await asyncio.to_thread(kubectl, tmp_path, "--server", url, *args)
            assert outcome.exit_code == 0, outcome.stderr
            return outcome.stdout

        resources = await ask("api-resources", "--no-headers")
        explained = await ask("explain", "widgets.size")
        oak = await ask("get", "wd", "oak", "-n", "forest", "-o", "json")
    assert resources.split() == ["widgets", "wd", "example.dev/v1", "true", "Widget"]
    assert "Its size in millimetres." in explained
    assert json.loads(oak) == OAK
