"""Discovery for API servers written in Python: an application to mount in Starlette or FastAPI.

    from apidiscovery_service.extension_server import (
        ApiGroup, ApiResource, ApiVersion, discovery_app,
    )

    WIDGETS = ApiResource("widgets", "Widget", verbs=("get", "list"), short_names=("wd",))
    discovery = discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [WIDGETS])])])
    app = Starlette(routes=[Route("/apis/example.dev/v1/widgets", widgets), Mount("/", discovery)])

A Pydantic model can be the schema: `ApiResource.from_model(Widget, "widgets")`.

`run(app)` serves it, as does any ASGI server. `discovery` answers the discovery
requests of kube-aggregator, kubectl and other clients to an extension API server. Declarations are
validated; the API itself is the application's own.
"""

try:
    from apidiscovery_service.errors import FieldViolation, InvalidFields
    from apidiscovery_service.extension_server.application import DiscoveryApp, discovery_app
    from apidiscovery_service.extension_server.groups import (
        ApiGroup,
        ApiResource,
        ApiSubresource,
        ApiVersion,
    )
    from apidiscovery_service.extension_server.running import run
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"{error.name} is not installed, which the extra `server` brings; run:"
        " pip install 'apidiscovery[server]'",
        name=error.name,
    ) from error

__all__ = [
    "ApiGroup",
    "ApiResource",
    "ApiSubresource",
    "ApiVersion",
    "DiscoveryApp",
    "FieldViolation",
    "InvalidFields",
    "discovery_app",
    "run",
]
