"""Answers below `/fleet`: the clusters, and the matrix of the resources that each of them serves.

Other modules answer below `/views` and `/clusters/NAME`, and with the documents of earlier times.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from http import HTTPStatus
from weakref import WeakKeyDictionary

from apidiscovery_formats.negotiation import JSON

from apidiscovery_service.encoding import plain
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.state import Fleet
from apidiscovery_service.kube.objects import errors
from apidiscovery_service.serving.http.clusters import PREFIX as CLUSTERS
from apidiscovery_service.serving.http.clusters import ClusterAnswers
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.fleet_query import (
    CLUSTER_PARAMETERS,
    MATRIX_PARAMETERS,
    Query,
    parse_query,
)
from apidiscovery_service.serving.http.fleet_text import FleetText, ListingForm, MatrixListing
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.past import PastAnswers, asks_for_past
from apidiscovery_service.serving.http.respond import Site
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    invalid_timeout,
    is_pretty,
    negotiated_status,
    not_found,
    object_error,
    page_not_found,
    restful_refusal,
    tagged,
    with_json,
)
from apidiscovery_service.serving.http.views import ViewAnswers

_INDEX, _CLUSTERS, _MATRIX, _VIEWS = "/fleet", "/fleet/clusters", "/fleet/matrix", "/views"
_ROOTS = (_INDEX, _VIEWS, "/clusters")
_ALIASES = {"/clusters": "fleet/clusters", "/clusters/": "../fleet/clusters"}

_EXPIRED = (
    "The provided continue parameter is too old: the fleet has changed since the page before. "
    "Start a new list without the continue parameter."
)
_METHODS = ("GET", "HEAD")


def is_fleet_path(path: str) -> bool:
    """Return whether a path is answered here."""
    if not path.startswith(_ROOTS):  # most requests
        return False
    return f"/{path.split('/', 2)[1]}" in _ROOTS


class FleetAnswers:
    """Answers with the clusters of a scope.

    Args:
        fleet: The fleet.
        site: Everything else that answers depend on.
        clusters: Answers with the documents of clusters.
        views: Answers with the documents of views.
        past: Answers with documents of earlier times.
    """

    def __init__(
        self,
        fleet: Fleet,
        site: Site,
        clusters: ClusterAnswers,
        views: ViewAnswers,
        past: PastAnswers,
    ) -> None:
        self._fleet = fleet
        self._site = site
        self._clusters = clusters
        self._views = views
        self._past = past
        self._texts: WeakKeyDictionary[Scope, FleetText] = WeakKeyDictionary()

    def scope(self, patterns: Iterable[str]) -> Scope:
        """Return the scope of a caller that may read about clusters with such names."""
        return self._fleet.scope(patterns)

    def paths(self, scope: Scope) -> Sequence[str]:
        """Return the paths here that `/` lists for a caller: none where it sees no cluster."""
        if not scope.clusters:
            return ()
        views = (f"{_VIEWS}/{name}" for name in scope.view_names())
        return (CLUSTERS.rstrip("/"), _INDEX, _CLUSTERS, _MATRIX, _VIEWS, *views)

    def state(self, scope: Scope) -> object:
        """Return a value that changes with any answer to a caller with this scope."""
        return scope.revision, self._clusters.revision

    async def respond(self, request: Request, scope: Scope) -> Response:
        """Answer a request for a path of `is_fleet_path`, with the clusters of a scope."""
        invalid = invalid_timeout(request)
        if invalid is not None:
            return negotiated_status(request, invalid)
        path = request.path.rstrip("/")
        if path.startswith(CLUSTERS):
            return await self._cluster(request, scope)
        if path.startswith(f"{_VIEWS}/"):
            return await self._views.respond(request, scope)
        return await self._of_fleet(request, scope, path)

    async def _of_fleet(self, request: Request, scope: Scope, path: str) -> Response:
        if path not in (_INDEX, _CLUSTERS, _MATRIX, _VIEWS, *_ALIASES):
            return not_found(request)
        refused = restful_refusal(request, (JSON.media_type,), _METHODS)
        if refused is not None:
            return replace(negotiated_status(request, refused), endpoint=path)
        try:
            return _page(request, scope, path) or await self._listing(request, scope, path)
        except errors.ObjectError as error:
            return replace(object_error(request, error), endpoint=path)

    async def _cluster(self, request: Request, scope: Scope) -> Response:
        found = self._clusters.find(request.path, scope)
        if found is None:
            return page_not_found()
        answers = self._past.cluster if asks_for_past(request) else self._clusters.respond
        return await answers(request, *found)

    async def _listing(self, request: Request, scope: Scope, path: str) -> Response:
        is_matrix = path == _MATRIX
        known = MATRIX_PARAMETERS if is_matrix else CLUSTER_PARAMETERS
        query = parse_query(request.parameters(), known)
        text = self._texts.get(scope)
        if text is None:
            text = self._texts[scope] = FleetText()
        if is_matrix:
            listing = await text.matrix(scope, query.labels, query.selection)
        else:
            listing = await text.clusters(scope, query.labels)
        start, etag = _start(query, listing), f'"{listing.hash}"'
        described = tagged(etag, path)
        if not none_match(request.if_none_match, etag):
            return described
        form = ListingForm(start, query.limit, is_pretty(request), self._site.coding(request))
        return with_json(described, *await text.body(listing, form))


def _page(request: Request, scope: Scope, path: str) -> Response | None:
    """Return the answer with an index, or a redirection; None for a listing."""
    if request.path in _ALIASES:
        return _moved(_ALIASES[request.path], path)
    if path == _INDEX:
        return _index([_CLUSTERS, _MATRIX], path)
    if path == _VIEWS:
        return _index([f"{_VIEWS}/{name}" for name in scope.view_names()], path)
    return None


def _start(query: Query, listing: MatrixListing) -> int:
    """Return where the page begins.

    Raises:
        ObjectError: 410; the list has changed since its first page was read.
    """
    if query.place is None:
        return 0
    if query.place.state != listing.hash or query.place.start >= len(listing.items):
        raise errors.expired(_EXPIRED)
    return query.place.start


def _moved(location: str, endpoint: str) -> Response:
    """Redirect to a path relative to that of the request, as the application may be mounted."""
    headers = [NOT_CACHED, (b"location", location.encode())]
    return Response(HTTPStatus.MOVED_PERMANENTLY, headers, endpoint=endpoint)


def _index(paths: list[str], endpoint: str) -> Response:
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(HTTPStatus.OK, headers, plain.index(paths), endpoint, JSON.media_type)
