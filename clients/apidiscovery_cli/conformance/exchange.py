"""Sends exact requests, header by header, and logs them.

Nothing is added, followed, decompressed or retried: checks are about bytes on the wire.
"""

import contextlib
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from apidiscovery_client import DiscoveryError
from apidiscovery_client._fields import read_json
from apidiscovery_client._http import wrong_port
from apidiscovery_client._http.body import Collected

MAX_BODY_BYTES = 64 << 20
_PIECE = 1 << 16
_SHOWN = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A server and how to reach it.

    Attributes:
        url: Scheme, host and where needed port and path, without a trailing slash.
        headers: Added to every request, such as Authorization.
        tls: None for the system's certificate authorities.
        tls_server_name: Expected in the certificate instead of the host in `url`.
        timeout_s: For each request as a whole; None for no limit.
    """

    url: str
    headers: Sequence[tuple[str, str]] = field(default=(), repr=False)
    tls: ssl.SSLContext | None = None
    tls_server_name: str | None = None
    timeout_s: float | None = 32.0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, without Host and credentials."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return ", ".join([f"{self.method} {self.target}", *(f"{n}: {v}" for n, v in self.headers)])


class NoAnswer(DiscoveryError):
    """A request was not answered, or not completely.

    Attributes:
        asked: The request.
        reason: Why, for a message.
    """

    def __init__(self, url: str, asked: Asked, reason: str) -> None:
        super().__init__(f"no answer to {asked.method} {url}{asked.target}: {reason}")
        self.asked = asked
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer as received.

    Attributes:
        headers: Every line, names in lower case.
        body: Still compressed; chunks are joined.
        took_s: Seconds from connecting to the end of the body.
    """

    asked: Asked
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    took_s: float

    def values(self, name: str) -> tuple[str, ...]:
        """Return the value of each header line with a name, in lower case."""
        return tuple(value for other, value in self.headers if other == name)

    def value(self, name: str) -> str | None:
        """Return the value of the first header line with a name, None when there is none."""
        return next(iter(self.values(name)), None)

    @property
    def content_type(self) -> str:
        """Content-Type, empty when there is none."""
        return self.value("content-type") or ""

    @property
    def content(self) -> bytes:
        """The decompressed body.

        Raises:
            ValueError: It is not the gzip that it states, or too large.
        """
        if (self.value("content-encoding") or "identity") != "gzip":
            return self.body
        return Collected("gzip", MAX_BODY_BYTES).all_of([self.body])

    def json(self) -> object:
        """Return the value of a JSON body.

        Raises:
            ValueError: It is not JSON.
        """
        try:
            return read_json(self.content)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    @property
    def is_html(self) -> bool:
        """Whether it is an HTML page."""
        start = self.body[:_SHOWN].lstrip().lower()
        return "html" in self.content_type or start.startswith((b"<!doctype html", b"<html"))

    def __str__(self) -> str:
        kind = self.content_type or "no Content-Type"
        text = self.body[:_SHOWN].decode(errors="replace")
        more = "..." if len(self.body) > _SHOWN else ""
        return f"{self.status}, {kind}, {text!r}{more}" if text else f"{self.status}, {kind}, empty"


class Session:
    """Sends requests to one server, each on its own connection, and equal requests once.

    Attributes:
        url: Of the server.
        log: The requests in order, with the status, None for no answer.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.url = endpoint.url
        self._known: dict[Asked, Reply | NoAnswer] = {}
        self.log: list[tuple[Asked, int | None]] = []

    def ask(self, asked: Asked, *, again: bool = False) -> Reply:
        """Return the answer to a request; the former answer unless `again` is set.

        Raises:
            NoAnswer: There was no answer.
        """
        known = None if again else self._known.get(asked)
        if known is None:
            known = self._known[asked] = self._answer(asked)
        if isinstance(known, NoAnswer):
            raise known
        return known

    def _answer(self, asked: Asked) -> Reply | NoAnswer:
        timeout_s, started, reason = self._endpoint.timeout_s, time.monotonic(), ""
        reply = None
        try:
            reply = self._exchange(asked, started)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = _reason(error, self._endpoint.url)
        # A body that was cut off may look complete.
        if timeout_s is not None and time.monotonic() - started >= timeout_s:
            reply, reason = None, f"not within {timeout_s:g} s"
        self.log.append((asked, reply.status if reply else None))
        return reply or NoAnswer(self._endpoint.url, asked, reason)

    def _exchange(self, asked: Asked, started: float) -> Reply:
        with contextlib.closing(_connection(self._endpoint)) as connection:
            connection.connect()
            with _bounded(connection.sock, started, self._endpoint.timeout_s):
                target = urlsplit(self._endpoint.url).path + asked.target
                connection.putrequest(asked.method, target, skip_accept_encoding=True)
                for name, value in (*asked.headers, *self._endpoint.headers):
                    connection.putheader(name, value)
                connection.putheader("Connection", "close")
                connection.endheaders()
                with connection.getresponse() as response:
                    body = _body(response)
                    headers = tuple((n.lower(), v.strip()) for n, v in response.getheaders())
                    took_s = time.monotonic() - started
                    return Reply(asked, response.status, headers, body, took_s)


class _TLSConnection(http.client.HTTPSConnection):
    """A connection whose certificate must have a given name."""

    def __init__(self, host: str, port: int | None, endpoint: Endpoint) -> None:
        context = endpoint.tls or ssl.create_default_context()
        super().__init__(host, port, timeout=endpoint.timeout_s, context=context)
        self._tls, self._name = context, endpoint.tls_server_name or host

    def connect(self) -> None:
        http.client.HTTPConnection.connect(self)
        self.sock = self._tls.wrap_socket(self.sock, server_hostname=self._name)


def _connection(endpoint: Endpoint) -> http.client.HTTPConnection:
    parts = urlsplit(endpoint.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return _TLSConnection(host, parts.port, endpoint)
    return http.client.HTTPConnection(host, parts.port, timeout=endpoint.timeout_s)


@contextlib.contextmanager
def _bounded(sock: socket.socket, started: float, timeout_s: float | None) -> Generator[None]:
    """Shut a connection down when the time is over, however slowly bytes arrive."""
    if timeout_s is None:
        yield
        return
    left_s = max(0.0, started + timeout_s - time.monotonic())
    timer = threading.Timer(left_s, _cut, (sock,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def _cut(sock: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Not SSLSocket.shutdown, which would remove the TLS state while another thread reads.
        socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _body(response: http.client.HTTPResponse) -> bytes:
    body = bytearray()
    while piece := response.read(_PIECE):
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ValueError(f"the body is larger than {MAX_BODY_BYTES} bytes")
    if response.length:
        raise ValueError(f"the body ends {response.length} bytes too early")
    return bytes(body)


def _reason(error: Exception, url: str) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, http.client.RemoteDisconnected):
        return "the server closed the connection"
    if isinstance(error, ssl.SSLError) and (problem := wrong_port.of_tls(error.reason, url)):
        return problem
    if isinstance(error, http.client.BadStatusLine):
        return wrong_port.of_first_bytes(str(error).encode("latin-1")) or wrong_port.NO_HTTP1
    if isinstance(error, OSError) and error.strerror:
        is_name = isinstance(error, socket.gaierror)
        return f"name not known: {urlsplit(url).hostname}" if is_name else error.strerror
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
