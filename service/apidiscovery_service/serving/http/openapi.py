"""Answers below `/openapi`.

Sources: k8s.io/kube-openapi pkg/handler3/handler.go:HandleGroupVersion, HandleDiscovery;
pkg/handler/handler.go for v2. Where they answer errors with an empty 200, we send a Status.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

from apidiscovery_formats.negotiation import JSON, parse_accept

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.once import Once
from apidiscovery_service.openapi.body import (
    Body,
    DocumentForm,
    DocumentSource,
    Index,
    Packed,
    PackedBody,
    server_relative_url,
)
from apidiscovery_service.serving.http.conditional import (
    Content,
    ModificationTimes,
    RangeNotSatisfiable,
    byte_range,
    precondition_status,
)
from apidiscovery_service.serving.http.messages import Headers, Request, Response, coding_headers
from apidiscovery_service.serving.http.statuses import NOT_CACHED

INDEX = "/openapi/v3"
MERGED = "/openapi/v2"

_IMMUTABLE = (b"cache-control", b"public, immutable")
_VARY = (b"vary", b"Accept")
_RANGES = (b"accept-ranges", b"bytes")


class ServedDocuments(DocumentSource, Protocol):
    """What is served: OpenAPI v3 documents, and the v2 document that is made of them."""

    @property
    def generation(self) -> int:
        """A counter that changes with any answer."""
        ...

    async def merged_v2(self, form: DocumentForm, coding: Coding) -> Body | PackedBody | None:
        """Return the OpenAPI v2 document of everything; None if there is none."""
        ...


@dataclass(frozen=True, slots=True)
class _MediaType:
    """A media type that clients may ask for.

    Attributes:
        subtype: The part after `application/`.
        form: The form of the document.
        content_type: The Content-Type of the answer.
    """

    subtype: str
    form: DocumentForm
    content_type: str


def _media_types(version: str) -> tuple[_MediaType, ...]:
    """Return the media types of one version of OpenAPI, in order of preference.

    The spelling with `@` is deprecated, and not a media type (RFC 6838); client-go asks for it.
    """
    subtype = f"com.github.proto-openapi.spec.{version}.v1.0+protobuf"
    other = f"com.github.proto-openapi.spec.{version}@v1.0+protobuf"
    return (
        _MediaType("json", DocumentForm.JSON, JSON.media_type),
        _MediaType(subtype, DocumentForm.PROTOBUF, f"application/{subtype}"),
        _MediaType(other, DocumentForm.PROTOBUF, f"application/{subtype}"),
    )


def _untyped(version: str) -> tuple[_MediaType, ...]:
    """Return the media types of a kube-apiserver before 1.27, which names none in its answers.

    Go's net/http then guesses the type by the first bytes.
    """
    other = f"com.github.proto-openapi.spec.{version}@v1.0+protobuf"
    return (
        _MediaType("json", DocumentForm.JSON, "text/plain; charset=utf-8"),
        _MediaType(other, DocumentForm.PROTOBUF, "application/octet-stream"),
    )


_MEDIA_TYPES = {version: _media_types(version) for version in ("v2", "v3")}
_UNTYPED = {version: _untyped(version) for version in ("v2", "v3")}


def negotiated(accept: str, version: str, *, untyped: bool = False) -> _MediaType | None:
    """Return the media type that answers an Accept header; None for 406.

    Parameters of a media range other than its weight are ignored, and `q=0` excludes nothing.

    Args:
        accept: The header; empty without one.
        version: Of OpenAPI: `v2` or `v3`.
        untyped: Whether to answer as kube-apiservers before 1.27.
    """
    media_types = (_UNTYPED if untyped else _MEDIA_TYPES)[version]
    for clause in parse_accept(accept or "*/*"):
        if clause.type not in ("application", "*"):
            continue
        for offered in media_types:
            if clause.subtype in (offered.subtype, "*"):
                return offered
    return None


class OpenAPIAnswers:
    """Answers requests for OpenAPI documents.

    Args:
        documents: The documents.
        times: Modification times.
        prefix: The path below which the documents are served, without `/openapi`.
        redirects: Whether a request with an outdated hash is redirected to the current document, or
            answered with it. kube-aggregator rejects redirects of extension API servers:
            k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go, `RejectForwardingRedirects`.
        untyped: Whether to name media types as kube-apiservers before 1.27.
    """

    def __init__(
        self,
        documents: ServedDocuments,
        times: ModificationTimes | None = None,
        *,
        prefix: str = "",
        redirects: bool = True,
        untyped: bool = False,
    ) -> None:
        self._documents = documents
        self._untyped = untyped
        self._redirects = redirects
        self._prefix = quote(prefix)
        self._times = times or ModificationTimes()
        self._compressing: Once[tuple[str, Coding], Body] = Once()

    async def index(self, request: Request, coding: Coding) -> Response:
        """Answer with the list of documents; Accept is ignored.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        index = await self._documents.index()
        body = await self._index_body(index, _coding_of(request, coding))
        headers = [NOT_CACHED, (b"content-type", JSON.media_type.encode())]
        return self._answer(request, INDEX, body, headers)

    @property
    def generation(self) -> int:
        """A counter that changes with any answer."""
        return self._documents.generation

    @property
    def documents(self) -> ServedDocuments:
        """The documents themselves."""
        return self._documents

    async def _index_body(self, index: Index, coding: Coding) -> Body:
        """Return the list, compressed once for concurrent requests."""
        if compression.coding_for(len(index.body), coding) == "identity":
            return Body("", index.etag, index.body, "identity")

        async def compressed() -> Body:
            data = await asyncio.to_thread(compression.compress, index.body, coding)
            return Body("", index.etag, data, coding)

        return await self._compressing.run((index.etag, coding), compressed)

    async def document(self, request: Request, key: str, coding: Coding) -> Response | None:
        """Answer with one document; None if there is none under that path.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        offered = negotiated(request.accept, "v3", untyped=self._untyped)
        current = await self._documents.hash_of(key)
        endpoint = f"{INDEX}/{{path}}"
        if current is None:
            return None
        if offered is None:
            return _not_acceptable(endpoint)
        # `etag` is its name in the KEP, `hash` the one in use.
        stated = request.parameter("hash") or request.parameter("etag")
        body: Body | None = None
        if not stated or stated == current or not self._redirects:
            body = await self._documents.body(key, offered.form, _coding_of(request, coding))
            if body is None:
                return None
            current = body.hash
        content_type = (b"content-type", offered.content_type.encode())
        if body is None or (stated and stated != current and self._redirects):
            location = f"{self._prefix}{server_relative_url(key, current)}"
            return _moved(location, current, content_type, endpoint)
        headers = [*_caching(immutable=stated == current), _VARY, content_type]
        return self._answer(request, endpoint, body, headers, key)

    async def merged(self, request: Request, coding: Coding) -> Response | None:
        """Answer with the OpenAPI v2 document of everything; None if there is none.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        offered = negotiated(request.accept, "v2", untyped=self._untyped)
        if offered is None:
            return _not_acceptable(MERGED)
        body = await self._documents.merged_v2(offered.form, _coding_of(request, coding))
        if body is None:
            return None
        headers = [NOT_CACHED, _VARY, (b"content-type", offered.content_type.encode())]
        return self._answer(request, MERGED, body, headers)

    def _answer(
        self,
        request: Request,
        endpoint: str,
        body: Body | PackedBody,
        headers: Headers,
        path: str = "",
    ) -> Response:
        etag = f'"{body.hash}"'
        content = Content(etag, self._times.since(f"{self._prefix}{endpoint} {path}", etag))
        media_type = next(value for name, value in headers if name == b"content-type").decode()
        described = Response(
            HTTPStatus.OK,
            [*headers, (b"etag", etag.encode()), _RANGES],
            endpoint=endpoint,
            representation=media_type,
            cacheable=True,
        )
        status = precondition_status(request.method, request.if_none_match, request.fields, content)
        if status != HTTPStatus.OK:
            return _without_body(described, status)
        modified = (b"last-modified", content.last_modified.encode())
        return _ranged(request, _with_body(described, body, modified), content)


def _coding_of(request: Request, coding: Coding) -> Coding:
    """Return the coding of an answer; ranges are of the uncompressed text."""
    return "identity" if request.fields.get("range") else coding


def _with_body(
    described: Response, body: Body | PackedBody, modified: tuple[bytes, bytes]
) -> Response:
    headers = [*described.headers, modified, *coding_headers(body.coding)]
    return replace(described, headers=headers, body=body.data, coding=body.coding)


def _without_body(described: Response, status: int) -> Response:
    headers = [(name, value) for name, value in described.headers if name != b"content-type"]
    return replace(described, status=status, headers=headers)


def _ranged(request: Request, whole: Response, content: Content) -> Response:
    """Return the requested range of an answer."""
    size = len(whole.body)
    try:
        part = byte_range(request.fields, content, size)
    except RangeNotSatisfiable as error:
        headers = [
            NOT_CACHED,
            (b"content-type", b"text/plain; charset=utf-8"),
            (b"x-content-type-options", b"nosniff"),
            (b"content-range", f"bytes */{size}".encode()),
        ]
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        return replace(whole, status=status, headers=headers, body=f"{error}\n".encode())
    if part is None:
        return whole
    begin, end = part
    stated = (b"content-range", f"bytes {begin}-{end - 1}/{size}".encode())
    return replace(
        whole,
        status=HTTPStatus.PARTIAL_CONTENT,
        headers=[*whole.headers, stated],
        body=_part(whole.body, begin, end),
    )


def _part(body: bytes | Packed, begin: int, end: int) -> bytes | Packed:
    return body.part(begin, end) if isinstance(body, Packed) else body[begin:end]


def _caching(*, immutable: bool) -> Headers:
    """Return the caching headers; a client that states the hash may cache the document for good.

    The zone is the reference's: not a date of RFC 9110, but one that Go's time.RFC1123 reads.
    """
    if not immutable:
        return [NOT_CACHED]
    now = datetime.now(UTC)
    if (now.month, now.day) == (2, 29):  # as time.AddDate: the first of March
        now += timedelta(days=1)
    expires = now.replace(year=now.year + 1)
    return [_IMMUTABLE, (b"expires", expires.strftime("%a, %d %b %Y %H:%M:%S UTC").encode())]


def _moved(
    location: str, current: str, content_type: tuple[bytes, bytes], endpoint: str
) -> Response:
    """Redirect a client that states another hash to the current document."""
    headers = [
        NOT_CACHED,
        _VARY,
        content_type,
        (b"etag", f'"{current}"'.encode()),
        (b"location", location.encode()),
    ]
    return Response(HTTPStatus.MOVED_PERMANENTLY, headers, endpoint=endpoint, cacheable=True)


def _not_acceptable(endpoint: str) -> Response:
    return Response(HTTPStatus.NOT_ACCEPTABLE, [NOT_CACHED], endpoint=endpoint)
