"""A Kubernetes API server of canned answers, on a real loopback socket."""

import json
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
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


Routes = Mapping[str, Answer]
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
    """Answers until it is closed.

    Attributes:
        url: Where it is.
        requests: All that came in, in order.
    """

    def __init__(self, routes: Routes, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self._routes = routes
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def setup(self) -> None:
                if isinstance(self.request, ssl.SSLSocket):
                    self.request.do_handshake()
                super().setup()

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.requests.append(Request(path, headers))
                answer = fake._routes.get(path, NOT_FOUND)
                is_first = fake.paths.count(path) == 1
                self._send(answer if is_first else answer.then or answer)

            def _send(self, answer: Answer) -> None:
                if answer.stalls:
                    fake._closed.wait()
                    return
                self.send_response(answer.status)
                if answer.content_type is not None:
                    self.send_header("Content-Type", answer.content_type)
                length = len(answer.body) if answer.length is None else answer.length
                self.send_header("Content-Length", str(length))
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer.body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        return Handler
