"""An API server behind the replicas that lives, dies, says nothing, or says that it has nothing."""

import asyncio
import json
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from programs import free_port
from raw_http import AGG

from tests.robustness import documents

GROUP = "upstream.robust.test"
POLL_S = 1
_TIMEOUT_S = 2


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that went away."""


class Upstream:
    """An upstream with one group, at one address whether it lives or not.

    Attributes:
        value: What its group says.
    """

    def __init__(self) -> None:
        self.value = documents.value(0)
        self._port = free_port()
        self._answers = threading.Event()  # set while requests are answered
        self._answers.set()
        self._empty = 0
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.live()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.die()

    def config(self, manifests: Sequence[Path] = (), catalog: str = "none") -> str:
        """Return the configuration of a server that follows it, and has these manifests."""
        upstream = {"url": f"http://127.0.0.1:{self._port}", "poll-interval": f"{POLL_S}s"}
        upstream["timeout"] = f"{_TIMEOUT_S}s"
        upstreams = {"far": {**upstream, "openapi": False}}
        local = {"catalog": catalog, "manifests": [str(path) for path in manifests]}
        return json.dumps({**local, "upstreams": upstreams})

    def live(self) -> None:
        """Listen and answer."""
        self._answers.set()
        if self._server is None:
            self._server = _Server(("127.0.0.1", self._port), self._handler())
            self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
            self._thread.start()

    def die(self) -> None:
        """Refuse connections."""
        if self._server is not None and self._thread is not None:
            self._answers.set()
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()
            self._server = self._thread = None

    def hang(self) -> None:
        """Take connections and requests, and answer nothing until `live`."""
        self._answers.clear()

    def be_empty(self, times: int) -> None:
        """Answer as one that has no groups, so many times."""
        self._empty = times

    async def change_forever(self, every_s: float) -> None:
        """Say something else every so often, until cancelled."""
        for number in range(10**6):
            self.value = documents.value(number)
            await asyncio.sleep(every_s)

    def _document(self, path: str) -> bytes:
        items = list[object]()
        if path == "/apis":
            if self._empty:
                self._empty -= 1
            else:
                items.append(documents.discovery_item(GROUP, self.value))
        kind = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
        return json.dumps({**kind, "metadata": {}, "items": items}).encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        answers: Callable[[], object] = self._answers.wait
        document = self._document

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answers()
                path = self.path.partition("?")[0]
                found = path in ("/api", "/apis")
                body = document(path) if found else b"404 page not found\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", AGG if found else "text/plain")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Stay silent."""

        return Handler
