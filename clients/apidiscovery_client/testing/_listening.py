"""An HTTP server on a loopback port, which can stop and start again on the same port."""

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer

from apidiscovery_client.testing._answers import Answer, Asked

HOST = "127.0.0.1"

_POLL_S = 0.02  # how long it may take to stop
_MAX_BODY_BYTES = 1 << 20

# Returns the answer to a request; None ends the connection without an answer.
Respond = Callable[[Asked], Answer | None]
# Called with each answer, and the size of its body, before it is sent: a client that has the answer
# finds it recorded.
Sending = Callable[[Asked, Answer, int], None]


class Listener:
    """Listens in one thread, and answers each connection in another.

    Attributes:
        port: Its port, which never changes.
    """

    def __init__(self, respond: Respond, sending: Sending, tls: ssl.SSLContext | None) -> None:
        self._respond = respond
        self._sending = sending
        self._tls = tls
        self._server = _Server(0, respond, sending)
        self.port = self._server.server_port
        self._thread: threading.Thread | None = None

    def up(self) -> None:
        """Begin to listen."""
        if self._thread is not None:
            return
        self._server.server_activate()
        if self._tls:
            self._server.socket = self._tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="fake-apiserver"
        )
        self._thread.start()

    def down(self) -> None:
        """Refuse connections and break existing ones; the port stays reserved."""
        if self._thread is None:
            return
        successor = _Server(self.port, self._respond, self._sending)  # keeps the port
        self._stop(self._thread)
        self._server = successor

    def close(self) -> None:
        """Release the port, after all connections have ended."""
        if self._thread is None:
            self._server.server_close()
        else:
            self._stop(self._thread)

    def _stop(self, thread: threading.Thread) -> None:
        self._server.shutdown()
        thread.join()
        self._server.break_connections()
        self._server.server_close()
        self._thread = None


class _Server(ThreadingHTTPServer):
    """A server that is bound, but refuses connections until it is activated."""

    allow_reuse_port = True  # for the next server on this port
    daemon_threads = False  # closing waits for every connection
    request_queue_size = 128

    def __init__(self, port: int, respond: Respond, sending: Sending) -> None:
        super().__init__((HOST, port), _Handler, bind_and_activate=False)
        self.respond = respond
        self.sending = sending
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        try:
            self.server_bind()
        except OSError:
            self.server_close()
            raise

    def server_bind(self) -> None:
        """Bind without asking a name server for the name of the host, as HTTPServer does."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]  # type: ignore[assignment]

    def get_request(self) -> tuple[socket.socket, object]:
        connection, address = super().get_request()
        with self._lock:
            self._connections.add(connection)
        return connection, address

    def shutdown_request(self, request: object) -> None:
        assert isinstance(request, socket.socket)  # noqa: S101 - what get_request returned
        with self._lock:
            self._connections.discard(request)
        super().shutdown_request(request)

    def break_connections(self) -> None:
        """End every connection, which wakes its reader."""
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # not connected any more
                    # Not that of SSLSocket, which another thread may be reading from.
                    socket.socket.shutdown(connection, socket.SHUT_RDWR)

    def handle_error(self, request: object, client_address: object) -> None:
        """Do not report clients that disconnect or reject the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride] - the only one that there is

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer is one write

    def setup(self) -> None:
        if isinstance(self.request, ssl.SSLSocket):
            self.request.do_handshake()
        super().setup()

    def handle_one_request(self) -> None:
        with suppress(OSError, ValueError):  # the client, or the test, ended the connection
            self.raw_requestline = self.rfile.readline(65537)
            if self.raw_requestline and self.parse_request():
                self._answer()
                return
        self.close_connection = True

    def _answer(self) -> None:
        asked = self._asked()
        answer = self.server.respond(asked)
        if answer is None:
            self.close_connection = True
            return
        body = b"" if asked.method == "HEAD" or answer.status == 304 else answer.body  # noqa: PLR2004
        if answer.breaks_off:
            body = body[: len(body) // 2]
            self.close_connection = True
        self.server.sending(asked, answer, len(body))
        self._write_head(answer)
        self.wfile.write(body)
        self.wfile.flush()

    def _asked(self) -> Asked:
        headers: dict[str, str] = {}
        for name, text in self.headers.items():
            headers.setdefault(name.lower(), text)
        length = headers.get("content-length", "0")
        self.rfile.read(min(int(length), _MAX_BODY_BYTES) if length.isdecimal() else 0)
        path, _, query = self.path.partition("?")
        return Asked(self.command, path, query, headers)

    def _write_head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, text in answer.headers.items():
            self.send_header(name, text)
        if answer.status != 304:  # noqa: PLR2004 - it has no body and no length
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Stay silent."""
