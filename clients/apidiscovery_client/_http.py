"""Fetches discovery from a server: two requests, and one per group-version where it is too old."""

import asyncio
import ipaddress
import re
import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.metadata import version
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import httpx2

from apidiscovery_client._documents import (
    Discovery,
    Group,
    GroupVersion,
    Half,
    Resource,
    T,
    UnreadableError,
    read_core,
    read_groups,
    read_resources,
    status_message,
)
from apidiscovery_client._errors import (
    DiscoveryError,
    RequestRefused,
    ServerUnreachable,
    UnexpectedDocument,
)
from apidiscovery_client._negotiation import ACCEPT, ACCEPT_PLAIN

DEFAULT_TIMEOUT_S = 32.0  # client-go discovery/discovery_client.go `defaultTimeout`
MAX_BODY_BYTES = 64 << 20  # uncompressed; 3 000 groups of five resources are 18 MB indented
MAX_CONCURRENT_REQUESTS = 16
MAX_RETRIES = 10  # client-go rest/request.go `maxRetries`
MAX_RETRY_AFTER_S = 5  # a server that asks for more is better told of than waited for
_MAX_MESSAGE_CHARACTERS = 1000
_SERVER_ERRORS = 500

# client-go api/errors/errors.go `NewGenericServerResponse`: for answers that are no Status.
_STATUS_MESSAGES: Mapping[int, str] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    403: "the server does not allow access to the requested resource",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    406: "the server was unable to respond with a content type that the client supports",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, "
    "but may still be processing the request",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """An API server and how to reach it.

    Attributes:
        url: Scheme, host and where needed port and path, without credentials or trailing slash.
        token: Sent as a bearer token with every request.
        tls: None for the system's certificate authorities.
        tls_server_name: Expected in the certificate instead of the host in `url`.
        request_timeout_s: For each request; None waits forever.
    """

    url: str
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    tls_server_name: str | None = None
    request_timeout_s: float | None = DEFAULT_TIMEOUT_S

    @property
    def is_local(self) -> bool:
        """Whether the host is a loopback address or `localhost`."""
        host = urlsplit(self.url).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"


async def discover(server: Server) -> Discovery:
    """Return the groups of a server and the resources of each group-version.

    The server need not know aggregated discovery, at `/api` or at `/apis`: what it does not tell
    there is asked for per group-version. A group-version that fails is in `failures`.

    Raises:
        ServerUnreachable: No answer to `/api` or `/apis`.
        RequestRefused: Another status than 200 there, save 404 at `/api`: there is no core group.
        UnexpectedDocument: A body there that is not what its Content-Type promises.
    """
    async with Session(server) as session:
        halves = await session.halves()
        unknown = [
            gv
            for half in halves
            if half.resources is None
            for group in half.groups
            for gv in group.group_versions
        ]
        resources, failures = await session.resources(unknown)
    for half in halves:
        resources |= half.resources or {}
    return Discovery(_groups(halves), resources, failures | _failures(halves))


async def discover_groups(server: Server) -> Discovery:
    """Return the groups of a server with two requests; raise as `discover` does.

    `resources` is empty, `failures` has only what the server itself calls stale.
    """
    async with Session(server) as session:
        halves = await session.halves()
    return Discovery(_groups(halves), {}, _failures(halves))


def _groups(halves: Iterable[Half]) -> tuple[Group, ...]:
    return tuple(group for half in halves for group in half.groups)


def _failures(halves: Iterable[Half]) -> dict[GroupVersion, str]:
    return {gv: reason for half in halves for gv, reason in half.failures.items()}


class Answer(NamedTuple):
    """What a server answered, whatever its status.

    Attributes:
        url: What was asked for.
        body: Decompressed.
    """

    url: str
    status: int
    headers: httpx2.Headers
    body: bytes

    @property
    def retry_after_s(self) -> int | None:
        """Return when to ask again, where the server says so with 429 or 5xx.

        Source: client-go rest/with_retry.go `checkWait`: whole seconds only, no dates.
        """
        is_busy = self.status == HTTPStatus.TOO_MANY_REQUESTS or self.status >= _SERVER_ERRORS
        wait = self.headers.get("retry-after", "")
        return int(wait) if is_busy and re.fullmatch(r"[0-9]{1,9}", wait) else None

    def read(self, reader: Callable[[str | None, bytes], T]) -> T:
        """Return what `reader` makes of a 200; raise `RequestRefused`, `UnexpectedDocument`."""
        if self.status != HTTPStatus.OK:
            raise RequestRefused(self._refusal(), url=self.url, status=self.status)
        try:
            return reader(self.headers.get("content-type"), self.body)
        except UnreadableError as error:
            raise UnexpectedDocument(str(error), url=self.url) from None

    def _refusal(self) -> str:
        if location := self.headers.get("location"):
            return f"redirects are not followed, this one is to {location}"
        said = " ".join(status_message(self.body).split())[:_MAX_MESSAGE_CHARACTERS]
        return said or _STATUS_MESSAGES.get(
            self.status,
            f"the server gave no reason ({httpx2.codes.get_reason_phrase(self.status)})",
        )


class Session:
    """One connection pool for one server; every request has its time and size bounded."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._client = _client(server)
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._client.aclose()

    async def halves(self) -> tuple[Half, Half]:
        """Return what `/api` and `/apis` tell, asked for at once; the error of the first wins.

        The other request is then not cancelled but awaited: httpcore leaves the socket of a TLS
        handshake open when that is cancelled (`start_tls` closes on `Exception` only).
        """
        core, groups = await asyncio.gather(
            self._core(), self._named_groups(), return_exceptions=True
        )
        if isinstance(core, BaseException):
            raise core
        if isinstance(groups, BaseException):
            raise groups
        return core, groups

    async def _core(self) -> Half:
        answer = await self.get("/api", ACCEPT)
        if answer.status == HTTPStatus.NOT_FOUND:
            return Half(resources={})
        return answer.read(read_core)

    async def _named_groups(self) -> Half:
        return (await self.get("/apis", ACCEPT)).read(read_groups)

    async def resources(
        self, gvs: Iterable[GroupVersion]
    ) -> tuple[dict[GroupVersion, tuple[Resource, ...]], dict[GroupVersion, str]]:
        """Return the resources of each group-version, and why those of others could not be had."""
        async with asyncio.TaskGroup() as tasks:
            asked = {gv: tasks.create_task(self._resources_or_reason(gv)) for gv in gvs}
        answers = {gv: task.result() for gv, task in asked.items()}
        return (
            {gv: answer for gv, answer in answers.items() if not isinstance(answer, str)},
            {gv: answer for gv, answer in answers.items() if isinstance(answer, str)},
        )

    async def _resources_or_reason(self, gv: GroupVersion) -> tuple[Resource, ...] | str:
        """Return the resources, or the text of what went wrong.

        404 is tolerated for v1 of the core group only, as client-go
        `ServerResourcesForGroupVersion` does.
        """
        try:
            return (await self.get(gv.path, ACCEPT_PLAIN)).read(read_resources)
        except RequestRefused as error:
            if error.status == HTTPStatus.NOT_FOUND and gv == GroupVersion("", "v1"):
                return ()
            return error.message
        except DiscoveryError as error:
            return str(error)

    async def get(self, path: str, accept: str) -> Answer:
        """Return the answer, whatever its status.

        Raises:
            ServerUnreachable: There is none, or not all of it within the request timeout.
            UnexpectedDocument: It is larger than `MAX_BODY_BYTES`, or wrongly compressed.
        """
        url = self._server.url + path
        try:
            async with self._slots, asyncio.timeout(self._server.request_timeout_s):
                return await self._persistently(url, accept)
        except TimeoutError:
            seconds = self._server.request_timeout_s
            raise ServerUnreachable(
                f"GET {url}: no answer within {seconds or 0:g} s", url=url
            ) from None
        except httpx2.DecodingError as error:
            raise UnexpectedDocument(f"the body cannot be decoded: {error}", url=url) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
            raise ServerUnreachable(_why(error, url), url=url) from error

    async def _persistently(self, url: str, accept: str) -> Answer:
        """Return the answer, or the last one of a server that asks to come again later."""
        for _ in range(MAX_RETRIES):
            answer = await self._request(url, accept)
            wait_s = answer.retry_after_s
            if wait_s is None or wait_s > MAX_RETRY_AFTER_S:
                return answer
            await asyncio.sleep(wait_s)
        return await self._request(url, accept)

    async def _request(self, url: str, accept: str) -> Answer:
        sni = self._server.tls_server_name
        async with self._client.stream(
            "GET",
            url,
            headers={"Accept": accept},
            extensions={"sni_hostname": sni} if sni else {},
        ) as response:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise UnexpectedDocument(f"the body exceeds {MAX_BODY_BYTES} bytes", url=url)
            return Answer(url, response.status_code, response.headers, bytes(body))


def _client(server: Server) -> httpx2.AsyncClient:
    """Return a client for one server; raise `ServerUnreachable` when a proxy setting is unusable.

    Loopback is never asked for through a proxy, as Go's net/http `ProxyFromEnvironment`.
    """
    headers = {"User-Agent": f"apidiscovery/{version('apidiscovery')}"}
    if server.token:
        headers["Authorization"] = f"Bearer {server.token}"
    try:
        return httpx2.AsyncClient(
            headers=headers,
            http2=True,
            limits=httpx2.Limits(max_connections=MAX_CONCURRENT_REQUESTS),
            timeout=None,  # one for the whole request is set around it
            trust_env=not server.is_local,
            verify=server.tls or _default_tls(server),
        )
    except (ImportError, ValueError) as error:  # such as a SOCKS proxy
        raise ServerUnreachable(
            f"the proxy in the environment cannot be used: {error}", url=server.url
        ) from error


def _default_tls(server: Server) -> ssl.SSLContext:
    """Return what trusts the system's certificate authorities; reading them takes some 30 ms.

    Plain HTTP on this machine, where no proxy is used, gets one that trusts nobody.
    """
    if server.is_local and server.url.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return ssl.create_default_context()


def _why(error: Exception, url: str) -> str:
    """Return why there was no answer, from the innermost error that tells."""
    host = urlsplit(url).netloc
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ConnectionRefusedError):
            return (
                f"the connection to the server {host} was refused"
                " - did you specify the right host or port?"
            )
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"GET {url}: the server's certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            return f"GET {url}: TLS failed: {cause.reason or cause}"
        cause = cause.__cause__ or cause.__context__
    return f"GET {url}: {str(error) or type(error).__name__}"
