"""Stands before an application: refuses what HTTP forbids, and says that connections end.

What is refused is what Granian lets an application see. It shows a missing Host field as an empty
one, and does not show at all that lines end with a bare LF.
"""

import re
from collections.abc import Awaitable, Sequence

import structlog

from apidiscovery_service.serving.http.asgi import Application, Receive, Scope, Send
from apidiscovery_service.serving.http.kept import Message

# Source: golang.org/x/net/http/httpguts ValidHostHeader.
_HOST = re.compile(rb"[A-Za-z0-9!$%&'()*+,\-.:;=\[\]_~]*")

_CLOSE = (b"connection", b"close")  # Granian leaves it out of HTTP/2

_log = structlog.get_logger(__name__)


class Entrance:
    """An application with the checks before it.

    Attributes:
        ending: Whether each HTTP/1.1 connection ends with its next answer.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self.ending = False

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Answer one ASGI connection."""
        if scope["type"] == "http":
            hosts = [value for name, value in scope["headers"] if name == b"host"]
            wrong = wrong_host(hosts, scope["http_version"])
            if wrong:
                _log.warning("bad request", method=scope["method"], status=400, reason=wrong)
                return _refuse(send, wrong)
            if self.ending:
                send = _ending(send)
        return self._application(scope, receive, send)


def wrong_host(hosts: Sequence[bytes], http_version: str) -> str:
    """Return what is wrong with the Host fields of a request, in Go's words; empty if nothing is.

    Sources: RFC 9112 section 3.2; net/http server.go (*conn).readRequest.
    """
    if len(hosts) > 1:
        return "too many Host headers"
    host = hosts[0] if hosts else b""
    if not host:
        return "missing required Host header" if http_version == "1.1" else ""
    return "" if _HOST.fullmatch(host) else "malformed Host header"


async def _refuse(send: Send, wrong: str) -> None:
    """Answer as Go's server does."""
    body = f"400 Bad Request: {wrong}".encode()
    headers = [
        (b"content-type", b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
        _CLOSE,
    ]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _ending(send: Send) -> Send:
    """Return a `send` after whose answer the connection ends."""

    async def send_last(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CLOSE]}
        await send(message)

    return send_last
