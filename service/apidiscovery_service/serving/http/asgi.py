"""The ASGI application: reads a request, answers it, counts it.

Answers to discovery requests are cached, ready to send, until the next snapshot, by all parts of
the request that they depend on. The usual request (If-None-Match of a client that is up to date) is
therefore one look-up: it allocates no document, negotiates nothing and hashes nothing.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import NamedTuple, Protocol
from weakref import WeakKeyDictionary

import structlog
from apidiscovery_formats.negotiation import JSON, Representation

from apidiscovery_service.access import Role
from apidiscovery_service.access.authenticator import (
    EVERYTHING,
    Access,
    Admission,
    OpenAccess,
    Peers,
    connection_name,
)
from apidiscovery_service.encoding import CurrentEncoding, EncodedSnapshot, plain
from apidiscovery_service.fleet.scope import Scope as FleetScope
from apidiscovery_service.metrics import RequestLabels
from apidiscovery_service.serving.feature_gates import RESPONSE_COMPRESSION
from apidiscovery_service.serving.http.admission import (
    Credentials,
    Refused,
    admit,
    refusal,
    unidentified,
)
from apidiscovery_service.serving.http.conditional import FIELDS
from apidiscovery_service.serving.http.fleet import FleetAnswers, is_fleet_path
from apidiscovery_service.serving.http.messages import (
    Headers,
    PreparedResponse,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    body_message,
)
from apidiscovery_service.serving.http.objects.gateway import Exchange, ObjectGateway
from apidiscovery_service.serving.http.objects.routes import ObjectRoute, object_route
from apidiscovery_service.serving.http.objects.watch import stream as stream_frames
from apidiscovery_service.serving.http.pages_interface import Events, PageExchange, UserInterface
from apidiscovery_service.serving.http.past import PastAnswers, asks_for_past
from apidiscovery_service.serving.http.respond import Site, respond
from apidiscovery_service.serving.http.response_cache import ResponseCache
from apidiscovery_service.serving.http.sending import Delivery, disconnected
from apidiscovery_service.serving.http.statuses import (
    internal_error,
    invalid_timeout,
    negotiated_status,
    starting,
    status_response,
    with_header,
)
from apidiscovery_service.serving.unread import UnreadBudget, end_name

# Names and values of all header fields; Go's default is 1 MiB, no discovery client needs 8 KiB.
MAX_HEADER_BYTES = 64 * 1024

_MAX_KEY_BYTES = 4096

_OPENAPI = ("/openapi/", "/schemas")
# Of the caches for OpenAPI, for calls and for each scope of the fleet. It is enough for the index
# and some popular documents; `openapi.documents` caches the others. `Expires` is right to the
# minute.
_CACHE_BYTES = 8 * 1024 * 1024
_CACHE_S = 60.0

# A browser opens the stream of a page again when it ends.
_STREAM_S = 3600.0

_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
_HUMAN_AGENTS = (b"curl", b"Wget", b"Mozilla/5.0")
_TOO_LARGE = 431
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")

_log = structlog.get_logger(__name__)


class _Key(NamedTuple):
    """All parts of a request that its answer depends on.

    Attributes:
        further: Lines with the other header fields in `conditional.FIELDS`.
        human: Whether the client is curl, Wget or a browser.
        too_large: Whether the header fields take more than `MAX_HEADER_BYTES`.
    """

    method: str
    path: str
    query: bytes
    accept: bytes | None
    encoding: bytes
    none_match: bytes
    content_type: bytes | None
    further: bytes
    human: bool
    too_large: bool

    @property
    def is_small(self) -> bool:
        """Whether it may be kept with its answer."""
        return sum(len(part) for part in self[:-2] if part) <= _MAX_KEY_BYTES

    def request(self) -> Request:
        """Return the request."""
        # Header fields are bytes; Latin-1 keeps each of them and is what ASCII comparisons need.
        lines = self.further.decode("latin-1").split("\n")[:-1]
        return Request(
            self.method,
            self.path,
            self.query.decode("latin-1"),
            (self.accept or b"").decode("latin-1"),
            self.encoding.decode("latin-1"),
            self.none_match.decode("latin-1"),
            (self.content_type or b"").decode("latin-1"),
            self.human,
            # Of several the first counts, as by Go's `Header.Get`.
            fields=dict(line.split(": ", 1) for line in reversed(lines)),
        )


@dataclass(frozen=True, slots=True)
class _Incoming:
    """A request and the means to answer it.

    Attributes:
        key: All parts of it that its answer depends on.
        scope: As ASGI has it.
        receive: As ASGI has it.
        send: As ASGI has it.
        started: When it arrived, by `perf_counter`.
    """

    key: _Key
    scope: Scope
    receive: Receive
    send: Send
    started: float

    @property
    def connection(self) -> str:
        """The name of the connection for limits of unread answers."""
        return end_name(self.scope.get("client"))

    @property
    def front_connection(self) -> str:
        """The name of the connection by the front; empty for one that is not from it."""
        client, _ = self.scope.get("client") or ("", 0)
        return connection_name(client)

    @property
    def credentials(self) -> Credentials:
        """The credentials of the caller."""
        headers: Headers = self.scope["headers"]
        fields = (value for name, value in headers if name == b"authorization")
        return Credentials(self.front_connection, next(fields, None))

    def refusal(self) -> Response | None:
        """Return the answer to a malformed request; None to others."""
        if self.key.too_large:
            message = f"the header fields take more than {MAX_HEADER_BYTES} bytes"
            return _status(_TOO_LARGE, "RequestHeaderFieldsTooLarge", message)
        if _BAD_ESCAPE.search(self.scope.get("raw_path") or b""):
            return _status(400, "BadRequest", "the path has a malformed percent-encoding")
        return None


class CallGateway(Protocol):
    """Answers calls of methods by other protocols over HTTP."""

    @property
    def prefix(self) -> str:
        """The prefix of the paths of all methods."""
        ...

    def refusal(self, request: Request, refused: Refused) -> Response:
        """Answer a refused caller."""
        ...

    async def answer(
        self, request: Request, scope: Scope, receive: Receive, send: Send
    ) -> Response | None:
        """Answer a call; return None for an answer that is sent already."""
        ...


class Gateway:
    """Serves the snapshots of a registry; mount it anywhere or run it alone.

    Args:
        encoding: The encoded snapshot.
        site: The other things that answers depend on.
        ready: Whether the local sources are in the snapshot; discovery is 503 until then.
        access: Authenticates and authorizes callers; None to admit all.
        unread: Bounds unread answers, also those of gRPC.
        peers: The connections of the front; None without a front.
        fleet: Answers below `/clusters`, `/fleet` and `/views`; None for 404.
        past: Answers with earlier documents; None to refuse such requests.
        interface: Answers browsers; None for no pages.
        calls: Answers calls of the services; None for 404.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - each is another part of the server
        self,
        encoding: CurrentEncoding,
        site: Site,
        ready: Callable[[], bool] = lambda: True,
        access: Access | None = None,
        unread: UnreadBudget | None = None,
        peers: Peers | None = None,
        fleet: FleetAnswers | None = None,
        past: PastAnswers | None = None,
        interface: UserInterface | None = None,
        calls: CallGateway | None = None,
    ) -> None:
        self._access = access or OpenAccess()
        self._interface = interface
        self._calls = calls
        self._call_prefixes = (calls.prefix,) if calls else ()
        self._encoding = encoding
        self._site = site
        self._past = past or PastAnswers(None, site)
        self._fleet = fleet
        self._ready = ready
        self._cache: ResponseCache[_Key] = ResponseCache()
        self._openapi_cache: ResponseCache[_Key] = ResponseCache(_CACHE_BYTES, _CACHE_S)
        self._call_cache: ResponseCache[_Key] = ResponseCache(_CACHE_BYTES)
        # Callers with the same scope share answers about the fleet.
        self._fleet_caches: WeakKeyDictionary[FleetScope, ResponseCache[_Key]] = WeakKeyDictionary()
        self._peers = Peers() if peers is None else peers  # which is false while it is empty
        self._delivery = Delivery(unread or UnreadBudget())
        self._too_many = self._prepare("GET", _too_many_unread())
        self._too_many_bare = self._prepare("GET", replace(_too_many_unread(), body=b""))
        self._objects = _object_gateway(site, self._access, self._prepare)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection."""
        if scope["type"] != "http":
            await _not_http(scope, receive, send)
            return
        key = _key(scope)
        incoming = _Incoming(key, scope, receive, send, perf_counter())
        if self._interface is not None and self._interface.takes(key.path, key.accept):
            await self._interface.serve(self._page_exchange(incoming))
            return
        current = self._encoding.current
        # Cached answers are for all callers: authorization comes first.
        admission, answer = self._admit(incoming)
        cache, state = self._cache_of(key.path, admission, current)
        if answer is None:
            answer = cache.get(key, state)
        if answer is None:
            # Answers about objects are never cached, so a cached one does not pay for this check.
            target = object_route(key.path) if self._objects is not None else None
            if self._objects is not None and target is not None:
                exchange = self._exchange(incoming, target, admission)
                await self._objects.serve(exchange, self._early(incoming, exchange.request))
                return
            response = await self._response(incoming, current, admission)
            if response is None:
                return
            answer = self._prepare(key.method, response)
            if response.cacheable and key.is_small:
                cache.put(key, state, answer)
        await self._deliver(incoming, admission.limit_key, answer)

    def _cache_of(
        self, path: str, admission: Admission, current: EncodedSnapshot
    ) -> tuple[ResponseCache[_Key], object]:
        """Return the cache of a path, and the state for which its answers are."""
        if path.startswith(_OPENAPI) and self._site.openapi is not None:
            return self._openapi_cache, self._site.openapi.generation
        if path.startswith(self._call_prefixes):
            return self._call_cache, current
        if self._fleet is None or not is_fleet_path(path):
            return self._cache, current
        seen = self._fleet.scope(admission.clusters)
        cache = self._fleet_caches.get(seen)
        if cache is None:
            cache = self._fleet_caches[seen] = ResponseCache[_Key](_CACHE_BYTES, _CACHE_S)
        return cache, self._fleet.state(seen)

    async def _deliver(self, incoming: _Incoming, caller: str, answer: PreparedResponse) -> None:
        """Send an answer, or 429 if its caller leaves too much unread.

        Over HTTP/2 the refusal has no body, which would be unread as well.
        """
        is_http2 = incoming.scope.get("http_version") == "2"
        whose = partial(self._caller, incoming, caller)
        if self._delivery.is_counted(answer, whose, is_http2=is_http2):
            reservation = self._delivery.reserve(incoming.connection, whose())
            if reservation is not None:
                await self._delivery.send(incoming.receive, incoming.send, answer, reservation)
                answer.stats.observe(perf_counter() - incoming.started)
                return
            answer = self._too_many_bare if is_http2 else self._too_many
        await incoming.send(answer.start)
        await incoming.send(answer.body)
        answer.stats.observe(perf_counter() - incoming.started)

    def _forward(self, incoming: _Incoming, caller: str) -> Send:
        """Return a function that sends the messages of a stream, counted until they are read."""
        whose = partial(self._caller, incoming, caller)
        return partial(self._delivery.send_frame, incoming.connection, whose, incoming.send)

    def _exchange(self, incoming: _Incoming, target: ObjectRoute, admission: Admission) -> Exchange:
        caller = admission.limit_key
        return Exchange(
            incoming.key.request(),
            target,
            incoming.credentials,
            admission,
            incoming.receive,
            self._forward(incoming, caller),
            partial(self._deliver, incoming, caller),
            incoming.started,
            partial(self._caller, incoming, caller),
        )

    def _page_exchange(self, incoming: _Incoming) -> PageExchange:
        async def answer(caller: str, response: Response) -> None:
            prepared = self._prepare(incoming.key.method, incoming.refusal() or response)
            await self._deliver(incoming, caller, prepared)

        async def stream(caller: str, headers: Headers, events: Events) -> None:
            forward = self._forward(incoming, caller)
            start = {"type": "http.response.start", "status": 200, "headers": headers}
            ends = (disconnected(incoming.receive),)
            await stream_frames(start, events, forward, ends=ends, timeout_s=_STREAM_S)

        headers: Headers = incoming.scope["headers"]
        return PageExchange(
            incoming.key.request(),
            {name.decode("latin-1"): value.decode("latin-1") for name, value in headers},
            incoming.credentials,
            incoming.scope.get("root_path", "").rstrip("/"),
            incoming.receive,
            answer,
            stream,
        )

    def _caller(self, incoming: _Incoming, limit_key: str) -> str:
        """Return the limit key of a caller; by its address where it is not authenticated."""
        if limit_key:
            return limit_key
        host, *_ = incoming.scope.get("client") or ("",)
        return self._peers.address_key(incoming.front_connection, host)

    def _admit(self, incoming: _Incoming) -> tuple[Admission, PreparedResponse | None]:
        """Return the caller, and the answer if it is refused."""
        if not self._access.identifies:
            return EVERYTHING, None
        key = incoming.key
        try:
            credentials = incoming.credentials
            return admit(self._access, credentials, key.method, key.path, key.query), None
        except Refused as refused:
            request = key.request()
            if self._calls is not None and key.path.startswith(self._call_prefixes):
                denied: Response | None = self._calls.refusal(request, refused)
            else:
                denied = self._objects.denial(request, refused) if self._objects else None
            answer = self._prepare(key.method, denied or refusal(request, refused))
            return unidentified(refused.caller), answer

    async def _response(
        self, incoming: _Incoming, current: EncodedSnapshot, admission: Admission
    ) -> Response | None:
        """Return the answer to a request; None for a stream of a call, which is sent already."""
        request = replace(incoming.key.request(), trusted=admission.role is Role.ADMIN)
        response = incoming.refusal()
        if response is None and self._calls and request.path.startswith(self._call_prefixes):
            scope, receive, send = incoming.scope, incoming.receive, incoming.send
            return await self._calls.answer(request, scope, receive, send)
        if response is None:
            try:
                response = await self._respond(request, current, admission)
            except Exception:  # noqa: BLE001 - the last resort: logged, and answered with 500
                _log.exception("request failed", method=request.method, path=request.path)
                response = status_response(internal_error(), Representation(JSON))
        if response.status in (400, _TOO_LARGE):
            _log.warning(
                "bad request", method=request.method, path=request.path, status=response.status
            )
        return response

    async def _respond(
        self, request: Request, current: EncodedSnapshot, admission: Admission
    ) -> Response:
        ready = self._ready()
        if self._fleet and ready and is_fleet_path(request.path):
            return await self._fleet.respond(request, self._fleet.scope(admission.clusters))
        if ready and asks_for_past(request):
            past = await self._past.merged(request, admission.clusters)
            if past is not None:
                return past
        paths: Sequence[str] = ()
        if self._fleet and request.path == "/":
            paths = self._fleet.paths(self._fleet.scope(admission.clusters))
        return await respond(request, current, self._site, ready=ready, more_paths=paths)

    def _early(self, incoming: _Incoming, request: Request) -> Response | None:
        """Return the answer to a request about objects that is not routed further."""
        if refused := incoming.refusal():
            return refused
        if invalid := invalid_timeout(request):
            return negotiated_status(request, invalid)
        return None if self._ready() else starting(request)

    def _prepare(self, method: str, response: Response) -> PreparedResponse:
        headers: Headers = list(response.headers)
        length = len(response.body)
        if response.status != 304:  # noqa: PLR2004 - RFC 9110: its length would be the document's
            headers.append((b"content-length", str(length).encode()))
        labels = RequestLabels(
            method if method in _METHODS else "OTHER",
            response.endpoint,
            response.representation,
            response.coding,
            response.status,
            response.aggregated,
        )
        body = b"" if method == "HEAD" else response.body
        return PreparedResponse(
            {"type": "http.response.start", "status": response.status, "headers": headers},
            body_message(body),
            self._site.metrics.request_stats(labels),
            len(body),
        )


def _object_gateway(
    site: Site, access: Access, prepare: Callable[[str, Response], PreparedResponse]
) -> ObjectGateway | None:
    if site.objects is None:
        return None
    compresses = site.gates[RESPONSE_COMPRESSION]
    return ObjectGateway(site.objects, access, prepare, compresses=compresses)


def served_path(scope: Scope) -> str:
    """Return the path of a request below where the application is mounted.

    Some servers leave `root_path` in the path, others do not (ASGI specification, HTTP connection
    scope). Only whole segments count: `/api` is not a prefix of `/apis`.
    """
    path: str = scope["path"]
    prefix: str = scope.get("root_path", "")
    if prefix and (path == prefix or path.startswith(f"{prefix.rstrip('/')}/")):
        return path[len(prefix.rstrip("/")) :]
    return path


def _key(scope: Scope) -> _Key:
    accept = content_type = None
    encoding = none_match = agent = further = b""
    size = 0
    headers: Headers = scope["headers"]
    for name, value in headers:
        size += len(name) + len(value)
        if name == b"accept":
            accept = value if accept is None else accept
        elif name == b"accept-encoding":
            encoding = encoding + b"," + value if encoding else value
        elif name == b"if-none-match":
            none_match = none_match + b"," + value if none_match else value
        elif name == b"user-agent":
            agent = value
        elif name == b"content-type":
            content_type = value if content_type is None else content_type
        elif name in FIELDS:
            further += name + b": " + value + b"\n"
    return _Key(
        scope["method"],
        served_path(scope),
        scope["query_string"],
        accept,
        encoding,
        none_match,
        content_type,
        further,
        agent.startswith(_HUMAN_AGENTS),
        size > MAX_HEADER_BYTES,
    )


def _status(code: int, reason: str, message: str) -> Response:
    return status_response(plain.status(code, reason, message), Representation(JSON))


def _too_many_unread() -> Response:
    message = "too many answers are unread, please read them or try again later"
    return with_header(_status(429, "TooManyRequests", message), b"retry-after", b"1")


async def _not_http(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer the lifespan protocol; refuse websockets."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1003})
