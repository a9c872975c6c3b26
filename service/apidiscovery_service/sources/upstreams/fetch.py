"""One exchange with an upstream: a request and a complete answer within limits."""

import asyncio
import gzip
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from apidiscovery_formats.media_types import JSON, aggregated, parse_media_type

from apidiscovery_service import workers
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.endpoint import failures
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.reachability import answered_without_tls, explained
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.workers import WorkerFailed

if TYPE_CHECKING:  # imported with the first request
    from apidiscovery_service.sources.upstreams.transport import Response

AGGREGATED_VERSIONS = ("v2", "v2beta1")
AGGREGATED = tuple(aggregated(JSON, version) for version in AGGREGATED_VERSIONS)

_GROUP = "system:masters"
_USER = "system:kube-aggregator"
# Source: k8s.io/kube-aggregator pkg/controllers/openapiv3/aggregator/downloader.go.
OPENAPI_USER = "system:aggregator"

# Small enough to be read on the event loop: 32 KiB take about 2 ms.
_READ_AT_ONCE = 32 * 1024
# A gzip bomb of this size unpacks to 4 MiB.
_UNPACKED_AT_ONCE = 4 * 1024

# The start of a gzip member (RFC 1952, section 2.3.1); each takes time, even without content.
_MEMBER = b"\x1f\x8b\x08"
_MAX_MEMBERS = 4096
_MAX_ETAG = 1024
_SHOWN_OF_BODY = 1024

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a GET.

    Attributes:
        path: The path of the request.
        etag: Verbatim; empty when there is none or it cannot be sent back.
        body: As it was sent: gzip if `is_gzip`.
        location: The target of a redirect.
    """

    path: str
    status: int
    content_type: str
    etag: str
    body: Body
    is_gzip: bool = False
    location: str = ""

    @property
    def is_aggregated(self) -> bool:
        """Whether the body is an aggregated document in JSON."""
        found = parse_media_type(self.content_type)
        if found is None or found.range != JSON:
            return False
        return found.aggregated_version in AGGREGATED_VERSIONS

    @property
    def is_plain_json(self) -> bool:
        """Whether the body is unaggregated JSON."""
        found = parse_media_type(self.content_type)
        if found is None or found.range != JSON:
            return False
        return found.parameters.keys().isdisjoint(("g", "v", "as"))

    def wrong(self, wanted: str) -> UpstreamFailed:
        """Return the error that another answer was wanted."""
        if self.status == HTTPStatus.OK:
            kind = self.content_type or "none"
            text = f"GET {self.path}: got Content-Type {kind!r}, want {wanted}"
            return UpstreamFailed(Reason.CONTENT_TYPE, text)
        to = f" to {shown(self.location, 100)}, which is not followed" if self.location else ""
        text = f"GET {self.path}: got status {self.status}{to}, want {wanted}"
        return UpstreamFailed(Reason.STATUS, text)


class Exchange:
    """Sends requests to one upstream.

    Args:
        spec: The upstream and its limits.
        count_bytes: Called with the size of each answer as it was sent.
    """

    def __init__(self, spec: UpstreamSpec, count_bytes: Callable[[int], None]) -> None:
        self._spec = spec
        self._count_bytes = count_bytes

    async def get(
        self,
        path: str,
        accept: str,
        *,
        etag: str = "",
        as_master: bool = True,
        user: str = _USER,
    ) -> Answer:
        """GET a path; on status 401, once more with fresh credentials.

        Args:
            path: Below the URL of the upstream.
            accept: The media types.
            etag: For If-None-Match; empty for none.
            as_master: Whether kube-aggregator asks as a member of `system:masters`.
            user: The user that kube-aggregator asks as.

        Raises:
            UpstreamFailed: There is no answer in time, or it exceeds its limits.
        """
        headers = self._headers(accept, etag, user, as_master=as_master)
        answer, sent = await self._within_time(path, headers)
        has_credentials = sent or self._spec.kind is UpstreamKind.CLUSTER
        if answer.status == HTTPStatus.UNAUTHORIZED and has_credentials:
            self._spec.endpoint.refresh(sent)
            answer, _ = await self._within_time(path, headers)
        return answer

    async def plain(self, path: str, reader: Callable[[Body], T]) -> T:
        """GET unaggregated JSON; return the result of `reader` for it, as `read`.

        Raises:
            UpstreamFailed: There is no such answer, or it cannot be read.
        """
        answer = await self.get(path, JSON)
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            raise answer.wrong(JSON)
        return await self.read(answer, reader)

    def _headers(
        self, accept: str, etag: str, user: str, *, as_master: bool
    ) -> list[tuple[str, str]]:
        headers = [("Accept", accept)]
        if self._spec.kind is not UpstreamKind.CLUSTER:
            headers.append(("X-Remote-User", user))
            if as_master:
                headers.append(("X-Remote-Group", _GROUP))
        if etag:
            headers.append(("If-None-Match", etag))
        return headers

    async def _within_time(
        self, path: str, headers: list[tuple[str, str]]
    ) -> tuple[Answer, dict[str, str]]:
        limit_s = self._spec.limits.exchange_s
        try:
            async with asyncio.timeout(limit_s):
                credentials = await self._spec.endpoint.headers()
                sent = [*headers, *credentials.items()]
                return await self._exchange(path, sent), credentials
        except TimeoutError:
            message = f"GET {path}: no whole answer within {limit_s:g} s"
            raise UpstreamFailed(Reason.TIMEOUT, message) from None
        except UpstreamFailed as failure:
            raise UpstreamFailed(failure.reason, f"GET {path}: {failure}") from None
        except DiscoveryError as error:
            raise UpstreamFailed(Reason.CREDENTIALS, f"GET {path}: {error}") from error
        except failures() as error:
            text = await explained(error, self._spec.endpoint.url, self._spec.endpoint.proxy)
            raise UpstreamFailed(Reason.UNREACHABLE, f"GET {path}: {text}") from error

    async def _exchange(self, path: str, headers: Sequence[tuple[str, str]]) -> Answer:
        response = await self._spec.endpoint.get(path, headers)
        try:
            body = await self._body(response)
        finally:
            await response.aclose()
        if response.status == HTTPStatus.BAD_REQUEST:
            reason = answered_without_tls(bytes(body[:_SHOWN_OF_BODY]))
            if reason:
                raise UpstreamFailed(Reason.UNREACHABLE, reason)
        coding = response.header("content-encoding").strip().lower()
        if body and coding not in ("", "identity", "gzip"):
            message = f"got Content-Encoding {coding!r}, want gzip or none"
            raise UpstreamFailed(Reason.CONTENT_TYPE, message)
        return Answer(
            path,
            response.status,
            response.header("content-type"),
            _usable_etag(response.header("etag")),
            body,
            coding == "gzip",
            response.header("location"),
        )

    async def _body(self, response: "Response") -> Body:
        limit = self._spec.limits.body_bytes
        body = bytearray()
        try:
            async for piece in response.pieces():
                body += piece
                if len(body) > limit:
                    raise _too_large(limit)
        finally:
            self._count_bytes(len(body))
        return body  # to copy 32 MiB took 20 ms

    def _is_small(self, answer: Answer) -> bool:
        if not answer.is_gzip:
            return len(answer.body) <= _READ_AT_ONCE
        if len(answer.body) > _UNPACKED_AT_ONCE:
            return False
        return len(unpacked(answer.body, self._spec.limits.body_bytes)) <= _READ_AT_ONCE

    async def read(self, answer: Answer, reader: Callable[[Body], T]) -> T:
        """Return the result of `reader` for a body; a worker process reads a large one.

        Args:
            answer: The answer with the body.
            reader: A function of a module, or a `partial` of one.

        Raises:
            UpstreamFailed: The body is damaged or of another kind, or exceeds a limit.
        """
        limit = self._spec.limits.body_bytes
        try:
            if self._is_small(answer):
                return _read(reader, answer.body, limit, is_gzip=answer.is_gzip)
            return await workers.run(_read, reader, answer.body, limit, is_gzip=answer.is_gzip)
        except WorkerFailed as error:
            text = f"GET {answer.path}: the answer cannot be read: {error}"
            raise UpstreamFailed(Reason.TOO_LARGE, text) from None
        except UpstreamFailed as failure:
            raise UpstreamFailed(failure.reason, f"GET {answer.path}: {failure}") from None


def _read(reader: Callable[[Body], T], body: Body, limit: int, *, is_gzip: bool) -> T:
    return reader(unpacked(body, limit) if is_gzip else body)


def unpacked(packed: Body, limit: int) -> bytes:
    """Return the content of gzip, which may have several members.

    Raises:
        UpstreamFailed: It is damaged or truncated, or has more than `limit` bytes.
    """
    if packed.count(_MEMBER) > _MAX_MEMBERS:
        text = f"the gzip body has more than {_MAX_MEMBERS} members"
        raise UpstreamFailed(Reason.TOO_LARGE, text)
    try:
        content = gzip.GzipFile(fileobj=io.BytesIO(packed)).read(limit + 1)
    except EOFError:
        raise UpstreamFailed(Reason.MALFORMED, "the gzip body is cut") from None
    except (OSError, zlib.error) as error:
        raise UpstreamFailed(Reason.MALFORMED, f"the body is not gzip: {error}") from None
    if len(content) > limit:
        raise _too_large(limit)
    return content


def _usable_etag(etag: str) -> str:
    is_usable = len(etag) <= _MAX_ETAG and etag.isascii() and etag.isprintable()
    return etag if is_usable else ""


def _too_large(limit: int) -> UpstreamFailed:
    return UpstreamFailed(Reason.TOO_LARGE, f"the answer has more than {limit} bytes")
