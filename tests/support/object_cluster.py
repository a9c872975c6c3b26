"""An API server with objects: a fake one for discovery, and JSON documents before it."""

import json
from collections.abc import Mapping
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Any, ClassVar, Self
from urllib.parse import urlsplit

from apidiscovery_client.testing import FakeApiServer

_FORWARDED = ("accept", "if-none-match", "authorization")
_SENT_BACK = ("content-type", "etag", "retry-after")
_TIMEOUT_S = 10.0


class ObjectCluster:
    """Answers for objects itself, and lets the fake answer for all else.

    Attributes:
        fake: What it serves, and what of that was asked for.
        objects: What is answered, by path.
        asked: What else than discovery was asked for, as `METHOD /path`.
        url: Where it is.
    """

    def __init__(self, fake: FakeApiServer, objects: Mapping[str, object]) -> None:
        self.fake = fake
        self.objects = objects
        self.asked: list[str] = []
        handler = type("Handler", (_Handler,), {"cluster": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _TIMEOUT_S
    cluster: ClassVar[ObjectCluster]

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path in self.cluster.objects:
            self.cluster.asked.append(f"{self.command} {path}")
            self._answer(200, {"content-type": "application/json"}, self._document(path))
            return
        host = self.cluster.fake.url.removeprefix("http://")
        connection = HTTPConnection(host, timeout=_TIMEOUT_S)
        try:
            sent = {name: self.headers[name] for name in _FORWARDED if name in self.headers}
            connection.request(self.command, self.path, headers=sent)
            told = connection.getresponse()
            kept = {name: told.headers[name] for name in _SENT_BACK if name in told.headers}
            self._answer(told.status, kept, told.read())
        finally:
            connection.close()

    def do_PATCH(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        self.do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 - as in the base
        """Say nothing."""

    def _document(self, path: str) -> bytes:
        return json.dumps(self.cluster.objects[path]).encode()

    def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if status != 304:
            self.wfile.write(body)


def deployment(name: str, namespace: str = "default") -> dict[str, object]:
    """Return a Deployment that runs nothing."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": "1"},
        "spec": {"replicas": 1, "selector": {}, "template": {}},
    }


def list_of(kind: str, api_version: str, *items: object) -> dict[str, object]:
    """Return a list as a server answers it."""
    return {
        "apiVersion": api_version,
        "kind": f"{kind}List",
        "metadata": {"resourceVersion": "1"},
        "items": list(items),
    }
