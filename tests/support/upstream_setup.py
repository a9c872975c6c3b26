"""Upstreams in the event loop of a test, with registry, store and claims."""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from apidiscovery_formats.openapi.keys import key_of
from apidiscovery_service.core.model import Group, Version
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.api_service import ApiService, ServiceReference
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.follower import Upstreams
from apidiscovery_service.sources.upstreams.list_reader import GroupVersion
from apidiscovery_service.sources.upstreams.rounds import Rounds
from apidiscovery_service.sources.upstreams.services import ServiceSettings
from apidiscovery_service.sources.upstreams.spec import Timing, UpstreamLimits, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import Claims, Work
from fake_api_server import (
    NOT_FOUND,
    Answer,
    FakeApiServer,
    Request,
    Respond,
    Routes,
    aggregated,
    served_group,
    sha512,
)
from fake_api_server import document as json_document
from waiting import until

QUICK = Timing(
    poll_s=0.05,
    first_retry_s=0.02,
    last_retry_s=0.05,
    openapi_s=0.05,
    openapi_last_retry_s=0.1,
    openapi_after_s=0.01,
)
PATIENT = UpstreamLimits(exchange_s=20.0)


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole answer."""

    status: int
    content: bytes


async def answer_of(endpoint: Endpoint) -> Reply:
    """Return the answer of an endpoint to a request for /apis with its credentials."""
    response = await endpoint.get("/apis", tuple((await endpoint.headers()).items()))
    try:
        content = b"".join([piece async for piece in response.pieces()])
    finally:
        await response.aclose()
    return Reply(response.status, content)


def spec_of(url: str, name: str = "east", **fields: object) -> UpstreamSpec:
    """Return the specification of a server that is polled at short intervals."""
    defaults: dict[str, object] = {
        "timing": QUICK,
        "limits": PATIENT,
        "core_paths": (),
        "openapi": False,
    }
    return UpstreamSpec(name, Endpoint(url), **{**defaults, **fields})  # type: ignore[arg-type] # fields are UpstreamSpec's


class DeclaredServices:
    """APIServices that a test changes."""

    def __init__(self, *services: ApiService) -> None:
        self._listeners: list[Callable[[], None]] = []
        self.api_services = {service.name: service for service in services}

    def on_api_services(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def set(self, *services: ApiService) -> None:
        self.api_services = {service.name: service for service in services}
        for listener in self._listeners:
            listener()


def api_service(
    group: str = "remote.example.com", version: str = "v1", service: str = "remote"
) -> ApiService:
    """Return an APIService."""
    reference = ServiceReference("default", service, 443)
    return ApiService(f"{version}.{group}", group, version, 2000, 20, reference)


@dataclass
class Running:
    """Running upstreams and their parts."""

    registry: Registry
    upstreams: Upstreams
    metrics: Metrics
    declarations: DeclaredServices = field(default_factory=DeclaredServices)

    def group(self, name: str) -> Group | None:
        document = self.registry.snapshot.named if name else self.registry.snapshot.core
        published = document.by_name.get(name)
        return published.group if published else None

    def version(self, group: str, version: str = "v1") -> Version | None:
        found = self.group(group)
        return next((v for v in found.versions if v.version == version), None) if found else None

    def hash(self, group: str, version: str = "v1", source: str = "upstream:east") -> str:
        recipe = self.upstreams.documents.recipe(source, key_of(group, version))
        return recipe.hash if recipe else ""

    async def document(
        self, group: str, version: str = "v1", source: str = "upstream:east"
    ) -> bytes:
        recipe = self.upstreams.documents.recipe(source, key_of(group, version))
        return await recipe.make() if recipe else b""

    def freshness(self, group: str, version: str = "v1") -> str:
        found = self.version(group, version)
        return found.freshness if found else ""

    def state(self, source: str = "upstream:east") -> str:
        return {s.name: str(s.state) for s in self.upstreams.states()}.get(source, "")

    def error(self, source: str = "upstream:east") -> str:
        return {s.name: s.error for s in self.upstreams.states()}[source]


class Asking:
    """Rounds with one upstream, without a store."""

    def __init__(self, spec: UpstreamSpec, wanted: frozenset[GroupVersion] = frozenset()) -> None:
        self.received = 0
        self._spec = spec
        self.wanted = wanted
        self._rounds = Rounds(spec, Exchange(spec, self._count), lambda: self.wanted)
        self.known = Known(7, tuple(Root(path, core) for path, core in spec.paths))

    def _count(self, number: int) -> None:
        self.received += number

    async def round(self) -> Root:
        """Run one round; return the root of the last path."""
        self.known = await self._rounds.round(self.known)
        return self.known.roots[-1]

    async def has(self, path: str, groups: tuple[str, ...]) -> bool:
        """Run one round; return whether a path has these groups."""
        await self.round()
        return any(
            root.path == path and tuple(group.name for group in root.groups) == groups
            for root in self.known.roots
        )

    async def close(self) -> None:
        await self._spec.endpoint.aclose()


class Ask(Protocol):
    """Starts rounds, which end with the test."""

    def __call__(
        self, spec: UpstreamSpec, wanted: frozenset[GroupVersion] = frozenset()
    ) -> Asking: ...


class _Onlooker(Claims):
    """Follows the claims of other processes, and never takes one."""

    def register(self, name: str, work: Work) -> None:
        del name, work

    def unregister(self, name: str) -> None:
        del name


@asynccontextmanager
async def running(  # noqa: PLR0913 - all by name
    store: Store,
    *specs: UpstreamSpec,
    services: Sequence[ApiService] = (),
    settings: ServiceSettings | None = None,
    polls: bool = True,
    grace_s: float = 0.3,
    silence_s: float = 60.0,
) -> AsyncGenerator[Running]:
    """Load and follow upstreams, and poll them unless `polls` is false."""
    registry, metrics, declarations = Registry(), Metrics(), DeclaredServices(*services)
    claims = (Claims if polls else _Onlooker)(store, "test", 10.0, pause_s=0.02)
    upstreams = Upstreams(
        store,
        registry,
        declarations,
        claims,
        metrics,
        specs=specs,
        services=settings,
        grace_s=grace_s,
        silence_s=silence_s,
    )
    await upstreams.load()
    tasks = [asyncio.create_task(upstreams.follow()), asyncio.create_task(claims.run())]
    try:
        yield Running(registry, upstreams, metrics, declarations)
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def mirrored(
    store: Store, answers: Answer | Routes | Respond, **fields: object
) -> AsyncGenerator[tuple[FakeApiServer, Running]]:
    """Run a fake server and its upstream."""
    async with (
        FakeApiServer(answers) as server,
        running(store, spec_of(server.url, "east", **fields)) as run,
    ):
        yield server, run


def published(
    store: Store, answers: Answer | Routes | Respond, **fields: object
) -> AbstractAsyncContextManager[tuple[FakeApiServer, Running]]:
    """Run a fake server and its upstream, OpenAPI documents included."""
    return mirrored(store, answers, **{"openapi": True, **fields})


def service_settings(url: str, **fields: object) -> ServiceSettings:
    """Return settings that map the service of `api_service` to a URL."""
    defaults: dict[str, object] = {"timing": QUICK, "limits": PATIENT, "openapi": False}
    return ServiceSettings({"default/remote": url}, **{**defaults, **fields})  # type: ignore[arg-type] # fields are ServiceSettings'


# --------------------------------------------------------------------------------------------------
# Documents.


def item(group: str, *versions: str) -> dict[str, object]:
    """Return a group of an aggregated document, which serves widgets in these versions."""
    served = [served_group(group, "widgets", version=version) for version in versions or ("v1",)]
    return {**served[0], "versions": [version for one in served for version in one["versions"]]}


def resource_list(group_version: str, *names: str) -> dict[str, object]:
    """Return an APIResourceList."""
    resources = [
        {"name": n, "singularName": "", "namespaced": False, "kind": n.title(), "verbs": ["get"]}
        for n in names
    ]
    return {"kind": "APIResourceList", "groupVersion": group_version, "resources": resources}


def group_list(*group_versions: str) -> dict[str, object]:
    """Return an APIGroupList."""
    groups: dict[str, list[dict[str, str]]] = {}
    for name in group_versions:
        group, _, version = name.rpartition("/")
        groups.setdefault(group, []).append({"groupVersion": name, "version": version})
    listed = [
        {"name": group, "versions": versions, "preferredVersion": versions[0]}
        for group, versions in groups.items()
    ]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": listed}


def openapi_document(title: str) -> bytes:
    """Return an OpenAPI v3 document that is indented."""
    schemas = {"Widget": {"type": "object"}, "List": {"$ref": "#/components/schemas/Widget"}}
    content = {
        "openapi": "3.0.0",
        "info": {"title": title, "version": "v1"},
        "paths": {f"/{title}/": {"get": {"x-note": {"$ref": "nowhere"}}}},
        "components": {"schemas": schemas},
    }
    return json.dumps(content, indent=1).encode()


class Publisher:
    """The answers of an API server with OpenAPI documents.

    Attributes:
        documents: By key; may be changed at any time.
        hashes: By key, instead of SHA-512.
        urls: By key, instead of the right URLs.
        replies: By path with or without the query, instead of any other answer.
        etag: The ETag of the index; empty for none.
    """

    def __init__(self, *keys: str) -> None:
        self.documents = {key: openapi_document(key) for key in keys}
        self.hashes: dict[str, str] = {}
        self.urls: dict[str, str] = {}
        self.replies: dict[str, Answer] = {}
        self.etag = ""
        self.discovery = aggregated(
            *(
                item(*key.split("/")[1:])
                for key in keys
                if key.startswith("apis/") and key.count("/") == 2
            )
        )

    def url(self, key: str) -> str:
        named = self.hashes.get(key, sha512(self.documents[key]))
        return self.urls.get(
            key, f"/openapi/v3/{key}?hash={named}" if named else f"/openapi/v3/{key}"
        )

    def __call__(self, seen: Request) -> Answer:
        path = seen.path
        for name in (seen.target, path):
            if name in self.replies:
                return self.replies[name]
        if path == "/apis":
            return self.discovery
        if path == "/openapi/v3":
            return self._index(seen)
        document = self.documents.get(path.removeprefix("/openapi/v3/"))
        return Answer(document) if document else NOT_FOUND

    def _index(self, seen: Request) -> Answer:
        paths = {key: {"serverRelativeURL": self.url(key)} for key in self.documents}
        if self.etag and seen.headers.get("if-none-match") == self.etag:
            return Answer(b"", "", 304, {"ETag": self.etag})
        return json_document({"paths": paths}, etag=self.etag)


def publishing(url: str, **fields: object) -> UpstreamSpec:
    """Return the specification of a server, OpenAPI documents included."""
    return spec_of(url, "east", **{"openapi": True, **fields})


def fetched(server: FakeApiServer) -> list[str]:
    """Return the keys of the documents that were requested, in order."""
    prefix = "/openapi/v3/"
    return [path.removeprefix(prefix) for path in server.paths if path.startswith(prefix)]


async def polled(server: FakeApiServer, path: str = "/openapi/v3", times: int = 3) -> None:
    """Wait for some more polls."""
    wanted = server.paths.count(path) + times
    await until(lambda: server.paths.count(path) >= wanted, "polls")
