"""Small API servers that conform, for tests that break one thing in them."""

from apidiscovery_service.core.model import (
    Contribution,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Scope,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.extension_server import (
    ApiGroup,
    ApiResource,
    ApiSubresource,
    ApiVersion,
    DiscoveryApp,
    discovery_app,
)
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
SCHEMA = {
    "type": "object",
    "description": "A widget.",
    "properties": {"size": {"type": "integer", "description": "Its size in millimetres."}},
}
WIDGETS = ApiResource(
    "widgets",
    "Widget",
    verbs=ALL_VERBS,
    short_names=("wd",),
    categories=("all",),
    subresources=("status", "scale", ApiSubresource("spin", "SpinOptions", ("create",))),
    schema=SCHEMA,
    storage_version="v1",
)
SHELVES = ApiResource("shelves", "Shelf", namespaced=False, singular="shelf")
GROUPS = (
    ApiGroup(
        "example.dev", [ApiVersion("v1beta1", [WIDGETS]), ApiVersion("v1", [WIDGETS, SHELVES])]
    ),
    ApiGroup("more.example.dev", [ApiVersion("v1", [SHELVES])]),
)


def extension() -> DiscoveryApp:
    """Return an extension API server of two groups and three versions."""
    return discovery_app(GROUPS, server_address="127.0.0.1:443")


def kube_apiserver() -> Gateway:
    """Return a server with the core group and another one."""
    registry = Registry()
    checks = Checks()
    checks.add("ping", lambda: None)
    recipes = DocumentRecipes(registry, Declarations(registry))
    documents = Documents(recipes)
    recipes.on_change(documents.changed)
    offers = (_offer("", "Pod"), _offer("apps", "Deployment"))
    registry.publish(Contribution("test", Precedence.BUILTIN, offers))
    site = Site(checks, Metrics(), openapi=OpenAPIAnswers(documents))
    return Gateway(CurrentEncoding(registry), site)


def _offer(group: str, kind: str) -> Offer:
    resource = Resource(
        f"{kind.lower()}s",
        GroupVersionKind(group, "v1", kind),
        Scope.NAMESPACED,
        kind.lower(),
        ALL_VERBS,
    )
    return Offer(group, Version("v1", (resource,)), 1000, 15)
