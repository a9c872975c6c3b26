"""An API server in Python that serves its own discovery: the gateway mounted in Starlette.

Run it, then ask:

    curl http://127.0.0.1:8082/apis/widgets.example.com
    kubectl --server http://127.0.0.1:8082 api-resources
"""

import asyncio

from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.health import Checks
from apidiscovery_service.http_gateway import Gateway, HttpServer, Site
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.model import (
    Contribution,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Version,
)
from apidiscovery_service.registry import Registry
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
    gateway = Gateway(
        CurrentEncoding(registry), Site(checks, Metrics(), server_address="127.0.0.1:8082")
    )
    return Starlette(routes=[Route(f"/apis/{GROUP}/v1/widgets", list_widgets), Mount("/", gateway)])


if __name__ == "__main__":
    asyncio.run(HttpServer(application(), "127.0.0.1", 8082).serve())
