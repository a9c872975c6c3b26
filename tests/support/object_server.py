"""StorageVersions and leases over HTTP in this process, with a store in memory."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http.client import HTTPResponse
from pathlib import Path
from typing import Any, cast

from apidiscovery_service.access.authenticator import Access
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Object
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, HttpServer, Site
from apidiscovery_service.serving.http.objects.gateway import ObjectAnswers
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from apidiscovery_service.sources.storage_version_api import (
    storage_version_api,
    storage_version_recipe,
)
from apidiscovery_service.storage_versions.collection import Collection
from apidiscovery_service.storage_versions.state import LEASES as LEASES_PREFIX
from apidiscovery_service.storage_versions.state import OBJECTS
from apidiscovery_service.store.memory import MemoryStore
from http_server import running
from openapi_recipes import FakeRecipes
from raw_http import RawResponse, request
from waiting import WITHIN_S

PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"
WATCH_PATH = "/apis/internal.apiserver.k8s.io/v1alpha1/watch/storageversions"
LEASES = "/apis/coordination.k8s.io/v1/leases"
NAMESPACED_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"

JSON = "application/json"

PROTOBUF = "application/vnd.kubernetes.protobuf"
TABLE = f"{JSON};as=Table;v=v1;g=meta.k8s.io"


def lease(name: str) -> Object:
    """Return the lease of an API server."""
    return {
        "kind": "Lease",
        "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": name, "namespace": "kube-system"},
        "spec": {"holderIdentity": f"{name}_0", "leaseDurationSeconds": 3600},
    }


def storage_version(name: str, **metadata: object) -> Object:
    """Return a StorageVersion as a client sends it."""
    value = {
        "kind": "StorageVersion",
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "metadata": {"name": name, **metadata},
        "spec": {},
    }
    return cast("Object", value)


class WatchConnection:
    """A watch over a connection of its own, read event by event in threads.

    Attributes:
        status: HTTP status of the answer.
        headers: Names in lower case.
        connection: The socket.
    """

    def __init__(self, port: int, target: str, headers: Sequence[tuple[str, str]]) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
        lines += [f"{name}: {value}" for name, value in headers]
        self.connection.sendall("\r\n".join([*lines, "", ""]).encode())
        self._response = HTTPResponse(self.connection)
        self._response.begin()
        self.status = self._response.status
        self.headers = {name.lower(): value for name, value in self._response.getheaders()}

    async def event(self) -> dict[str, Any] | None:
        """Return the next event; None at the end of the stream."""
        line = await asyncio.to_thread(self._response.readline)
        return cast("dict[str, Any]", json.loads(line)) if line else None

    async def summary(self) -> tuple[str, str] | None:
        """Return the type of the next event and the name of its object."""
        event = await self.event()
        if event is None:
            return None
        return event["type"], event["object"].get("metadata", {}).get("name", "")

    async def read(self, size: int) -> bytes:
        return await asyncio.to_thread(self._response.read, size)

    async def body(self) -> bytes:
        """Return the rest of a body that ends."""
        return await asyncio.to_thread(self._response.read)

    def close(self) -> None:
        self._response.close()
        self.connection.close()


@dataclass
class ObjectServer:
    """A server on a free port or a Unix socket, and its parts."""

    port: int
    path: Path | None
    objects: Collection
    leases: Collection
    store: MemoryStore
    answers: ObjectAnswers
    metrics: Metrics
    http: HttpServer

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def request(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> RawResponse:
        """Send one request and return the answer."""
        lines = tuple((headers or {}).items())
        return await asyncio.to_thread(request, self.port, target, lines, method=method, body=body)

    async def get(self, target: str, accept: str = JSON) -> RawResponse:
        return await self.request("GET", target, {"Accept": accept})

    async def send(
        self, method: str, target: str, value: object, content_type: str = JSON
    ) -> RawResponse:
        """Send a JSON value."""
        body = json.dumps(value).encode()
        return await self.request(method, target, {"Content-Type": content_type}, body)

    @asynccontextmanager
    async def watch(
        self, target: str, *headers: tuple[str, str]
    ) -> AsyncGenerator[WatchConnection]:
        """Begin a watch."""
        watch = await asyncio.to_thread(WatchConnection, self.port, target, headers)
        try:
            yield watch
        finally:
            watch.close()

    async def create_behind(self, name: str) -> None:
        """Put an object into the store, as another replica would."""
        await self.objects.create(storage_version(name))

    async def create(self, name: str, **metadata: object) -> RawResponse:
        answer = await self.send("POST", PATH, storage_version(name, **metadata))
        assert answer.status == 201, answer.body
        return answer


async def _documents() -> Documents:
    """Return the document with which kubectl validates objects."""
    key = "apis/internal.apiserver.k8s.io/v1alpha1"
    recipe = storage_version_recipe(key)
    assert recipe is not None
    return Documents(FakeRecipes({"internal.apiserver.k8s.io": {key: await recipe.make()}}))


@asynccontextmanager
async def object_server(
    access: Access | None = None, *, history: int = 1024, path: Path | None = None
) -> AsyncGenerator[ObjectServer]:
    """Serve StorageVersions and leases.

    Args:
        access: Authenticates and authorizes callers; None for a server without authentication.
        history: How many events are kept for watchers.
        path: The Unix socket on which to listen; None for a free port.
    """
    store = MemoryStore()
    objects = Collection(store, STORAGE_VERSION, OBJECTS, history)
    leases = Collection(store, LEASE, LEASES_PREFIX)
    await asyncio.gather(objects.load(), leases.load())
    registry, metrics, checks = Registry(), Metrics(), Checks()
    checks.add("ping", lambda: None)
    registry.publish(storage_version_api())
    answers = ObjectAnswers(objects, leases)
    site = Site(checks, metrics, openapi=OpenAPIAnswers(await _documents()), objects=answers)
    http = HttpServer(Gateway(CurrentEncoding(registry), site, access=access), path or "127.0.0.1")
    site.server_address = f"127.0.0.1:{http.port}"
    tasks = [asyncio.create_task(one.follow()) for one in (objects, leases)]
    try:
        async with running(http):
            try:
                yield ObjectServer(http.port, path, objects, leases, store, answers, metrics, http)
            finally:
                answers.stop()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
