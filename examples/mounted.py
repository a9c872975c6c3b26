"""An API server in Python that serves its own discovery: the gateway mounted in Starlette.

Run it, then ask:

    curl http://127.0.0.1:8082/apis/widgets.example.com
    kubectl --server http://127.0.0.1:8082 api-resources
    kubectl --server http://127.0.0.1:8082 explain widgets.size
"""

import asyncio
import json
from collections.abc import Callable

from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.health import Checks
from apidiscovery_service.http_gateway import Gateway, HttpServer, Site
from apidiscovery_service.http_gateway.openapi import OpenAPIAnswers
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.model import (
    Contribution,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Version,
)
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.openapi.recipe import Recipe
from apidiscovery_service.openapi.validation.documents import validate
from apidiscovery_service.registry import Registry
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

GROUP = "widgets.example.com"

WIDGETS = Resource(
    resource="widgets",
    response_kind=GroupVersionKind(GROUP, "v1", "Widget"),
    scope="Namespaced",
    singular_resource="widget",
    verbs=("get", "list"),
)

GVK = {"group": GROUP, "version": "v1", "kind": "Widget"}
WIDGET = {
    "type": "object",
    "description": "A widget.",
    "properties": {"size": {"type": "integer", "description": "Its size in millimetres."}},
    "x-kubernetes-group-version-kind": [GVK],
}
LISTING = {
    "responses": {"200": {"description": "OK"}},
    "x-kubernetes-action": "list",
    "x-kubernetes-group-version-kind": GVK,
}
DOCUMENT = {
    "openapi": "3.0.0",
    "info": {"title": "Widgets", "version": "v1"},
    "paths": {f"/apis/{GROUP}/v1/widgets": {"get": LISTING}},
    "components": {"schemas": {"com.example.widgets.v1.Widget": WIDGET}},
}


class OwnDocuments:
    """The OpenAPI documents that the application has; what has none gets one from discovery."""

    def __init__(self) -> None:
        self._text = validate(json.dumps(DOCUMENT).encode())

    def recipe(self, source: str, group: str, version: str) -> Recipe | None:
        """Return how the document of a group-version is made."""

        async def make() -> bytes:
            return self._text

        is_own = (source, group, version) == ("widgets", GROUP, "v1")
        return Recipe(self._text, make) if is_own else None

    def on_change(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Tell nobody: it never changes."""


def documents(registry: Registry) -> Documents:
    """Return the OpenAPI documents of all that a registry serves."""
    recipes = DocumentRecipes(registry, Declarations(registry), OwnDocuments())
    made = Documents(recipes)
    recipes.on_change(made.changed)
    return made


async def list_widgets(_request: Request) -> JSONResponse:
    """Serve the API itself, with whatever the application is written in."""
    return JSONResponse({"kind": "WidgetList", "apiVersion": f"{GROUP}/v1", "items": []})


def application() -> Starlette:
    """Return the API, and everything about its discovery below it."""
    registry = Registry()
    offer = Offer(GROUP, Version("v1", (WIDGETS,)), group_priority=1000, version_priority=15)
    registry.publish(Contribution("widgets", Precedence.BUILTIN, (offer,)))
    checks = Checks()
    checks.add("ping", lambda: None)
    site = Site(
        checks,
        Metrics(),
        server_address="127.0.0.1:8082",
        openapi=OpenAPIAnswers(documents(registry)),
    )
    gateway = Gateway(CurrentEncoding(registry), site)
    return Starlette(routes=[Route(f"/apis/{GROUP}/v1/widgets", list_widgets), Mount("/", gateway)])


if __name__ == "__main__":
    asyncio.run(HttpServer(application(), "127.0.0.1", 8082).serve())
