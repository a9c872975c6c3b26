"""Routes a request to its response; no I/O except waiting for a body to be made."""

import platform
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from apidiscovery_formats.negotiation import (
    JSON,
    MEDIA_TYPES,
    Representation,
    negotiate,
    not_acceptable_message,
)
from apidiscovery_releases import Release, newest

from apidiscovery_service.core.cluster import Addresses
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
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.messages import Headers, Request, Response, coding_headers
from apidiscovery_service.serving.http.objects.gateway import ObjectAnswers
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.serving.http.routes import (
    DocumentRoute,
    HealthRoute,
    MissingRoute,
    OpenAPIDocumentRoute,
    OpenAPIRoute,
    Page,
    Route,
    SchemaRoute,
    route,
)
from apidiscovery_service.serving.http.schemas import SchemaAnswers, SchemasRoute
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    invalid_timeout,
    is_pretty,
    negotiated_status,
    not_found,
    page_not_found,
    restful_refusal,
    starting,
    status_response,
    text_response,
    unavailable,
)
from apidiscovery_service.sources.priorities import BUILT_IN_GROUPS

# The profile with which clients ask for the view of one server. Source: k8s.io/client-go
# discovery/discovery_client.go, AcceptV2NoPeer.
_NO_PEER = "nopeer"

# For users of kubectl who ask this server for objects.
_NO_OBJECTS = (
    "this server does discovery only and has no objects; ask the API server that stores them"
)
# Of an extension API server, whose objects are in routes of their own.
_NO_ROUTE = "discovery names the resource, but no route of this server answers the path"


@dataclass(slots=True)
class Site:
    """Everything that answers depend on besides the snapshot.

    Attributes:
        checks: The health checks.
        metrics: The metrics.
        gates: The feature gates.
        server_address: The `host:port` in the answer of `/api`.
        version: Version of this software.
        release: The recorded release of Kubernetes whose fields `/version` has.
        openapi: Answers below `/openapi`; None for 404.
        objects: Answers about StorageVersions and leases; None for 404.
        extension: Whether this is an extension API server behind kube-aggregator: it has no core
            group, `/api` is 404, and `/apis` has its address.
        is_defined: Whether CustomResourceDefinitions define a group-version.
        awaited: Returns the upstreams that are waited for while there is nothing else to serve;
            empty for none.
        addresses: The addresses in the answer of `/api`; None for `server_address`.
        aggregated_versions: The versions of the aggregated document; None for those of the gates.
        version_body: The body of `/version`; None for our own.
        is_merged: Whether the snapshot is what this server merges, whose size metrics count.
        schemas: Answers below `/schemas`, made from the OpenAPI documents.
    """

    checks: Checks
    metrics: Metrics
    gates: FeatureGates = field(default_factory=FeatureGates)
    server_address: str = "127.0.0.1:8080"
    version: str = "0"
    release: Release = field(default_factory=newest)
    openapi: OpenAPIAnswers | None = None
    objects: ObjectAnswers | None = None
    extension: bool = False
    is_defined: Callable[[str, str], bool] = lambda _group, _version: False
    awaited: Callable[[], str] = str
    addresses: Addresses | None = None
    aggregated_versions: tuple[str, ...] | None = None
    version_body: bytes | None = None
    is_merged: bool = True
    schemas: SchemaAnswers = field(default_factory=SchemaAnswers)

    @property
    def openapi_v3(self) -> OpenAPIAnswers | None:
        """Answers below `/openapi`, None while the feature gate is off."""
        return self.openapi if self.gates[OPENAPI_V3] else None

    def coding(self, request: Request) -> compression.Coding:
        """Return the coding for bodies that are large enough to be compressed."""
        if not self.gates[RESPONSE_COMPRESSION]:
            return "identity"
        return compression.choose(request.accept_encoding)


async def respond(  # noqa: PLR0911 - one for each kind of path
    request: Request,
    encoded: EncodedSnapshot,
    site: Site,
    *,
    ready: bool,
    more_paths: Sequence[str] = (),
) -> Response:
    """Answer a request.

    Args:
        request: The request.
        encoded: The current snapshot.
        site: Everything else that answers depend on.
        ready: Whether the local sources are in the snapshot; until then only health, version and
            metrics are answered, since clients would believe an empty document.
        more_paths: Further paths for the list at `/`.
    """
    invalid = invalid_timeout(request)
    if invalid is not None:
        return negotiated_status(request, invalid)
    hashes = site.gates[STORAGE_VERSION_HASH]
    target = route(request.path, storage_version_hashes=hashes, extension=site.extension)
    match target:
        case HealthRoute():
            return _health(request, target, site.checks)
        case Page.METRICS:
            headers = [NOT_CACHED, (b"content-type", METRICS_CONTENT_TYPE.encode())]
            return Response(200, headers, site.metrics.text(), "/metrics", "text")
        case Page.VERSION:
            return _version(request, site)
        case Page.FACTS:
            return await site.schemas.facts(request, site.coding(request))
        case _ if not ready or site.awaited():
            return starting(request, _awaiting(request, site) if ready else "")
        case Page.INDEX:
            return _index(encoded.snapshot, site, more_paths)
        case _:
            return await answer_documents(request, target, encoded, site)


async def answer_documents(  # noqa: PLR0911 - one for each kind of path
    request: Request, target: Route, encoded: EncodedSnapshot, site: Site
) -> Response:
    """Answer a request for documents, index or version.

    Raises:
        ValueError: The route is another.
    """
    match target:
        case Page.VERSION:
            return _version(request, site)
        case Page.INDEX:
            return _index(encoded.snapshot, site)
        case DocumentRoute():
            return await _document(request, target, encoded, site)
        case OpenAPIDocumentRoute() | Page.OPENAPI_INDEX | Page.OPENAPI_MERGED:
            return await _openapi(request, target, site)
        case SchemaRoute() | Page.SCHEMAS | Page.SCHEMAS_WITHOUT_SLASH:
            return await _schemas(request, target, site)
        case MissingRoute():
            return _missing(request, target, encoded, site)
        case Page.FACTS:
            return page_not_found()  # they are of no cluster or view
        case _:
            raise ValueError(target)


def _is_defined(target: Target | None, site: Site) -> bool:
    """Return whether kube-apiserver's handler of CustomResourceDefinitions answers a document.

    It is not behind go-restful: k8s.io/apiextensions-apiserver
    pkg/apiserver/customresource_discovery.go:versionDiscoveryHandler.
    """
    return isinstance(target, APIResourceList) and site.is_defined(target.group, target.version)


def _awaiting(request: Request, site: Site) -> str:
    """Return why there is no answer yet."""
    upstreams = f": {site.awaited()}" if request.trusted else ""
    return f"no upstream has answered yet{upstreams}"


# Discovery documents.


async def _document(
    request: Request, target: DocumentRoute, encoded: EncodedSnapshot, site: Site
) -> Response:
    if target.plain is not None and not encoded.serves(target.plain):
        return _missing(request, _missing_route(target), encoded, site)
    if _is_stale(target.plain, encoded):
        # The unaggregated form cannot say so. Source: k8s.io/kube-aggregator
        # pkg/apiserver/handler_proxy.go:ServeHTTP.
        return text_response(503, "service unavailable\n", target.endpoint)
    if target.restful and not _is_defined(target.plain, site):
        refused = restful_refusal(request, MEDIA_TYPES)
        if refused is not None:
            return replace(negotiated_status(request, refused), endpoint=target.endpoint)
    served = site.aggregated_versions
    served = site.gates.aggregated_versions if served is None else served
    versions = served if target.aggregated else ()
    representation = negotiate(request.accept, versions)
    if representation is None:
        status = plain.status(406, "NotAcceptable", not_acceptable_message())
        response = status_response(status, Representation(JSON, pretty=True))
        return replace(response, endpoint=target.endpoint)
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
    if representation.profile == _NO_PEER:
        asked_for += NO_PEER_SUFFIX
    # The document is the same with and without peers, and so is its cached body.
    representation = replace(representation, profile="")
    etag = f'"{(encoded.snapshot.core if core else encoded.snapshot.named).etag}"'
    headers = [(b"etag", etag.encode()), (b"vary", b"Accept"), (b"cache-control", b"public")]
    described = Response(
        304,
        headers,
        endpoint=target.endpoint,
        representation=asked_for,
        aggregated="api" if core else "apis",
        cacheable=True,
    )
    if not none_match(request.if_none_match, etag):
        # Without Content-Type: httpcache would copy it to the cached body, and client-go would then
        # take an aggregated document for an unaggregated one.
        return described
    coding = site.coding(request)
    body, coding = await encoded.coded_body(target.aggregated, representation, coding)
    if site.is_merged:
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
    addresses = plain.for_any_client(site.server_address)
    addresses = addresses if site.addresses is None else site.addresses
    document = target.plain or APIVersions(addresses)
    if site.extension and isinstance(document, APIGroupList):
        document = APIGroupList(site.server_address)
    representation = replace(representation, profile="")
    coding = site.coding(request)
    body, coding = await encoded.coded_body(document, representation, coding)
    return Response(
        200,
        [NOT_CACHED, *_content_headers(representation, coding)],
        body,
        target.endpoint,
        representation.content_type,
        coding,
        cacheable=True,
    )


async def _openapi(request: Request, target: OpenAPIRoute, site: Site) -> Response:
    if site.openapi_v3 is None:
        return page_not_found()
    coding = site.coding(request)
    try:
        match target:
            case Page.OPENAPI_INDEX:
                answer: Response | None = await site.openapi_v3.index(request, coding)
            case Page.OPENAPI_MERGED:
                answer = await site.openapi_v3.merged(request, coding)
            case OpenAPIDocumentRoute():
                answer = await site.openapi_v3.document(request, target.key, coding)
    except DiscoveryError as error:
        return unavailable(request, f"OpenAPI: {error}", 1)
    return not_found(request) if answer is None else answer


async def _schemas(request: Request, target: SchemasRoute, site: Site) -> Response:
    if site.openapi_v3 is None:
        return page_not_found()
    documents, coding = site.openapi_v3.documents, site.coding(request)
    return await site.schemas.respond(request, target, documents, coding)


def _content_headers(representation: Representation, coding: compression.Coding) -> Headers:
    return [(b"content-type", representation.content_type.encode()), *coding_headers(coding)]


# Missing documents.


def _is_stale(target: Target | None, encoded: EncodedSnapshot) -> bool:
    """Return whether the group-version of a document is stale."""
    if not isinstance(target, APIResourceList):
        return False
    version = encoded.version(target.group, target.version)
    return version is not None and version.freshness == Freshness.STALE


def _missing_route(target: DocumentRoute) -> MissingRoute:
    """Return the route of a document that is not served."""
    match target.plain:
        case APIResourceList(group, version):
            return MissingRoute(group, version)
        case _:
            return MissingRoute()


def _missing(
    request: Request, target: MissingRoute, encoded: EncodedSnapshot, site: Site
) -> Response:
    """Answer 404: a Status below paths that go-restful serves, else text.

    These are `/api`, every group-version that is served, and all paths below the groups of
    Kubernetes itself.
    """
    if target.group is None or not (
        target.group == CORE_GROUP
        or encoded.version(target.group, target.version) is not None
        or (target.group in BUILT_IN_GROUPS and encoded.group(target.group) is not None)
    ):
        return page_not_found()
    if not _is_of_objects(request.path, target, encoded):
        return not_found(request)
    return not_found(request, _NO_ROUTE if site.extension else _NO_OBJECTS)


def _is_of_objects(path: str, target: MissingRoute, encoded: EncodedSnapshot) -> bool:
    """Return whether a path is that of objects of a resource in discovery, as `kubectl get` asks.

    For other resources nothing is added to kube-apiserver's message.
    """
    version = encoded.version(target.group or "", target.version)
    below = path.split("/")[4 if target.group else 3 :]
    if below[:1] == ["namespaces"] and len(below) > 2:  # noqa: PLR2004 - namespaces/NAME/pods
        below = below[2:]
    names = (resource.resource for resource in version.resources) if version else ()
    return below[:1] != [] and below[0] in names


# Health, version, index.


def _health(request: Request, target: HealthRoute, checks: Checks) -> Response:
    endpoint = f"/{target.endpoint}"
    if target.check:
        return _single_check(target, checks)
    parameters = request.parameters()
    report = checks.report(target.endpoint, parameters.get("exclude", ()))
    if not report.passed:
        text = report.text if request.trusted else _without_warnings(report.text)
        return text_response(500, text, endpoint)
    return text_response(200, report.text if "verbose" in parameters else "ok", endpoint)


def _without_warnings(text: str) -> str:
    """Return a report without its warnings, which name files and upstreams."""
    lines = text.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("warn: "))


def _single_check(target: HealthRoute, checks: Checks) -> Response:
    endpoint = f"/{target.endpoint}"
    try:
        wrong = checks.single(target.endpoint, target.check)
    except KeyError:
        return page_not_found()
    if wrong is not None:
        return text_response(500, f"internal server error: {wrong}\n", endpoint)
    return text_response(200, "ok", endpoint)


def _version(request: Request, site: Site) -> Response:
    refused = restful_refusal(request, (JSON.media_type,))
    if refused is not None:
        return replace(negotiated_status(request, refused), endpoint="/version")
    body = site.version_body or _own_version(site)
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(200, headers, body, "/version", JSON.media_type)


def _own_version(site: Site) -> bytes:
    of_kubernetes = site.release.version
    return go_json.dumps_pretty(
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


def _index(snapshot: Snapshot, site: Site, more_paths: Sequence[str] = ()) -> Response:
    paths = ["/apis", "/apis/", "/metrics", "/version", *more_paths]
    paths += [] if site.extension else ["/api"]
    for published in (*snapshot.core.groups, *snapshot.named.groups):
        root = f"/apis/{published.name}" if published.name else "/api"
        paths.append(root)
        paths += [f"{root}/{version.version}" for version in published.group.versions]
    if site.openapi_v3 is not None:
        paths += ["/openapi/v2", "/openapi/v3", "/openapi/v3/"]
        paths += [] if site.extension else ["/schemas/"]
    if site.is_merged and not site.extension:
        paths.append("/facts/kubernetes.json")
    for endpoint in ENDPOINTS:
        paths.append(f"/{endpoint}")
        paths += [f"/{endpoint}/{name}" for name in site.checks.names(endpoint)]
    headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
    return Response(200, headers, plain.index(paths), "/", JSON.media_type)
