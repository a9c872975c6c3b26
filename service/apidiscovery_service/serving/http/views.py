"""Answers below `/views/NAME`: the documents of a view over clusters."""

import re
from collections.abc import Collection, Iterable
from dataclasses import replace
from weakref import WeakKeyDictionary

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.fleet.scope import Scope
from apidiscovery_service.fleet.view_documents import ViewDocuments
from apidiscovery_service.serving.http.clusters import is_custom, is_of_core
from apidiscovery_service.serving.http.conditional import ModificationTimes
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.past import asks_for_past, without_past
from apidiscovery_service.serving.http.respond import Site, answer_documents
from apidiscovery_service.serving.http.routes import HealthRoute, Page, Route, is_openapi, route
from apidiscovery_service.serving.http.statuses import not_found, unavailable

PREFIX = "/views/"

_ENDPOINT = "/views/{name}"
_RETRY_S = 5

_RELEASE = re.compile(r"v(\d+)\.(\d+)(?:\.(\d+))?")


class ViewAnswers:
    """Answers with the documents of the views of a scope.

    Args:
        site: Everything else that answers depend on.
        documents: The OpenAPI documents of views.
    """

    def __init__(self, site: Site, documents: ViewDocuments) -> None:
        self._site = site
        self._documents = documents
        # By scope, since callers with other scopes have other documents at the same paths.
        self._times: WeakKeyDictionary[Scope, ModificationTimes] = WeakKeyDictionary()

    async def respond(self, request: Request, scope: Scope) -> Response:
        """Answer a request below `/views/`, with the views over the clusters of a scope."""
        name, _, rest = request.path.removeprefix(PREFIX).partition("/")
        encoded = await scope.prepared_view(name)
        if encoded is None:
            return not_found(request)
        clusters = scope.view_clusters(name)
        inner = replace(request, path=f"/{rest}")
        target = route(inner.path)
        if target is Page.METRICS or isinstance(target, HealthRoute):
            response = not_found(inner)
        elif asks_for_past(inner):
            response = without_past(inner)
        elif not _is_known(clusters.values(), target):
            message = f"no cluster of view {name} has answered yet"
            response = unavailable(request, message, _RETRY_S)
        else:
            site = replace(
                self._site,
                version_body=oldest_release(clusters.values()),
                openapi=OpenAPIAnswers(
                    self._documents.of(scope, name, encoded),
                    self._times.setdefault(scope, ModificationTimes()),
                    prefix=f"{PREFIX}{name}",
                ),
                is_defined=is_custom,
                is_merged=False,
            )
            response = await answer_documents(inner, target, encoded, site)
        return replace(
            response,
            endpoint=_ENDPOINT + response.endpoint,
            aggregated="",
            # Documents change when clusters publish others, whatever these serve.
            cacheable=response.cacheable and not is_openapi(target),
        )


def oldest_release(clusters: Iterable[Cluster]) -> bytes | None:
    """Return the body of `/version` of the oldest release among clusters; None if none is known.

    A client that decides by the release then uses nothing that some cluster lacks.
    """
    dialects = {cluster.dialect for cluster in clusters}
    known = [(key, each.version) for each in dialects if (key := _numbers(each.release))]
    return min(known)[1] if known else None


def _numbers(release: str) -> tuple[int, ...]:
    """Return the numbers of a release; nothing where it has none."""
    match = _RELEASE.match(release)
    return tuple(int(number or 0) for number in match.groups()) if match else ()


def _is_known(clusters: Collection[Cluster], target: Route) -> bool:
    """Return whether the target can be answered: some cluster has answered, or there is none."""
    parts = [cluster.core if is_of_core(target) else cluster.named for cluster in clusters]
    return not parts or any(groups is not None for groups in parts)
