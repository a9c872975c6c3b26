"""Routes of paths.

The part of kube-apiserver that answers a path decides details that clients see: `/apis` and
`/apis/{group}` take any method, while `/api`, `/api/v1` and `/apis/{group}/{version}` go through
go-restful, which takes only GET and first reads Accept in its own way. Sources:
k8s.io/kube-aggregator pkg/apiserver/apiserver.go:NewWithDelegate; k8s.io/apiserver
pkg/server/handler.go:director.ServeHTTP.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Literal, TypeAlias

from apidiscovery_service.encoding import (
    Aggregated,
    APIGroup,
    APIGroupList,
    APIResourceList,
    Target,
)
from apidiscovery_service.serving.health import ENDPOINTS, Endpoint


@dataclass(frozen=True, slots=True)
class DocumentRoute:
    """A discovery document.

    Attributes:
        endpoint: Kind of path, for metrics.
        plain: The unaggregated document; None for `/api`, whose document has the server's address.
        aggregated: The aggregated document, None where there is none.
        restful: Whether the path goes through go-restful.
    """

    endpoint: str
    plain: Target | None
    aggregated: Aggregated | None = None
    restful: bool = True


@dataclass(frozen=True, slots=True)
class HealthRoute:
    """A health endpoint, or one check of it."""

    endpoint: Endpoint
    check: str = ""


class Page(Enum):
    """A path without parameters that is not a discovery document."""

    INDEX = "/"
    METRICS = "/metrics"
    VERSION = "/version"
    OPENAPI_INDEX = "/openapi/v3"
    OPENAPI_MERGED = "/openapi/v2"
    SCHEMAS = "/schemas/"
    SCHEMAS_WITHOUT_SLASH = "/schemas"
    FACTS = "/facts/kubernetes.json"


@dataclass(frozen=True, slots=True)
class OpenAPIDocumentRoute:
    """One OpenAPI v3 document.

    Attributes:
        key: The path that it describes, without leading slash, such as `apis/apps/v1`.
    """

    key: str


@dataclass(frozen=True, slots=True)
class SchemaRoute:
    """The JSON Schema of a kind.

    Attributes:
        group: As in the path.
        kind: As in the path, mostly in lower case.
        version: As in the path.
    """

    group: str
    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class MissingRoute:
    """A path that is not served.

    Attributes:
        group: The group below which it lies, None if below no group-version.
        version: The version below which it lies.
    """

    group: str | None = None
    version: str = ""


OpenAPIRoute: TypeAlias = Literal[Page.OPENAPI_INDEX, Page.OPENAPI_MERGED] | OpenAPIDocumentRoute
Route: TypeAlias = (
    DocumentRoute | HealthRoute | Page | OpenAPIDocumentRoute | SchemaRoute | MissingRoute
)

_OPENAPI_DOCUMENTS = "/openapi/v3/"
# An extension API server has no core group, and paths of ours are paths of its application there.
_NOT_OF_EXTENSIONS = ("/api/", "/facts/", "/schemas/")

_APIS = DocumentRoute("/apis", APIGroupList(), Aggregated(core=False), restful=False)
# The aggregator registers the unwrapped handler at `/apis/`: never aggregated.
_APIS_SLASH = DocumentRoute("/apis", APIGroupList(), restful=False)
_API = DocumentRoute("/api", None, Aggregated(core=True))

_FIXED: dict[str, Route] = {
    "/": Page.INDEX,
    "/index.html": Page.INDEX,
    "/api": _API,
    "/api/": _API,
    "/apis": _APIS,
    "/apis/": _APIS_SLASH,
    "/metrics": Page.METRICS,
    "/openapi/v2": Page.OPENAPI_MERGED,
    "/openapi/v3": Page.OPENAPI_INDEX,
    "/schemas": Page.SCHEMAS_WITHOUT_SLASH,
    "/schemas/": Page.SCHEMAS,
    "/facts/kubernetes.json": Page.FACTS,
    "/version": Page.VERSION,
    "/version/": Page.VERSION,
    **{f"/{endpoint}": HealthRoute(endpoint) for endpoint in ENDPOINTS},
}


def is_openapi(target: Route) -> bool:
    """Return whether a route is answered from OpenAPI documents."""
    return isinstance(target, OpenAPIDocumentRoute | SchemaRoute) or target in (
        Page.OPENAPI_INDEX,
        Page.OPENAPI_MERGED,
        Page.SCHEMAS,
        Page.SCHEMAS_WITHOUT_SLASH,
    )


def route(path: str, *, storage_version_hashes: bool = True, extension: bool = False) -> Route:
    """Return the route of a path, whether or not its group and version exist.

    Args:
        path: Percent-decoded, without the prefix under which the application is mounted.
        storage_version_hashes: Whether lists of resources have them.
        extension: Whether this is an extension API server: it has no core group, no schemas and no
            facts, and its `/apis/` is `/apis`, since it has no aggregator.
    """
    if extension and path == "/apis/":
        path = "/apis"
    if extension and f"{path}/".startswith(_NOT_OF_EXTENSIONS):
        return MissingRoute()
    fixed = _FIXED.get(path)
    if fixed is not None:
        return fixed
    if not path.startswith("/"):  # `OPTIONS *`, CONNECT, the bare prefix of a mount
        return MissingRoute()
    if path.startswith(_OPENAPI_DOCUMENTS):
        return OpenAPIDocumentRoute(path.removeprefix(_OPENAPI_DOCUMENTS))
    _, first, *rest = path.split("/")
    if first in ENDPOINTS and rest != [""]:
        return HealthRoute(first, "/".join(rest))
    if len(rest) > 1 and rest[-1] == "":
        rest.pop()
    return _discovery(first, rest, hashes=storage_version_hashes)


def _schema(group: str, file: str) -> Route:
    """Return the route of `{kind}_{version}.json`; neither kind nor version has a `_`."""
    kind, _, version = file.removesuffix(".json").partition("_")
    is_named = group and kind and version and file.endswith(".json")
    return SchemaRoute(group, kind, version) if is_named else MissingRoute()


def _discovery(  # noqa: PLR0911 - one for each shape of path
    first: str, rest: list[str], *, hashes: bool
) -> Route:
    match first, rest:
        case "apis", ["", *_]:  # the core group is not below /apis
            return MissingRoute()
        case "api", [version]:
            return DocumentRoute("/api/{version}", APIResourceList("", version, hashes))
        case "apis", [group]:
            # The aggregator serves its own group itself: k8s.io/kube-aggregator
            # pkg/registry/apiservice/rest/storage_apiservice.go.
            is_restful = group == "apiregistration.k8s.io"
            return DocumentRoute("/apis/{group}", APIGroup(group), restful=is_restful)
        case "apis", [group, version]:
            return DocumentRoute("/apis/{group}/{version}", APIResourceList(group, version, hashes))
        case "api", [version, *_]:
            return MissingRoute("", version)
        case "schemas", [group, file]:
            return _schema(group, file)
        case "apis", [group, version, *_]:
            return MissingRoute(group, version)
        case _:
            return MissingRoute()
