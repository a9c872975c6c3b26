"""Discovery of an API server as an ASGI application, wired from the parts of the service."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import APIGroup, APIResourceList, CurrentEncoding
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.extension_server.checking import site_violations
from apidiscovery_service.extension_server.contents import OwnDocuments, contents
from apidiscovery_service.extension_server.groups import ApiGroup
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.health import Checks, Probe
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.asgi import served_path
from apidiscovery_service.serving.http.messages import Application, Receive, Scope, Send
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    MissingRoute,
    Page,
    route,
)
from apidiscovery_service.sources.declarations import Declarations
from apidiscovery_service.sources.document_recipes import DocumentRecipes

_SOURCE = "application"
# Clients ask here first; the answer is 404, as there is no core group.
_CORE = ("/api", "/api/")
_NONE: OwnDocuments = MappingProxyType({})
_NO_CHECKS: Mapping[str, Probe] = MappingProxyType({})


def discovery_app(  # noqa: PLR0913 - each describes another part of the server
    groups: Iterable[ApiGroup],
    *,
    app: Application | None = None,
    openapi: OwnDocuments = _NONE,
    server_address: str = "",
    version: str = "0",
    checks: Mapping[str, Probe] = _NO_CHECKS,
) -> "DiscoveryApp":
    """Return the discovery of an extension API server.

    There are two ways to combine it with the API itself:

    - `Mount("/", discovery_app(groups))` as the last route of Starlette or FastAPI. Earlier routes
      win; the discovery application answers the rest, with 404 for unknown paths. A route with the
      path but without the method does not win: Starlette goes on to the mount, and the answer is
      404 instead of 405.
    - `discovery_app(groups, app=app)`, served by the HTTP server. The discovery application answers
      the paths of discovery, `app` everything else: its own 404 and 405, websockets, lifespan.

    All callers get the same answers: X-Remote-User and the other fields in which kube-aggregator
    names the original caller are ignored, since discovery is public. An API that decides by them
    must verify by the client certificate that kube-aggregator sends them. Source: k8s.io/apiserver
    pkg/authentication/request/headerrequest/requestheader.go.

    Args:
        groups: The served groups.
        app: Answers other paths; None for 404.
        openapi: The application's own OpenAPI v3 documents, by group-version (`example.dev/v1`),
            which replace those made from the schemas of resources.
        server_address: `host:port` at which clients reach the server, shown in the list of groups;
            empty to show none.
        version: Version of the server, shown in `/version`.
        checks: Further checks of `/readyz`, `/livez` and `/healthz` by name: each returns None for
            success, else the error.

    Raises:
        InvalidFields: Fields of the groups or other arguments are invalid; it has all of them.
    """
    if found := list(site_violations(server_address, version, checks)):
        raise InvalidFields(*found)
    site = Site(_checks(checks), Metrics(), server_address=server_address, version=version)
    return DiscoveryApp(groups, openapi, site, app)


def _checks(more: Mapping[str, Probe]) -> Checks:
    checks = Checks()
    checks.add("ping", lambda: None)
    for name, probe in more.items():
        checks.add(name, probe)
    return checks


class DiscoveryApp:
    """Answers discovery requests for an API; made by `discovery_app`."""

    def __init__(
        self,
        groups: Iterable[ApiGroup],
        openapi: OwnDocuments,
        site: Site,
        app: Application | None,
    ) -> None:
        registry = Registry()
        self._declarations = Declarations(registry)
        recipes = DocumentRecipes(registry, self._declarations)
        documents = Documents(recipes)
        recipes.on_change(documents.changed)
        site.extension = True
        site.openapi = OpenAPIAnswers(documents, redirects=False)
        self._encoding = CurrentEncoding(registry)
        self._gateway = Gateway(self._encoding, site)
        self._app = app
        self._own = openapi
        self._declare(groups, openapi, strict=True)

    @property
    def etag(self) -> str:
        """The current ETag of `/apis`, without quotes; equal for equal content."""
        return self._encoding.current.snapshot.named.etag

    def update(self, groups: Iterable[ApiGroup], openapi: OwnDocuments | None = None) -> None:
        """Replace the served groups, all at once, with another ETag if they differ.

        It must be called in the thread of the event loop.

        Args:
            groups: All groups; others are no longer served.
            openapi: As in `discovery_app`; None for the same documents as before, except those of
                group-versions that are no longer declared.

        Raises:
            InvalidFields: As `discovery_app`; then nothing changes.
        """
        own = self._own if openapi is None else openapi
        self._declare(groups, own, strict=openapi is not None)
        self._own = own

    def _declare(self, groups: Iterable[ApiGroup], own: OwnDocuments, *, strict: bool) -> None:
        self._declarations.update({_SOURCE: contents(groups, own, strict=strict)})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection, or let the application answer it."""
        if self._app is not None and not (scope["type"] == "http" and self._has(scope)):
            await self._app(scope, receive, send)
        else:
            await self._gateway(scope, receive, send)

    def _has(self, scope: Scope) -> bool:
        """Return whether a path is one of discovery."""
        path = served_path(scope)
        if path in _CORE:
            return True
        match route(path, extension=True):
            case Page.INDEX | Page.METRICS | MissingRoute():
                return False
            case DocumentRoute(plain=APIGroup() | APIResourceList() as document):
                return self._encoding.current.serves(document)
            case _:
                return True
