"""Answers below `/openapi`.

Sources: k8s.io/kube-openapi pkg/handler3/handler.go:HandleGroupVersion, HandleDiscovery;
pkg/handler/handler.go for v2. Where they answer an error with an empty 200, a Status is sent.
"""

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Protocol

from apidiscovery_formats.negotiation import JSON, parse_accept

from apidiscovery_service.encoding import compression
from apidiscovery_service.encoding.compression import Coding
from apidiscovery_service.openapi.body import (
    Body,
    Form,
    Index,
    Packed,
    PackedBody,
    server_relative_url,
)
from apidiscovery_service.openapi.making import Once
from apidiscovery_service.serving.http.messages import Headers, Request, Response
from apidiscovery_service.serving.http.static_content import (
    Content,
    ModificationTimes,
    RangeNotSatisfiable,
    byte_range,
    precondition_status,
)

INDEX = "/openapi/v3"
MERGED = "/openapi/v2"

_NOT_CACHED = (b"cache-control", b"no-cache, private")
_IMMUTABLE = (b"cache-control", b"public, immutable")
_VARY = (b"vary", b"Accept")
_RANGES = (b"accept-ranges", b"bytes")


class Documents(Protocol):
    """What is served."""

    @property
    def generation(self) -> int:
        """Another number whenever an answer may be another."""
        ...

    async def index(self) -> Index:
        """Return the list of all documents."""
        ...

    async def hash_of(self, key: str) -> str | None:
        """Return the hash of one document as it is now; None when there is none."""
        ...

    async def body(self, key: str, form: Form, coding: Coding) -> Body | None:
        """Return one document as it is now; None when there is none."""
        ...

    async def merged_v2(self, form: Form, coding: Coding) -> Body | PackedBody:
        """Return the OpenAPI v2 document of everything."""
        ...


@dataclass(frozen=True, slots=True)
class _Offered:
    """A media type that may be asked for, and the form that it stands for.

    Attributes:
        content_type: What the answer says that it is.
    """

    subtype: str
    form: Form
    content_type: str


def _offered(version: str) -> tuple[_Offered, ...]:
    """Return the media types of one version of OpenAPI, in the order in which they are tried.

    The spelling with `@` is no media type by RFC 6838 and deprecated; client-go still asks for it.
    """
    subtype = f"com.github.proto-openapi.spec.{version}.v1.0+protobuf"
    other = f"com.github.proto-openapi.spec.{version}@v1.0+protobuf"
    return (
        _Offered("json", Form.JSON, JSON.media_type),
        _Offered(subtype, Form.PROTOBUF, f"application/{subtype}"),
        _Offered(other, Form.PROTOBUF, f"application/{subtype}"),
    )


_OFFERED = {"v2": _offered("v2"), "v3": _offered("v3")}


def negotiated(accept: str, version: str) -> _Offered | None:
    """Return what an Accept header is answered with; None for 406.

    Parameters of a media range count for nothing but its weight, and `q=0` excludes nothing.
    """
    for clause in parse_accept(accept or "*/*"):
        if clause.type not in ("application", "*"):
            continue
        for offered in _OFFERED[version]:
            if clause.subtype in (offered.subtype, "*"):
                return offered
    return None


class OpenAPIAnswers:
    """Answers requests for OpenAPI documents.

    Args:
        documents: What is served.
        times: Since when it is as it is.
        redirects: Whether who states another hash is sent to the document as it is now; else it
            is the answer. kube-aggregator lets no redirection of an extension API server through:
            k8s.io/kube-aggregator pkg/apiserver/handler_proxy.go, `RejectForwardingRedirects`.
    """

    def __init__(
        self,
        documents: Documents,
        times: ModificationTimes | None = None,
        *,
        redirects: bool = True,
    ) -> None:
        self._documents = documents
        self._redirects = redirects
        self._times = times or ModificationTimes()
        self._index_bodies: dict[Coding, Body] = {}
        self._compressing: Once[tuple[str, Coding], Body] = Once()

    async def index(self, request: Request, coding: Coding) -> Response:
        """Answer for the list of documents; Accept is not looked at.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        index = await self._documents.index()
        body = await self._index_body(index, _coding_of(request, coding))
        headers = [_NOT_CACHED, (b"content-type", JSON.media_type.encode())]
        return self._answer(request, INDEX, body, headers)

    @property
    def generation(self) -> int:
        """Another number whenever an answer may be another."""
        return self._documents.generation

    async def _index_body(self, index: Index, coding: Coding) -> Body:
        """Return the list, compressed once."""
        if coding == "identity" or len(index.body) < compression.MIN_COMPRESSED_BYTES:
            return Body("", index.etag, index.body, "identity")
        kept = self._index_bodies.get(coding)
        if kept is not None and kept.hash == index.etag:
            return kept
        return await self._compressing.run(
            (index.etag, coding), lambda: self._compressed(index, coding)
        )

    async def _compressed(self, index: Index, coding: Coding) -> Body:
        data = await asyncio.to_thread(compression.compress, index.body, coding)
        self._index_bodies[coding] = body = Body("", index.etag, data, coding)
        return body

    async def document(self, request: Request, key: str, coding: Coding) -> Response | None:
        """Answer for one document; None when there is none under that path.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        offered = negotiated(request.accept, "v3")
        current = await self._documents.hash_of(key)
        endpoint = f"{INDEX}/{{path}}"
        if current is None:
            return None
        if offered is None:
            return _not_acceptable(endpoint)
        # As the KEP that introduced it called it, and as it is called.
        stated = request.parameter("hash") or request.parameter("etag")
        body: Body | None = None
        if not stated or stated == current or not self._redirects:
            body = await self._documents.body(key, offered.form, _coding_of(request, coding))
            if body is None:
                return None
            current = body.hash
        content_type = (b"content-type", offered.content_type.encode())
        if body is None or (stated and stated != current and self._redirects):
            return _moved(key, current, content_type, endpoint)
        headers = [*_caching(immutable=stated == current), _VARY, content_type]
        return self._answer(request, endpoint, body, headers, key)

    async def merged(self, request: Request, coding: Coding) -> Response:
        """Answer for the document of everything, in OpenAPI v2.

        Raises:
            DiscoveryError: It cannot be made now.
        """
        offered = negotiated(request.accept, "v2")
        if offered is None:
            return _not_acceptable(MERGED)
        body = await self._documents.merged_v2(offered.form, _coding_of(request, coding))
        headers = [_NOT_CACHED, _VARY, (b"content-type", offered.content_type.encode())]
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
        content = Content(etag, self._times.since(f"{endpoint} {path}", etag))
        media_type = next(value for name, value in headers if name == b"content-type").decode()
        described = Response(
            HTTPStatus.OK,
            [*headers, (b"etag", etag.encode()), _RANGES],
            endpoint=endpoint,
            representation=media_type,
            lasting=True,
        )
        status = precondition_status(request.method, request.if_none_match, request.fields, content)
        if status != HTTPStatus.OK:
            return _without_body(described, status)
        modified = (b"last-modified", content.last_modified.encode())
        return _ranged(request, _with_body(described, body, modified), content)


def _coding_of(request: Request, coding: Coding) -> Coding:
    """Return the coding of an answer; parts are parts of the plain text."""
    return "identity" if request.fields.get("range") else coding


def _with_body(
    described: Response, body: Body | PackedBody, modified: tuple[bytes, bytes]
) -> Response:
    headers = [*described.headers, modified]
    if body.coding != "identity":
        headers += [(b"content-encoding", body.coding.encode()), (b"vary", b"Accept-Encoding")]
    return replace(described, headers=headers, body=body.data, coding=body.coding)


def _without_body(described: Response, status: int) -> Response:
    headers = [(name, value) for name, value in described.headers if name != b"content-type"]
    return replace(described, status=status, headers=headers)


def _ranged(request: Request, whole: Response, content: Content) -> Response:
    """Return the part of an answer that is asked for."""
    size = len(whole.body)
    try:
        part = byte_range(request.fields, content, size)
    except RangeNotSatisfiable as error:
        headers = [
            _NOT_CACHED,
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
    """Return what caches are told; whoever states the hash may keep the document for good.

    The zone is written as the reference writes it, which is no date by RFC 9110 but one that Go's
    time.RFC1123 reads.
    """
    if not immutable:
        return [_NOT_CACHED]
    now = datetime.now(UTC)
    if (now.month, now.day) == (2, 29):  # time.AddDate makes the first of March of it
        now += timedelta(days=1)
    expires = now.replace(year=now.year + 1)
    return [_IMMUTABLE, (b"expires", expires.strftime("%a, %d %b %Y %H:%M:%S UTC").encode())]


def _moved(key: str, current: str, content_type: tuple[bytes, bytes], endpoint: str) -> Response:
    """Send a client that states another hash to the document as it is now."""
    headers = [
        _NOT_CACHED,
        _VARY,
        content_type,
        (b"etag", f'"{current}"'.encode()),
        (b"location", server_relative_url(key, current).encode()),
    ]
    return Response(HTTPStatus.MOVED_PERMANENTLY, headers, endpoint=endpoint, lasting=True)


def _not_acceptable(endpoint: str) -> Response:
    return Response(HTTPStatus.NOT_ACCEPTABLE, [_NOT_CACHED], endpoint=endpoint)
