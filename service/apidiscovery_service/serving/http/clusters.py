"""Answers below `/clusters/NAME`: those of the cluster itself, also while it is down.

For a cluster that does not answer now, the last known documents are served, byte for byte, with a
Warning header (RFC 7234): 299 says why, in the form of kube-apiserver, which kubectl prints; 110
marks the answer as stale for programs, which kubectl passes over.
"""

from collections.abc import Callable
from dataclasses import replace

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import CORE_GROUP
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.encoding import Aggregated, APIResourceList, EncodedSnapshot
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.serving.http.conditional import ModificationTimes
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.respond import Site, answer_documents
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    HealthRoute,
    MissingRoute,
    Page,
    Route,
    is_openapi,
    route,
)
from apidiscovery_service.serving.http.statuses import (
    not_found,
    unavailable,
)
from apidiscovery_service.sources.priorities import BUILT_IN_GROUPS
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import ClusterDocuments

PREFIX = "/clusters/"

ENDPOINT = "/clusters/{name}"
_RETRY_S = 5

_NOT_IN_QUOTES = str.maketrans({'"': r"\"", "\\": r"\\"})


class ClusterAnswers:
    """Answers with the documents of the clusters of a fleet.

    Args:
        fleet: The clusters.
        site: Everything else that answers depend on.
        documents: Their OpenAPI documents.
    """

    def __init__(self, fleet: Fleet, site: Site, documents: ClusterDocuments) -> None:
        self._fleet = fleet
        self._site = site
        self._documents = documents
        self._times = ModificationTimes()

    @property
    def revision(self) -> int:
        """A counter that changes with the OpenAPI documents of any cluster."""
        return self._documents.revision

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
        cluster, inner = self._fleet.clusters[name], replace(request, path=path)
        site = site_of(self._site, cluster, self._openapi_of(name))
        response = await answer(inner, cluster, site, lambda: self._fleet.encoded(name))
        response = replace(response, endpoint=ENDPOINT + response.endpoint)
        warning = _warning(cluster)
        return _with_warning(response, warning) if warning else response

    def _openapi_of(self, name: str) -> OpenAPIAnswers | None:
        documents = self._documents.of(name)
        if documents is None:
            return None
        return OpenAPIAnswers(
            documents, self._times, prefix=f"{PREFIX}{name}", untyped=documents.is_untyped
        )


def site_of(site: Site, cluster: Cluster, openapi: OpenAPIAnswers | None) -> Site:
    """Return everything that the answers of a cluster depend on besides its snapshot.

    Args:
        site: The site of this server.
        cluster: The cluster.
        openapi: Its OpenAPI documents; None while none are known.
    """
    dialect = cluster.dialect
    return replace(
        site,
        addresses=dialect.addresses,
        aggregated_versions=dialect.aggregated,
        version_body=dialect.version,
        openapi=openapi,
        is_defined=is_custom,
        is_merged=False,
    )


async def answer(
    request: Request, cluster: Cluster, site: Site, encoded: Callable[[], EncodedSnapshot]
) -> Response:
    """Answer a request, whose path is that below a cluster, as the cluster would.

    Args:
        request: The request.
        cluster: The cluster.
        site: As `site_of` returns it.
        encoded: Returns its documents.
    """
    target = route(request.path)
    if target is Page.METRICS or isinstance(target, HealthRoute):
        return not_found(request)
    missing = _missing(cluster, target, has_openapi=site.openapi is not None)
    if missing:
        message = f"{missing} of cluster {cluster.name} is not known yet: {_why(cluster)}"
        return unavailable(request, message, _RETRY_S)
    response = await answer_documents(request, target, encoded(), site)
    return replace(response, aggregated="")


def _missing(cluster: Cluster, target: Route, *, has_openapi: bool) -> str:
    """Return which part of a cluster the target needs and is not known yet; empty for none."""
    if target is Page.VERSION:
        return "" if cluster.dialect.version else "the version"
    if is_openapi(target):
        return "" if has_openapi else "OpenAPI"
    groups = cluster.core if is_of_core(target) else cluster.named
    return "discovery" if groups is None else ""


def is_of_core(target: Route) -> bool:
    """Return whether a route needs the core group."""
    match target:
        case DocumentRoute(aggregated=Aggregated(core=True)):
            return True
        case DocumentRoute(plain=APIResourceList(group="")) | MissingRoute(group=""):
            return True
        case _:
            return False


def is_custom(group: str, _version: str) -> bool:
    """Return whether a group of a cluster counts as defined by CustomResourceDefinitions."""
    return group != CORE_GROUP and group not in BUILT_IN_GROUPS


def _warning(cluster: Cluster) -> bytes:
    """Return the value of a Warning header; empty for a cluster that answers."""
    status = cluster.status
    if status.state is SourceState.CURRENT:
        return b""
    text = f"this is the last known answer of cluster {cluster.name}: {_why(cluster)}"
    printable = "".join(char if char.isprintable() else " " for char in text)
    return f'299 - "{printable.translate(_NOT_IN_QUOTES)}", 110 - "Response is Stale"'.encode()


def _with_warning(response: Response, warning: bytes) -> Response:
    """Return a response with a warning, which no cache stores.

    A cache would keep the warning with the ETag, which is the same once the cluster answers again:
    a 304 does not remove a warning (RFC 7234, 4.3.4).
    """
    headers = [field for field in response.headers if field[0] != b"cache-control"]
    return replace(
        response, headers=[*headers, (b"cache-control", b"no-store"), (b"warning", warning)]
    )


def _why(cluster: Cluster) -> str:
    """Return why a cluster is not current, in one line."""
    status = cluster.status
    if status.state is SourceState.PENDING:
        return "it has not been asked yet"
    since = f"since {status.since:%Y-%m-%dT%H:%M:%SZ}: " if status.since else ""
    return f"{since}{status.error}"
