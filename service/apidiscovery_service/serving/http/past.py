"""Answers with the documents of an earlier time: `?at=2026-11-20T10:00:00Z` after a discovery path.

They come from the history, and have the header Memento-Datetime (RFC 7089, section 2.1.1). A server
without a history refuses such requests, since the current documents would be a wrong answer.
"""

from dataclasses import replace
from datetime import datetime

from apidiscovery_service.access import ALL_CLUSTERS
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.encoding import EncodedSnapshot, plain
from apidiscovery_service.errors import told_to_callers
from apidiscovery_service.fleet.publisher import Publisher
from apidiscovery_service.history.history import History
from apidiscovery_service.history.model import (
    MERGED,
    ContentDamaged,
    HistoryError,
    NotRecorded,
)
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.http.clusters import ENDPOINT, answer, site_of
from apidiscovery_service.serving.http.conditional import http_date
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.respond import Site
from apidiscovery_service.serving.http.routes import DocumentRoute, is_openapi, route
from apidiscovery_service.serving.http.statuses import (
    negotiated_status,
    unavailable,
    with_header,
)
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import FixedRecipes

_RETRY_S = 5
_MERGED_OF_HIDDEN = (
    "at: the merged document of that time may include clusters hidden from you; want a path below "
    "/clusters/NAME"
)


def asks_for_past(request: Request) -> bool:
    """Return whether a request names a time."""
    return "at=" in request.query and bool(request.parameter("at"))


class PastAnswers:
    """Answers with the documents of earlier times.

    Args:
        history: The earlier documents; None without a history.
        site: Everything else that answers depend on.
    """

    def __init__(self, history: History | None, site: Site) -> None:
        self._history = history
        self._site = site
        self._publisher = Publisher()

    async def merged(self, request: Request, clusters: tuple[str, ...]) -> Response | None:
        """Answer with the merged documents of this server; None for a path that is not a document.

        Earlier grants decided which clusters were merged. So only callers that may read about every
        cluster are answered, and no answer is cached for others.

        Args:
            request: The request.
            clusters: Patterns of the clusters that the caller may read about.
        """
        target = route(request.path)
        if not (isinstance(target, DocumentRoute) or is_openapi(target)):
            return None
        if clusters != ALL_CLUSTERS:
            return _refused(request, 403, "Forbidden", _MERGED_OF_HIDDEN)
        return replace(await self._answer(request, MERGED), cacheable=False)

    async def cluster(self, request: Request, name: str, path: str) -> Response:
        """Answer a request below a cluster with its documents of that time.

        Args:
            request: The request.
            name: The name of the cluster.
            path: The path below the cluster.
        """
        response = await self._answer(replace(request, path=path), name)
        return replace(response, endpoint=ENDPOINT + response.endpoint)

    async def _answer(self, request: Request, name: str) -> Response:
        at = request.parameter("at")
        when = _time(at)
        if when is None:
            message = f"at: want a time such as 2026-11-20T10:00:00Z, got {at[:100]!r}"
            return _refused(request, 400, "BadRequest", message)
        if self._history is None:
            message = "at: this server keeps no history; start it with --history"
            return _refused(request, 400, "BadRequest", message)
        try:
            cluster = await self._history.cluster_at(name, when)
            site = await self._site_at(self._history, cluster, when)
        except HistoryError as error:
            return _history_failed(request, error)
        if site.openapi is None and is_openapi(route(request.path)):
            message = "at: the history has no OpenAPI documents of that time"
            return _refused(request, 404, "NotFound", message)
        response = await answer(request, cluster, site, lambda: self._encoded(cluster))
        return with_header(response, b"memento-datetime", http_date(when.timestamp()).encode())

    async def _site_at(self, history: History, cluster: Cluster, when: datetime) -> Site:
        recipes = await history.openapi_at(cluster.name, when)
        documents = Documents(FixedRecipes(recipes), self._site.metrics.observe_openapi)
        # A redirect to the current hash would return the current document.
        openapi = OpenAPIAnswers(documents, redirects=False) if recipes else None
        if cluster.name == MERGED:
            return replace(self._site, openapi=openapi, is_merged=False)
        return site_of(self._site, cluster, openapi)

    def _encoded(self, cluster: Cluster) -> EncodedSnapshot:
        return EncodedSnapshot(self._publisher.snapshot(cluster))


def without_past(request: Request) -> Response:
    """Refuse a request for earlier documents of a view: only clusters have them."""
    message = "at: only clusters have earlier documents; want a path below /clusters/NAME"
    return _refused(request, 400, "BadRequest", message)


def _time(text: str) -> datetime | None:
    """Return a time of RFC 3339; None for other text."""
    try:
        # In a query a plus sign is a space.
        when = datetime.fromisoformat(text.replace(" ", "+"))
    except ValueError:
        return None
    return when if when.tzinfo else None


def _history_failed(request: Request, error: HistoryError) -> Response:
    """Answer that the history lacks what is asked for, or cannot be read."""
    message = f"at: {told_to_callers(error)}"
    match error:
        case NotRecorded():
            return _refused(request, 404, "NotFound", message)
        case ContentDamaged():
            return _refused(request, 500, "InternalError", message)
        case _:
            return unavailable(request, message, _RETRY_S)


def _refused(request: Request, code: int, reason: str, message: str) -> Response:
    return negotiated_status(request, plain.status(code, reason, message))
