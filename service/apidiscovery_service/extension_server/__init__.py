"""Discovery for API servers written in Python: an application to mount in Starlette or FastAPI.

    from apidiscovery_service.extension_server import (
        ApiGroup, ApiResource, ApiVersion, discovery_app,
    )

    WIDGETS = ApiResource("widgets", "Widget", verbs=("get", "list"), short_names=("wd",))
    discovery = discovery_app([ApiGroup("example.dev", [ApiVersion("v1", [WIDGETS])])])
    app = Starlette(routes=[Route("/apis/example.dev/v1/widgets", widgets), Mount("/", discovery)])

`discovery` answers the discovery requests of kube-aggregator, kubectl and other clients to an
extension API server. Declarations are validated; the API itself is the application's own.
"""

from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.extension_server.application import DiscoveryApp, discovery_app
from apidiscovery_service.extension_server.groups import (
    ApiGroup,
    ApiResource,
    ApiSubresource,
    ApiVersion,
)

__all__ = [
    "ApiGroup",
    "ApiResource",
    "ApiSubresource",
    "ApiVersion",
    "DiscoveryApp",
    "FieldViolation",
    "InvalidFields",
    "discovery_app",
]
