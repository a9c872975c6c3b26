"""Lets pages of other origins read the answers of an application (CORS).

Source: the Fetch standard, "HTTP CORS protocol". Credentials of browsers, such as cookies and
client certificates, are never allowed: callers are identified by the header field Authorization.
"""

from collections.abc import Collection

import structlog

from apidiscovery_service.serving.http.messages import (
    Application,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
)

_METHODS = b"GET, HEAD, POST"
# How long browsers remember this, in seconds; Chromium takes no more.
_MAX_AGE_S = b"7200"
# What clients of Connect and gRPC-Web send, and what readers of discovery send.
_REQUEST_FIELDS = (
    b"Accept, Authorization, Connect-Accept-Encoding, Connect-Content-Encoding, "
    b"Connect-Protocol-Version, Connect-Timeout-Ms, Content-Type, Grpc-Accept-Encoding, "
    b"Grpc-Encoding, Grpc-Timeout, If-None-Match, X-Grpc-Web, X-User-Agent"
)
_ANSWER_FIELDS = (
    b"Connect-Content-Encoding, ETag, Grpc-Encoding, Grpc-Message, Grpc-Status, "
    b"Grpc-Status-Details-Bin, Retry-After, Warning"
)

# Refused origins are logged once each, and no more of them than this.
_MAX_LOGGED, _MAX_LOGGED_BYTES = 32, 200

_log = structlog.get_logger(__name__)


class CrossOrigin:
    """An application whose answers pages of some other origins may read.

    Args:
        application: The application.
        origins: The origins, such as `http://localhost:5173`; `*` for all.
    """

    def __init__(self, application: Application, origins: Collection[str]) -> None:
        self._application = application
        self._origins = frozenset(origin.encode() for origin in origins)
        self._logged: set[bytes] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI connection."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        fields: Headers = scope["headers"]
        named = dict(fields)
        origin = named.get(b"origin")
        allowed = self._allowed(origin)
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in named:
            # Before authentication: browsers send no credentials with it.
            if origin and self._origins.isdisjoint((origin, b"*")):
                self._log_refused(origin[:_MAX_LOGGED_BYTES])
            await _answer_preflight(send, allowed)
            return

        async def send_allowed(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *allowed]}
            await send(message)

        await self._application(scope, receive, send_allowed)

    def _log_refused(self, origin: bytes) -> None:
        if origin in self._logged or len(self._logged) >= _MAX_LOGGED:
            return
        self._logged.add(origin)
        named = origin.decode("latin-1")
        _log.warning("origin refused", origin=named, allow=f"--cors-origin {named}")

    def _allowed(self, origin: bytes | None) -> Headers:
        """Return the header fields with which an origin may read an answer."""
        varies: Headers = [(b"vary", b"Origin")]
        if b"*" in self._origins:
            varies, origin = [], b"*" if origin else None
        elif origin not in self._origins:
            origin = None
        if origin is None:
            return varies
        return [
            *varies,
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", _ANSWER_FIELDS),
        ]


async def _answer_preflight(send: Send, allowed: Headers) -> None:
    """Answer which methods and fields a browser may send."""
    headers = [
        *allowed,
        (b"access-control-allow-methods", _METHODS),
        (b"access-control-allow-headers", _REQUEST_FIELDS),
        (b"access-control-max-age", _MAX_AGE_S),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
