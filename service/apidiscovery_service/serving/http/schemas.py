"""Answers below `/schemas`, and `/facts/kubernetes.json`: for editors and validators of manifests.

The layout is that of datreeio/CRDs-catalog, `{group}/{kind}_{version}.json`, which kubeconform and
yaml-language-server ask for: yannh/kubeconform pkg/registry/registry.go `schemaPath`;
redhat-developer/yaml-language-server src/languageservice/services/k8sSchemaUtil.ts
`autoDetectCustomResource`.
"""

from dataclasses import replace
from functools import cache
from http import HTTPStatus
from typing import Final, Literal
from urllib.parse import quote, urlencode

from apidiscovery_formats.negotiation import JSON
from apidiscovery_formats.openapi.json_schema import Kind
from apidiscovery_releases import facts_text

from apidiscovery_service.encoding import plain
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.body import DocumentSource
from apidiscovery_service.openapi.schemas import Named, SchemaBody, SchemaListing, Schemas
from apidiscovery_service.serving.http.conditional import none_match
from apidiscovery_service.serving.http.messages import Request, Response
from apidiscovery_service.serving.http.routes import Page, SchemaRoute
from apidiscovery_service.serving.http.statuses import (
    NOT_CACHED,
    negotiated_status,
    restful_refusal,
    tagged,
    unavailable,
    with_header,
    with_json,
)

CORE: Final = "core"
"""The name of the core group in paths."""

_INDEX, _SCHEMA, _FACTS = "/schemas/", "/schemas/{group}/{kind}", "/facts/kubernetes.json"
_STRICT = "-strict"
_RETRY_S = 1
_METHODS = ("GET", "HEAD")
_ANY_ORIGIN = (b"access-control-allow-origin", b"*")
_KEPT = ("at", "strict")  # parameters that the addresses in an index have as well
_CHOICES = {"": False, "true": True, "1": True, "false": False, "0": False}

SchemasRoute = SchemaRoute | Literal[Page.SCHEMAS, Page.SCHEMAS_WITHOUT_SLASH]


class SchemaAnswers:
    """Answers requests for schemas; one for all documents that a server has."""

    def __init__(self) -> None:
        self._schemas = Schemas()

    async def respond(
        self, request: Request, target: SchemasRoute, documents: DocumentSource, coding: Coding
    ) -> Response:
        """Answer a request.

        Args:
            request: The request.
            target: Its route.
            documents: The documents that describe the kinds.
            coding: The coding for a body that is large enough.
        """
        refused = _refusal(request)
        if refused is not None:
            response = refused
        elif target is Page.SCHEMAS_WITHOUT_SLASH:
            response = _moved(request)
        else:
            try:
                response = await self._answer(request, target, documents, coding)
            except DiscoveryError as error:
                response = unavailable(request, f"schemas: {error}", _RETRY_S)
        endpoint = _SCHEMA if isinstance(target, SchemaRoute) else _INDEX
        # A page in a browser can read why there is no schema, too.
        return replace(with_header(response, *_ANY_ORIGIN), endpoint=endpoint)

    async def facts(self, request: Request, coding: Coding) -> Response:
        """Answer with the recorded facts about releases of Kubernetes."""
        response = _refusal(request)
        if response is None:
            body = await self._schemas.body(_facts(), coding)
            response = _described(request, body)
        return replace(with_header(response, *_ANY_ORIGIN), endpoint=_FACTS)

    async def _answer(
        self, request: Request, target: SchemasRoute, documents: DocumentSource, coding: Coding
    ) -> Response:
        strict = _CHOICES.get(request.parameter("strict").lower())
        if strict is None:
            given = request.parameter("strict")[:100]
            message = f"strict: want true or false, got {given!r}"
            return negotiated_status(request, plain.status(400, "BadRequest", message))
        if not isinstance(target, SchemaRoute):
            text: bytes | None = index_text(request, await self._schemas.listing(documents))
        else:
            text = await self._text(target, documents, strict=strict)
        if text is None:
            message = f"there is no schema of such a kind here; {_INDEX} lists all schemas"
            return negotiated_status(request, plain.status(404, "NotFound", message))
        return _described(request, await self._schemas.body(text, coding))

    async def _text(
        self, target: SchemaRoute, documents: DocumentSource, *, strict: bool
    ) -> bytes | None:
        for named in _meant(target, strict=strict):
            text = await self._schemas.text(documents, named)
            if text is not None:
                return text
        return None


def _meant(target: SchemaRoute, *, strict: bool) -> list[Named]:
    """Return the kinds that a path can mean, the likeliest first.

    kubeconform calls the core group by its version: its `.Group` is what precedes the first slash
    of an apiVersion. With -strict, its `.StrictSuffix` is `-strict`, as versions may end, too.
    """
    group, version, kind = target.group, target.version, target.kind.lower()
    if group in (CORE, version, version.removesuffix(_STRICT)):
        group = ""
    meant = [Named(group, version, kind, strict)]
    if version.endswith(_STRICT):
        meant.append(Named(group, version.removesuffix(_STRICT), kind, strict=True))
    return meant


def index_text(request: Request, listing: SchemaListing) -> bytes:
    """Return the index: group, version, kind and address of each schema, sorted.

    Addresses are relative to the index (RFC 3986, section 5), which may be anywhere; they have the
    parameters with which the index was asked for.
    """
    asked = {name: value for name in _KEPT if (value := request.parameter(name))}
    query = f"?{urlencode(asked)}" if asked else ""
    schemas = [
        {
            "group": kind.group,
            "version": kind.version,
            "kind": kind.name,
            "url": _address(kind) + query,
        }
        for kind in listing.kinds
    ]
    return go_json.dumps({"schemas": schemas, "failures": dict(listing.failures)})


def _address(kind: Kind) -> str:
    name = f"{kind.name.lower()}_{kind.version}.json"
    return f"{quote(kind.group or CORE)}/{quote(name)}"


def _refusal(request: Request) -> Response | None:
    """Return the answer to a method that is not allowed; Accept is ignored."""
    status = restful_refusal(replace(request, accept=""), (JSON.media_type,), _METHODS)
    return None if status is None else negotiated_status(request, status)


def _moved(request: Request) -> Response:
    """Redirect to the path with a slash, to which addresses in the index are relative."""
    query = f"?{request.query}" if request.query else ""
    headers = [NOT_CACHED, (b"location", f"schemas/{query}".encode("latin-1"))]
    return Response(HTTPStatus.MOVED_PERMANENTLY, headers)


def _described(request: Request, body: SchemaBody) -> Response:
    """Answer with a text, or 304 if the client has it."""
    etag = f'"{body.etag}"'
    described = tagged(etag)
    if not none_match(request.if_none_match, etag):
        return described
    return with_json(described, body.data, body.coding)


@cache
def _facts() -> bytes:
    return facts_text()
