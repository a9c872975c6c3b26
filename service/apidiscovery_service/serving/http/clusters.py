"""Answers below `/clusters/NAME`: what the cluster itself would answer, also when it is down.

A cluster that does not answer now is served as it was last known, byte for byte; a Warning header
(RFC 7234, 299, as kube-apiserver sends them) says so, and kubectl prints it.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import Aggregated, APIResourceList
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.openapi import Documents, OpenAPIAnswers
from apidiscovery_service.serving.http.respond import Site, answer_documents
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    HealthRoute,
    MissingRoute,
    OpenAPIDocumentRoute,
    Page,
    Route,
    route,
)
from apidiscovery_service.serving.http.statuses import not_found, unavailable, with_header
from apidiscovery_service.sources.priorities import BUILT_IN_GROUPS

PREFIX = "/clusters/"

_ENDPOINT = "/clusters/{name}"
_RETRY_S = 5
_MAX_KEPT = 128  # clusters

_NOT_IN_QUOTES = str.maketrans({'"': r"\"", "\\": r"\\"})


class ClusterAnswers:
    """Answers with the documents of the clusters of a fleet.

    Args:
        fleet: The clusters.
        site: What answers depend on besides, and that is the same for all of them.
        documents_of: Returns the OpenAPI documents of a cluster by its name, the same until they
            are others; None while none are known.
    """

    def __init__(
        self, fleet: Fleet, site: Site, documents_of: Callable[[str], Documents | None]
    ) -> None:
        self._fleet = fleet
        self._site = site
        self._documents_of = documents_of
        self._openapi: OrderedDict[str, tuple[Documents, OpenAPIAnswers]] = OrderedDict()

    @property
    def revision(self) -> object:
        """A value that changes with any answer, but for OpenAPI documents that are being made."""
        return self._fleet.revision

    def scope(self) -> Scope:
        """Return what a caller sees who may see everything."""
        return self._fleet.scope()

    def find(self, path: str, scope: Scope) -> tuple[str, str] | None:
        """Return the name of the cluster and the path below it; None if none is seen there.

        Names may have slashes; of several that fit, the longest counts.
        """
        segments = path.removeprefix(PREFIX).split("/")
        for end in range(len(segments), 0, -1):
            name = "/".join(segments[:end])
            if name in scope.clusters:
                return name, "/" + "/".join(segments[end:])
        return None

    async def respond(self, request: Request, name: str, path: str) -> Response:
        """Answer a request below a cluster.

        Args:
            request: The request.
            name: The name of the cluster, which is there.
            path: The path below the cluster.
        """
        cluster = self._fleet.clusters[name]
        inner = replace(request, path=path)
        target = route(path)
        openapi = self._openapi_of(name)
        missing = _missing(cluster, target, has_openapi=openapi is not None)
        if target is Page.METRICS or isinstance(target, HealthRoute):
            response = not_found(inner)
        elif missing:
            message = f"{missing} of cluster {name} is not known yet: {_why(cluster)}"
            response = unavailable(request, message, _RETRY_S)
        else:
            encoded, site = self._fleet.encoded(name), self._site_of(cluster, openapi)
            response = await answer_documents(inner, target, encoded, site)
        response = replace(response, endpoint=_ENDPOINT + response.endpoint, aggregated="")
        warning = _warning(cluster)
        return with_header(response, b"warning", warning) if warning else response

    def _site_of(self, cluster: Cluster, openapi: OpenAPIAnswers | None) -> Site:
        dialect = cluster.dialect
        return replace(
            self._site,
            addresses=dialect.addresses,
            aggregated_versions=dialect.aggregated,
            version_body=dialect.version,
            openapi=openapi,
            is_defined=_is_defined,
            is_merged=False,
        )

    def _openapi_of(self, name: str) -> OpenAPIAnswers | None:
        documents = self._documents_of(name)
        if documents is None:
            return None
        known, answers = self._openapi.get(name, (None, None))
        if answers is None or known is not documents:
            answers = OpenAPIAnswers(documents, prefix=f"{PREFIX}{name}")
            self._openapi[name] = documents, answers
        self._openapi.move_to_end(name)
        if len(self._openapi) > _MAX_KEPT:
            self._openapi.popitem(last=False)
        return answers


def _missing(cluster: Cluster, target: Route, *, has_openapi: bool) -> str:
    """Return what nobody has learned of a cluster yet, and the target needs; empty for nothing."""
    match target:
        case Page.VERSION:
            return "" if cluster.dialect.version else "the version"
        case OpenAPIDocumentRoute() | Page.OPENAPI_INDEX | Page.OPENAPI_MERGED:
            return "" if has_openapi else "OpenAPI"
        case DocumentRoute(aggregated=Aggregated(core=True)):
            is_known = cluster.core is not None
        case DocumentRoute(plain=APIResourceList(group="")) | MissingRoute(group=""):
            is_known = cluster.core is not None
        case _:
            is_known = cluster.named is not None
    return "" if is_known else "discovery"


def _is_defined(group: str, _version: str) -> bool:
    return group != CORE_GROUP and group not in BUILT_IN_GROUPS


def _warning(cluster: Cluster) -> bytes:
    """Return the value of a Warning header; empty for a cluster that answers."""
    status = cluster.status
    if status.state is SourceState.CURRENT:
        return b""
    text = f"this is what cluster {cluster.name} said last: {_why(cluster)}"
    printable = "".join(char if char.isprintable() else " " for char in text)
    return f'299 - "{printable.translate(_NOT_IN_QUOTES)}"'.encode()


def _why(cluster: Cluster) -> str:
    """Return why a cluster is not current, in one line."""
    status = cluster.status
    if status.state is SourceState.PENDING:
        return "it has not been asked yet"
    since = f"since {status.since:%Y-%m-%dT%H:%M:%SZ}: " if status.since else ""
    return f"{since}{status.error}"
