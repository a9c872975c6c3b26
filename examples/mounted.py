"""An API server in Python that serves its own discovery, mounted in Starlette.

Run it, then ask:

    curl http://127.0.0.1:8082/apis/widgets.example.com
    kubectl --server http://127.0.0.1:8082 api-resources
    kubectl --server http://127.0.0.1:8082 explain widgets.size
    kubectl --server http://127.0.0.1:8082 get widgets
    apidiscovery conformance http://127.0.0.1:8082
"""

from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiVersion,
    discovery_app,
    run,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

GROUP = "widgets.example.com"
SCHEMA = {
    "type": "object",
    "description": "A widget.",
    "properties": {"size": {"type": "integer", "description": "Its size in millimetres."}},
}
WIDGETS = ApiResource("widgets", "Widget", namespaced=False, verbs=("get", "list"), schema=SCHEMA)


async def list_widgets(_request: Request) -> JSONResponse:
    """Serve the API itself, with whatever the application is written in."""
    return JSONResponse({"kind": "WidgetList", "apiVersion": f"{GROUP}/v1", "items": []})


def application() -> Starlette:
    """Return the API, and behind its routes everything about its discovery."""
    discovery = discovery_app([ApiGroup(GROUP, [ApiVersion("v1", [WIDGETS])])])
    return Starlette(
        routes=[Route(f"/apis/{GROUP}/v1/widgets", list_widgets), Mount("/", discovery)]
    )


if __name__ == "__main__":
    run(application(), "127.0.0.1", 8082)
