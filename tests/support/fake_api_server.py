"""A Kubernetes API server of canned answers, on a real loopback socket."""

import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

GOLDEN = Path(__file__).parent.parent / "golden"
LEGACY = GOLDEN / "legacy-clusters" / "kubernetes-v1.15.0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What is sent for one path.

    Attributes:
        length: Content-Length when it is to be wrong.
        then: What is sent from the second request on, when that is something else.
        stalls: Whether nothing is sent until the server is closed.
    """

    body: bytes = b""
    content_type: str | None = "application/json"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    length: int | None = None
    stalls: bool = False
    then: "Answer | None" = None


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    headers: Mapping[str, str]  # names in lower case
    method: str = "GET"


Routes = Mapping[str, Answer]
Respond = Callable[[Request], Answer]
NOT_FOUND = Answer(b"404 page not found\n", "text/plain; charset=utf-8", 404)


def document(content: object, content_type: str | None = "application/json") -> Answer:
    return Answer(json.dumps(content).encode(), content_type)


def status(code: int, reason: str, message: str) -> Answer:
    """Return an error as Kubernetes writes it."""
    body = {"kind": "Status", "status": "Failure", "message": message, "reason": reason}
    return Answer(json.dumps(body | {"code": code}).encode(), status=code)


def aggregated_type(version: str = "v2") -> str:
    return f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"


def aggregated(*groups: object, version: str = "v2") -> Answer:
    """Return an aggregated document of these groups."""
    api_version = f"apidiscovery.k8s.io/{version}"
    content = {"kind": "APIGroupDiscoveryList", "apiVersion": api_version, "items": groups}
    return document(content, aggregated_type(version))


def builtin(version: str = "v2") -> Routes:
    """Return what a new server says of Kubernetes' built-in APIs, aggregated."""
    return {
        f"/{name}": Answer(
            (GOLDEN / "builtin" / f"{name}.{version}.json").read_bytes(), aggregated_type(version)
        )
        for name in ("api", "apis")
    }


def legacy() -> Routes:
    """Return what a Kubernetes 1.15 says, unaggregated."""
    return {
        f"/{file.parent.relative_to(LEGACY)}": Answer(file.read_bytes())
        for file in LEGACY.rglob("index.json")
    }


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for every connection
    request_queue_size = 64  # with 5, clients with many connections wait a second for some

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away or did not like the certificate."""


class FakeApiServer:
    """Answers over HTTP/1.1 with connections that stay, until it is closed.

    Attributes:
        answers: By path, or by whatever a request says; may be replaced at any time.
        url: Where it is.
        requests: All that came in, in order.
        connections: How many were made.
        stalled: Released with one count for each request that is left without an answer.
    """

    def __init__(self, answers: Routes | Respond, tls: ssl.SSLContext | None = None) -> None:
        self.answers = answers
        self.requests: list[Request] = []
        self.connections = 0
        self.stalled = threading.Semaphore(0)
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        if tls:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def paths(self) -> list[str]:
        return [request.path for request in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self.drop_connections()
        self._server.server_close()

    def drop_connections(self) -> None:
        """End all connections without a word, as servers do with those that are idle."""
        for connection in tuple(self._open):
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue

    def _answer(self, request: Request) -> Answer:
        self.requests.append(request)
        if callable(self.answers):
            answer = self.answers(request)
        else:
            answer = self.answers.get(request.path, NOT_FOUND)
        is_first = self.paths.count(request.path) == 1
        return answer if is_first else answer.then or answer

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def setup(self) -> None:
                fake.connections += 1
                fake._open.add(self.request)
                if isinstance(self.request, ssl.SSLSocket):
                    self.request.do_handshake()
                super().setup()

            def finish(self) -> None:
                super().finish()
                fake._open.discard(self.request)

            def do_GET(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.rfile.read(int(headers.get("content-length", "0")))
                path = self.path.partition("?")[0]
                answer = fake._answer(Request(path, headers, self.command))
                if answer.stalls:
                    fake.stalled.release()
                    fake._closed.wait()
                    self.close_connection = True
                else:
                    _send(self, answer)

            do_HEAD = do_PATCH = do_GET  # noqa: N815 - as the library calls them

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        return Handler


def _send(handler: BaseHTTPRequestHandler, answer: Answer) -> None:
    handler.send_response(answer.status)
    if answer.content_type is not None:
        handler.send_header("Content-Type", answer.content_type)
    length = len(answer.body) if answer.length is None else answer.length
    if answer.status != 304:
        handler.send_header("Content-Length", str(length))
    for name, value in answer.headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(answer.body)
    handler.close_connection = length > len(answer.body)
