"""An extension API server in Python, which reports its storage version before it writes.

It serves widgets.example.dev as v1 and v2 and keeps them in a SQLite file, which several servers
may share. Each server writes the version of --encode. An upgraded server writes the new version as
soon as all servers can read it. Run it beside a discovery service with the gate StorageVersionAPI:

    .venv/bin/apidiscovery serve --grpc 127.0.0.1:50051 --feature-gates StorageVersionAPI=true
    .venv/bin/python examples/extension_server.py --service 127.0.0.1:50051 \
        --http 127.0.0.1:8081 --hostname server-1 --encode v1

    curl http://127.0.0.1:8081/readyz
    curl -d '{"metadata":{"name":"a"},"spec":{"millimetres":3}}' \
        http://127.0.0.1:8081/apis/example.dev/v1/widgets

It prints a line for each step on standard error: serving, joined, reported, departed.
"""

import argparse
import asyncio
import json
import logging
import signal
import sqlite3
import threading
import uuid
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apidiscovery_client.storage_versions import (
    StorageVersionReporter,
    StoredResource,
    Timing,
    WriteGateMiddleware,
)
from apidiscovery_service.extension_server import ApiGroup, ApiResource, ApiVersion, discovery_app
from apidiscovery_service.serving.http import HttpServer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route

GROUP = "example.dev"
VERSIONS = ("v1", "v2")
COMPONENT = "widget-server"
GRACE_S = 5.0

Object = dict[str, Any]

log = logging.getLogger("extension_server")

# The schema of the spec of a widget in each version, for `kubectl explain`.
MILLIMETRES = {"type": "integer", "description": "How large it is, in millimetres."}
SIZE = {
    "type": "object",
    "description": "How large it is.",
    "properties": {"value": {"type": "integer"}, "unit": {"type": "string", "enum": ["mm"]}},
}
SPECS = {
    "v1": {"type": "object", "properties": {"millimetres": MILLIMETRES}},
    "v2": {"type": "object", "properties": {"size": SIZE}},
}

TABLES = """
CREATE TABLE IF NOT EXISTS widgets (
    name TEXT PRIMARY KEY, version TEXT NOT NULL, revision INTEGER NOT NULL, object TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS writes (
    revision INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, server TEXT NOT NULL,
    verb TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL
);
"""


def converted(widget: Object, version: str) -> Object:
    """Return a widget in another version; the versions differ in how they state the size."""
    spec = widget["spec"]
    is_v1 = widget["apiVersion"] == f"{GROUP}/v1"
    size = spec["millimetres"] if is_v1 else spec["size"]["value"]
    written = {"millimetres": size} if version == "v1" else {"size": {"value": size, "unit": "mm"}}
    return {**widget, "apiVersion": f"{GROUP}/{version}", "spec": written}


class Widgets:
    """Widgets in a file.

    Args:
        path: Of the file.
        server: The name of this server, for the log of writes.
        encode: The version that is written.
        decode: Those that can be read.
    """

    def __init__(self, path: Path, server: str, encode: str, decode: tuple[str, ...]) -> None:
        self._server = server
        self._encode = encode
        self._decode = decode
        self._lock = threading.Lock()
        self._file = sqlite3.connect(
            path, timeout=10, isolation_level=None, check_same_thread=False
        )
        self._file.execute("PRAGMA journal_mode=WAL")
        self._file.executescript(TABLES)

    def close(self) -> None:
        """Let the write that is under way end; no other one can follow."""
        with self._lock:
            self._file.close()

    def list(self, version: str) -> tuple[list[Object], int]:
        """Return all by name, and the revision at which they are so."""
        with self._transaction("BEGIN"):
            rows = self._file.execute("SELECT version, object FROM widgets ORDER BY name")
            found = [self._decoded(row, version) for row in rows]
            (revision,) = self._file.execute("SELECT MAX(revision) FROM writes").fetchone()
        return found, revision or 0

    def get(self, name: str, version: str) -> Object:
        with self._transaction("BEGIN"):
            return self._decoded(self._row(name), version)

    def create(self, widget: Object, version: str) -> Object:
        name = widget["metadata"]["name"]
        with self._transaction():
            if self._file.execute("SELECT 1 FROM widgets WHERE name = ?", (name,)).fetchone():
                raise HTTPException(409, f'widgets.{GROUP} "{name}" already exists')
            metadata = {
                "name": name,
                "uid": str(uuid.uuid4()),
                "creationTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            }
            return converted(self._write("create", {**widget, "metadata": metadata}), version)

    def update(self, name: str, widget: Object, version: str) -> Object:
        """Replace one, if it has the resourceVersion that is given, or none is."""
        with self._transaction():
            old = self._decoded(self._row(name), version)["metadata"]
            given = widget["metadata"].get("resourceVersion", old["resourceVersion"])
            if given != old["resourceVersion"]:
                raise HTTPException(409, f'widgets.{GROUP} "{name}" has been modified')
            return converted(self._write("update", {**widget, "metadata": old}), version)

    def delete(self, name: str, version: str) -> Object:
        with self._transaction():
            gone = self._decoded(self._row(name), version)
            self._logged("delete", name)
            self._file.execute("DELETE FROM widgets WHERE name = ?", (name,))
            return gone

    def _write(self, verb: str, widget: Object) -> Object:
        name = widget["metadata"]["name"]
        revision = self._logged(verb, name)
        metadata = {**widget["metadata"], "resourceVersion": str(revision)}
        encoded = converted({**widget, "metadata": metadata}, self._encode)
        self._file.execute(
            "INSERT OR REPLACE INTO widgets VALUES (?, ?, ?, ?)",
            (name, self._encode, revision, json.dumps(encoded)),
        )
        return encoded

    def _logged(self, verb: str, name: str) -> int:
        """Return the revision of a write."""
        written = self._file.execute(
            "INSERT INTO writes (at, server, verb, name, version) VALUES (?, ?, ?, ?, ?)",
            (datetime.now(UTC).isoformat(), self._server, verb, name, self._encode),
        )
        return written.lastrowid or 0

    def _row(self, name: str) -> tuple[str, str]:
        found: tuple[str, str] | None = self._file.execute(
            "SELECT version, object FROM widgets WHERE name = ?", (name,)
        ).fetchone()
        if found is None:
            raise HTTPException(404, f'widgets.{GROUP} "{name}" not found')
        return found

    def _decoded(self, row: tuple[str, str], version: str) -> Object:
        stored_version, text = row
        if stored_version not in self._decode:
            raise HTTPException(500, f"a widget is stored as {stored_version}, unknown here")
        return converted(json.loads(text), version)

    @contextmanager
    def _transaction(self, begin: str = "BEGIN IMMEDIATE") -> Generator[None]:
        with self._lock:
            self._file.execute(begin)
            try:
                yield
            except BaseException:
                self._file.execute("ROLLBACK")
                raise
            self._file.execute("COMMIT")


class Api:
    """What is served: the widgets, and everything about their discovery."""

    def __init__(self, widgets: Widgets, encode: str, versions: Sequence[str]) -> None:
        self._widgets = widgets
        self._encode = encode
        self._versions = versions

    def routes(self) -> list[BaseRoute]:
        widgets = f"/apis/{GROUP}/{{version}}/widgets"
        return [
            Route(widgets, self.collection, methods=["GET", "POST"]),
            Route(f"{widgets}/{{name}}", self.item, methods=["GET", "PUT", "DELETE"]),
            Mount("/", discovery_app([self._group()])),
        ]

    def _group(self) -> ApiGroup:
        verbs = ("create", "delete", "get", "list", "update")
        return ApiGroup(
            GROUP,
            [
                ApiVersion(
                    version,
                    [
                        ApiResource(
                            "widgets",
                            "Widget",
                            namespaced=False,
                            verbs=verbs,
                            schema={"type": "object", "properties": {"spec": SPECS[version]}},
                            storage_version=self._encode,
                        )
                    ],
                )
                for version in self._versions
            ],
        )

    async def collection(self, request: Request) -> Response:
        version = self._version(request)
        if request.method == "POST":
            widget = await _widget(request, version)
            made = await run_in_threadpool(self._widgets.create, widget, version)
            return JSONResponse(made, 201)
        items, revision = await run_in_threadpool(self._widgets.list, version)
        answer = {"kind": "WidgetList", "apiVersion": f"{GROUP}/{version}"}
        return JSONResponse(
            {**answer, "metadata": {"resourceVersion": str(revision)}, "items": items}
        )

    async def item(self, request: Request) -> Response:
        version, name = self._version(request), request.path_params["name"]
        if request.method == "PUT":
            widget = await _widget(request, version)
            return JSONResponse(
                await run_in_threadpool(self._widgets.update, name, widget, version)
            )
        act = self._widgets.delete if request.method == "DELETE" else self._widgets.get
        return JSONResponse(await run_in_threadpool(act, name, version))

    def _version(self, request: Request) -> str:
        version: str = request.path_params["version"]
        if version not in self._versions:
            raise HTTPException(404, "the server could not find the requested resource")
        return version


async def _widget(request: Request, version: str) -> Object:
    """Return what was sent, with what a widget must have."""
    try:
        sent = json.loads(await request.body())
        name = request.path_params.get("name") or sent["metadata"]["name"]
        widget = {"kind": "Widget", "apiVersion": f"{GROUP}/{version}", "spec": sent["spec"]}
        widget["metadata"] = {**sent["metadata"], "name": str(name)}
        return converted(widget, version)  # that of another version has other fields
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise HTTPException(400, f"no widget of {version}: {error!r}") from error


def _failure(_request: Request, error: Exception) -> Response:
    """Return a Status, as every Kubernetes API does."""
    code = error.status_code if isinstance(error, HTTPException) else 500
    message = error.detail if isinstance(error, HTTPException) else str(error)
    answer: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return JSONResponse({**answer, "message": message, "code": code}, code)


async def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT."""
    widgets = Widgets(options.data, options.hostname, options.encode, tuple(options.decode))
    resource = StoredResource(
        group=GROUP,
        resource="widgets",
        encoding_version=f"{GROUP}/{options.encode}",
        decodable_versions=tuple(f"{GROUP}/{version}" for version in options.decode),
        served_versions=tuple(f"{GROUP}/{version}" for version in options.decode),
    )
    reporter = StorageVersionReporter(
        options.service,
        hostname=options.hostname,
        component=COMPONENT,
        resources=[resource],
        timing=Timing(lease_duration_s=options.lease_seconds),
    )
    app = Starlette(
        routes=Api(widgets, options.encode, options.decode).routes(),
        middleware=[Middleware(WriteGateMiddleware, gate=reporter)],
        exception_handlers={HTTPException: _failure},
    )
    host, _, port = options.http.rpartition(":")
    server = HttpServer(app, host, int(port))
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    # Nothing is served or written outside of it: who has departed must not write.
    async with reporter:
        serving = asyncio.create_task(server.serve())
        if options.ready_file:
            options.ready_file.write_text(f"{host}:{server.port}\n", encoding="utf-8")
        log.info("serving http://%s:%d", host, server.port)
        await stopped.wait()
        await server.stop(GRACE_S)
        await serving
        # A request that was cut off may still be writing, in a thread.
        await run_in_threadpool(widgets.close)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="A small extension API server.")
    add = parser.add_argument
    add("--service", action="append", help="address of the discovery service's gRPC; repeatable")
    add("--http", default="127.0.0.1:8081", help="address to serve at; port 0 for a free one")
    add("--hostname", default="server-1", help="a name that no other server has")
    add("--encode", choices=VERSIONS, default="v1", help="the version to write")
    add("--decode", choices=VERSIONS, action="append", help="a version to read; repeatable")
    add("--lease-seconds", type=int, default=3600, help="how long it may be silent")
    add("--data", type=Path, default=Path("widgets.db"), help="the SQLite file")
    add("--ready-file", type=Path, help="written, with the address, when it serves")
    options = parser.parse_args()
    options.service = options.service or ["127.0.0.1:50051"]
    options.decode = options.decode or list(VERSIONS)
    if options.encode not in options.decode:
        parser.error(f"--encode {options.encode} is not among what --decode names")
    return options


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    asyncio.run(serve(arguments()))
