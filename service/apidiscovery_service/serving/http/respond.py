"""From a request to its response; no I/O but for waiting on a body that is being made."""

import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    Representation,
    negotiate,
    not_acceptable_message,
)

from apidiscovery_service import releases
from apidiscovery_service.core.model import CORE_GROUP, Freshness
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.encoding import (
    APIGroupList,
    APIResourceList,
    APIVersions,
    EncodedSnapshot,
    Target,
    compression,
    plain,
)
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube import go_json
from apidiscovery_service.metrics import CONTENT_TYPE as METRICS_CONTENT_TYPE
from apidiscovery_service.metrics import NO_PEER_SUFFIX, Metrics
from apidiscovery_service.serving.feature_gates import (
    OPENAPI_V3,
    RESPONSE_COMPRESSION,
    STORAGE_VERSION_HASH,
    FeatureGates,
)
from apidiscovery_service.serving.health import ENDPOINTS, Checks
from apidiscovery_service.serving.http.admission import Refused
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.messages import Headers, Request, Response
from apidiscovery_service.serving.http.objects.answers import ObjectAnswers
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    HealthRoute,
    IndexRoute,
    MetricsRoute,
    MissingRoute,
    OpenAPIDocumentRoute,
    OpenAPIIndexRoute,
    OpenAPIMergedRoute,
    OpenAPIRoute,
    VersionRoute,
    route,
)
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    invalid_timeout,
    is_pretty,
    negotiated_status,
    restful_refusal,
    starting,
)
from apidiscovery_service.sources.priorities import BUILT_IN_GROUPS

_NO_SNIFF = (b"x-content-type-options", b"nosniff")
_TEXT = (b"content-type", b"text/plain; charset=utf-8")

# The profile of clients that want one server's own view. Source: k8s.io/client-go
# discovery/discovery_client.go, AcceptV2NoPeer.
NO_PEER = "nopeer"


@dataclass(slots=True)
class Site:
    """What answers depend on besides the snapshot.

    Attributes:
        server_address: `host:port` that `/api` tells clients.
        version: Version of this software.
        openapi: What is answered below `/openapi`; None for nothing.
        objects: What is answered about StorageVersions and leases; None for nothing.
        extension: Whether this is an extension API server, of which kube-aggregator asks what it
            serves: it has no core group, nothing is at `/api`, and `/apis` tells its address.
        is_defined: Given a group and a version, whether CustomResourceDefinitions make it up.
        awaited: Returns which upstreams are waited for while there is nothing else to serve; empty
            for none.
    """

    checks: Checks
    metrics: Metrics
    gates: FeatureGates = field(default_factory=FeatureGates)
    server_address: str = "127.0.0.1:8080"
    version: str = "0"
    openapi: OpenAPIAnswers | None = None
    objects: ObjectAnswers | None = None
    extension: bool = False
    is_defined: Callable[[str, str], bool] = lambda _group, _version: False
    awaited: Callable[[], str] = str

    @property
    def openapi_v3(self) -> OpenAPIAnswers | None:
        """What is answered below `/openapi` if that is switched on."""
        return self.openapi if self.gates[OPENAPI_V3] else None


async def respond(  # noqa: PLR0911 - one for each kind of route
    request: Request, encoded: EncodedSnapshot, site: Site, *, ready: bool
) -> Response:
    """Answer a request.

    Args:
        request: The request.
        encoded: What is served now.
        site: Everything else that answers depend on.
        ready: Whether the local sources are in the snapshot; until then only health, version and
            metrics are answered, for an answer without them would be mistaken for an empty one.
    """
    invalid = invalid_timeout(request)
    if invalid is not None:
        return negotiated_status(request, invalid)
    hashes = site.gates[STORAGE_VERSION_HASH]
    target = route(request.path, storage_version_hashes=hashes, extension=site.extension)
    match target:
        case HealthRoute():
            return _health(request, target, site.checks)
        case MetricsRoute():
            headers = [NOT_CACHED, (b"content-type", METRICS_CONTENT_TYPE.encode())]
            return Response(200, headers, site.metrics.text(), "/metrics", "text")
        case VersionRoute():
            return _version(request, site)
        case _ if not ready or site.awaited():
            return starting(request, _awaiting(request, site) if ready else "")
        case IndexRoute():
            return _index(encoded.snapshot, site)
        case DocumentRoute():
            return await _document(request, target, encoded, site)
        case OpenAPIIndexRoute() | OpenAPIDocumentRoute() | OpenAPIMergedRoute():
            return await _openapi(request, target, site)
        case MissingRoute():
            return _missing(request, target, encoded)


def _is_defined(target: Target | None, site: Site) -> bool:
    """Tell whether a document is answered by the handler of CustomResourceDefinitions.

    No go-restful stands before it: k8s.io/apiextensions-apiserver
    pkg/apiserver/customresource_discovery.go:versionDiscoveryHandler.
    """
    return isinstance(target, APIResourceList) and site.is_defined(target.group, target.version)


def _awaiting(request: Request, site: Site) -> str:
    """Return why nothing is answered yet, for an empty document would be believed."""
    upstreams = f": {site.awaited()}" if request.trusted else ""
    return f"no upstream has answered yet{upstreams}"


def refusal(request: Request, refused: Refused) -> Response:
    """Answer a caller who gets no answer, as kube-apiserver does."""
    if refused.code == 429:  # noqa: PLR2004 - Too Many Requests
        response = _text(429, f"{refused.message}\n")
        return replace(response, headers=[*response.headers, (b"retry-after", refused.retry_after)])
    response = negotiated_status(request, refused.status)
    if refused.code == 403:  # noqa: PLR2004 - Forbidden
        return replace(response, headers=[*response.headers, _NO_SNIFF])
    return response


# Discovery documents.


async def _document(
    request: Request, target: DocumentRoute, encoded: EncodedSnapshot, site: Site
) -> Response:
    if target.plain is not None and not encoded.serves(target.plain):
        return _missing(request, _above(target), encoded)
    if _is_stale(target.plain, encoded):
        # Its own form has no word for that. Source: k8s.io/kube-aggregator
        # pkg/apiserver/handler_proxy.go:ServeHTTP.
        return _text(503, "service unavailable\n", target.endpoint)
    if target.restful and not _is_defined(target.plain, site):
        refused = restful_refusal(request, MEDIA_TYPES)
        if refused is not None:
            return replace(negotiated_status(request, refused), endpoint=target.endpoint)
    versions = site.gates.aggregated_versions if target.aggregated else ()
    representation = negotiate(request.accept, versions)
    if representation is None:
        return replace(_not_acceptable(), endpoint=target.endpoint)
    pretty = representation.serializer is JSON and (representation.pretty or is_pretty(request))
    if pretty is not representation.pretty:
        representation = replace(representation, pretty=pretty)
    if representation.aggregated is not None:
        return await _aggregated(request, target, representation, encoded, site)
    return await _plain(request, target, representation, encoded, site)


async def _aggregated(
    request: Request,
    target: DocumentRoute,
    representation: Representation,
    encoded: EncodedSnapshot,
    site: Site,
) -> Response:
    if target.aggregated is None:
        raise AssertionError(target)
    core = target.aggregated.core
    asked_for = representation.content_type
    if representation.profile == NO_PEER:
        asked_for += NO_PEER_SUFFIX
    # There is one document, with or without peers; forgetting the profile keeps it one body.
    representation = (
        replace(representation, profile="") if representation.profile else representation
    )
    etag = f'"{(encoded.snapshot.core if core else encoded.snapshot.named).etag}"'
    headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
    described = Response(
        304,
        headers,
        endpoint=target.endpoint,
        representation=asked_for,
        aggregated="api" if core else "apis",
        lasting=True,
    )
    if not none_match(request.if_none_match, etag):
        # No Content-Type: httpcache copies it onto the stored body, and client-go would then take
        # an aggregated document for a plain one.
        return described
    coding = _coding(request, site.gates)
    body, coding = await encoded.coded_body(target.aggregated, representation, coding)
    site.metrics.document_bytes.labels(
        described.aggregated, representation.content_type, coding
    ).set(len(body))
    return replace(
        described,
        status=200,
        headers=[*headers, *_content_headers(representation, coding)],
        body=body,
        coding=coding,
    )


async def _plain(
    request: Request,
    target: DocumentRoute,
    representation: Representation,
    encoded: EncodedSnapshot,
    site: Site,
) -> Response:
    document = target.plain or APIVersions(site.server_address)
    if site.extension and isinstance(document, APIGroupList):
        document = APIGroupList(site.server_address)
    representation = replace(representation, profile="")
    coding = _coding(request, site.gates)
    body, coding = await encoded.coded_body(document, representation, coding)
    return Response(
        200,
        [NOT_CACHED, *_content_headers(representation, coding)],
        body,
        target.endpoint,
        representation.content_type,
        coding,
        lasting=True,
    )


async def _openapi(request: Request, target: OpenAPIRoute, site: Site) -> Response:
    if site.openapi_v3 is None:
        return _text(404, "404 page not found\n")
    coding = _coding(request, site.gates)
    try:
        match target:
            case OpenAPIIndexRoute():
                answer: Response | None = await site.openapi_v3.index(request, coding)
            case OpenAPIMergedRoute():
                answer = await site.openapi_v3.merged(request, coding)
            case OpenAPIDocumentRoute():
                answer = await site.openapi_v3.document(request, target.key, coding)
    except DiscoveryError as error:
        status = plain.status(503, "ServiceUnavailable", f"OpenAPI: {error}", retry_after_s=1)
        response = negotiated_status(request, status)
        return replace(response, headers=[*response.headers, (b"retry-after", b"1")])
    if answer is None:
        message = "the server could not find the requested resource"
        return negotiated_status(request, plain.status(404, "NotFound", message, details=True))
    return answer


def _coding(request: Request, gates: FeatureGates) -> compression.Coding:
    """Return the coding for a body that is large enough."""
    return (
        compression.choose(request.accept_encoding) if gates[RESPONSE_COMPRESSION] else "identity"
    )


def _content_headers(representation: Representation, coding: compression.Coding) -> Headers:
    headers = [(b"content-type", representation.content_type.encode())]
    if coding != "identity":
        headers += [(b"content-encoding", coding.encode()), (b"vary", b"Accept-Encoding")]
    return headers


# What is refused.


def _not_acceptable() -> Response:
    body = plain.encode(
        plain.status(406, "NotAcceptable", not_acceptable_message()),
        Representation(JSON, pretty=True),
    )
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(406, headers, body, representation=JSON.media_type)


def _is_stale(target: Target | None, encoded: EncodedSnapshot) -> bool:
    """Tell whether a document is of a group-version that is only known as it was."""
    if not isinstance(target, APIResourceList):
        return False
    version = encoded.version(target.group, target.version)
    return version is not None and version.freshness == Freshness.STALE


def _above(target: DocumentRoute) -> MissingRoute:
    """Return what is missing when a document is not there."""
    match target.plain:
        case APIResourceList(group, version):
            return MissingRoute(group, version)
        case _:
            return MissingRoute()


def _missing(request: Request, target: MissingRoute, encoded: EncodedSnapshot) -> Response:
    """Answer 404: a Status below what go-restful serves, else text.

    That is `/api`, every group-version that is served, and whatever else is below a group that
    is Kubernetes' own.
    """
    if target.group is None or not (
        target.group == CORE_GROUP
        or encoded.version(target.group, target.version) is not None
        or (target.group in BUILT_IN_GROUPS and encoded.group(target.group) is not None)
    ):
        return _text(404, "404 page not found\n")
    message = "the server could not find the requested resource"
    return negotiated_status(request, plain.status(404, "NotFound", message, details=True))


def _text(code: int, text: str, endpoint: str = "other") -> Response:
    return Response(code, [NOT_CACHED, _TEXT, _NO_SNIFF], text.encode(), endpoint, "text")


# Everything but discovery.


def _health(request: Request, target: HealthRoute, checks: Checks) -> Response:
    endpoint = f"/{target.endpoint}"
    if target.check:
        return _single_check(target, checks)
    parameters = request.parameters()
    report = checks.report(target.endpoint, parameters.get("exclude", ()))
    if not report.passed:
        return _text(500, report.text if request.trusted else _unwarned(report.text), endpoint)
    return _text(200, report.text if "verbose" in parameters else "ok", endpoint)


def _unwarned(text: str) -> str:
    """Return a report without its warnings, which tell of files and upstreams."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("warn: "))


def _single_check(target: HealthRoute, checks: Checks) -> Response:
    endpoint = f"/{target.endpoint}"
    try:
        wrong = checks.single(target.endpoint, target.check)
    except KeyError:
        return _text(404, "404 page not found\n")
    if wrong is not None:
        return _text(500, f"internal server error: {wrong}\n", endpoint)
    return _text(200, "ok", endpoint)


def _version(request: Request, site: Site) -> Response:
    refused = restful_refusal(request, (JSON.media_type,))
    if refused is not None:
        return replace(negotiated_status(request, refused), endpoint="/version")
    of_kubernetes = releases.version()
    body = go_json.dumps_pretty(
        {
            **of_kubernetes,
            "gitVersion": f"{of_kubernetes['gitVersion']}+apidiscovery-{site.version}",
            "gitCommit": "",
            "gitTreeState": "",
            "buildDate": "1970-01-01T00:00:00Z",
            "goVersion": f"python{platform.python_version()}",
            "compiler": sys.implementation.name,
            "platform": f"{sys.platform}/{platform.machine()}",
        }
    )
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(200, headers, body, "/version", JSON.media_type)


def _index(snapshot: Snapshot, site: Site) -> Response:
    paths = [*([] if site.extension else ["/api"]), "/apis", "/apis/", "/metrics", "/version"]
    for published in (*snapshot.core.groups, *snapshot.named.groups):
        root = f"/apis/{published.name}" if published.name else "/api"
        paths.append(root)
        paths += [f"{root}/{version.version}" for version in published.group.versions]
    if site.openapi_v3 is not None:
        paths += ["/openapi/v2", "/openapi/v3", "/openapi/v3/"]
    for endpoint in ENDPOINTS:
        paths.append(f"/{endpoint}")
        paths += [f"/{endpoint}/{name}" for name in site.checks.names(endpoint)]
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(200, headers, plain.index(paths), "/", JSON.media_type)
