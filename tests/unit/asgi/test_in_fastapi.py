"""The gateway below the routes of a FastAPI application: each answers what is its own."""

from apidiscovery_service.extension_server import ApiGroup, ApiResource, ApiVersion, discovery_app
from conforming import SCHEMA
from fastapi import FastAPI, HTTPException
from httpx2 import ASGITransport, AsyncClient

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
