"""The middleware around Starlette, in memory and behind a real server."""

from collections.abc import AsyncGenerator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx2
import pytest
import yaml
from apidiscovery_client.storage_versions import (
    GroupResource,
    Refusal,
    RequestAttributes,
    WriteGate,
    WriteGateMiddleware,
)
from apidiscovery_client.storage_versions.asgi import Application, Receive, Scope, Send
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Representation, Serializer
from apidiscovery_service.encoding import plain
from http_server import served
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

WIDGETS = "/apis/example.dev/v1/namespaces/default/widgets"
MESSAGE = (
    "wait for storage version registration to complete for resource: widgets.example.dev,"
    " last seen error: <nil>"
)
CHECK = "poststarthook/built-in-resources-storage-version-updater"
PENDING = frozenset({GroupResource("example.dev", "widgets"), GroupResource("", "namespaces")})


@dataclass
class SwitchedGate:
    """A gate that the test opens and closes."""

    gate: WriteGate = field(default_factory=lambda: WriteGate(confirmed=False, pending=PENDING))

    @property
    def confirmed(self) -> bool:
        return self.gate.confirmed

    @property
    def was_confirmed(self) -> bool:
        return self.gate.was_confirmed

    @property
    def last_error(self) -> str | None:
        return self.gate.last_error

    def refusal(self, attributes: RequestAttributes) -> Refusal | None:
        return self.gate.refusal(attributes)

    def open(self) -> None:
        self.gate = WriteGate(confirmed=True, was_confirmed=True)

    def close_again(self) -> None:
        self.gate = WriteGate(confirmed=False, pending=PENDING, was_confirmed=True)


async def everything(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{request.method} by the application: {await request.body()!r}")


def identify(scope: Scope) -> tuple[str, Collection[str]]:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return headers.get(b"x-user", b"").decode(), ["system:masters"]


ANY = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def starlette(gate: SwitchedGate) -> Starlette:
    guarded = Middleware(WriteGateMiddleware, gate=gate, identify=identify)
    return Starlette(routes=[Route("/{path:path}", everything, methods=ANY)], middleware=[guarded])


@pytest.fixture
def gate() -> SwitchedGate:
    return SwitchedGate()


@asynccontextmanager
async def in_memory(app: Application) -> AsyncGenerator[httpx2.AsyncClient]:
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://example.dev") as client:
        yield client


@pytest.fixture
async def client(gate: SwitchedGate) -> AsyncGenerator[httpx2.AsyncClient]:
    async with in_memory(starlette(gate)) as client:
        yield client


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_writes_wait(client: httpx2.AsyncClient, gate: SwitchedGate, method: str) -> None:
    answer = await client.request(method, WIDGETS)
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["message"] == MESSAGE
    gate.open()
    answer = await client.request(method, WIDGETS, content=b"{}")
    assert answer.text == f"{method} by the application: b'{{}}'"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", WIDGETS),
        ("GET", f"{WIDGETS}?watch=true"),
        ("GET", f"{WIDGETS}/a"),
        ("POST", "/apis"),
        ("POST", "/anything/else"),
        ("POST", "/apis/example.dev/v1/gadgets"),
        ("POST", "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/a"),
    ],
)
async def test_everything_else_passes(client: httpx2.AsyncClient, method: str, path: str) -> None:
    answer = await client.request(method, path)
    assert answer.text == f"{method} by the application: b''"


async def test_kube_apiserver_itself_may_create_namespaces(client: httpx2.AsyncClient) -> None:
    path = "/api/v1/namespaces"
    assert (await client.post(path)).status_code == 503
    own = await client.post(path, headers={"x-user": "system:apiserver"})
    assert own.status_code == 200


@pytest.mark.parametrize(
    ("accept", "serializer"),
    [
        ("application/json", JSON),
        ("application/json;q=0.5, application/yaml", YAML),
        ("application/vnd.kubernetes.protobuf", PROTOBUF),
        ("text/html", JSON),
    ],
)
async def test_the_status_has_the_media_type_of_accept_or_is_json(
    client: httpx2.AsyncClient, accept: str, serializer: Serializer
) -> None:
    answer = await client.post(WIDGETS, headers={"accept": accept})
    expected = plain.status(503, "ServiceUnavailable", MESSAGE)
    assert answer.headers["content-type"] == serializer.media_type
    encoded = plain.encode(expected, Representation(serializer))
    if serializer is YAML:  # of which there are many forms
        assert yaml.safe_load(answer.content) == yaml.safe_load(encoded)
    else:
        assert answer.content == encoded


async def test_the_status_is_that_of_kubernetes(client: httpx2.AsyncClient) -> None:
    answer = await client.post(WIDGETS)
    assert answer.content == (
        b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"wait for '
        b"storage version registration to complete for resource: widgets.example.dev, last seen "
        b'error: \\u003cnil\\u003e","reason":"ServiceUnavailable","code":503}\n'
    )


@pytest.mark.parametrize("name", ["healthz", "livez", "readyz"])
async def test_health_waits(client: httpx2.AsyncClient, gate: SwitchedGate, name: str) -> None:
    answer = await client.get(f"/{name}")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.text == f"[-]{CHECK} failed: reason withheld\n{name} check failed\n"
    gate.open()
    assert (await client.get(f"/{name}")).text == "GET by the application: b''"


async def test_only_readiness_falls_back(client: httpx2.AsyncClient, gate: SwitchedGate) -> None:
    gate.close_again()
    answers = {path: await client.get(path) for path in ("/healthz", "/livez", "/readyz")}
    seen = {path: answer.status_code for path, answer in answers.items()}
    assert seen == {"/healthz": 200, "/livez": 200, "/readyz": 500}
    assert (await client.post(WIDGETS)).status_code == 503


async def test_the_check_has_the_reason(client: httpx2.AsyncClient, gate: SwitchedGate) -> None:
    path = f"/readyz/{CHECK}"
    assert (await client.get(path)).text == "internal server error: not finished\n"
    gate.gate = WriteGate(confirmed=False, last_error="UNAVAILABLE: gone")
    assert (await client.get(path)).text.endswith("not finished: UNAVAILABLE: gone\n")
    gate.open()
    answer = await client.get(path)
    assert (answer.status_code, answer.text) == (200, "ok")


async def test_the_check_can_be_excluded(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/readyz", params={"exclude": CHECK})).status_code == 200
    assert (await client.get("/readyz", params={"exclude": "etcd"})).status_code == 500


async def test_head_has_no_body(client: httpx2.AsyncClient) -> None:
    answer = await client.head("/readyz")
    assert (answer.status_code, answer.content) == (500, b"")


async def test_a_path_that_ends_with_its_verb_is_an_error(client: httpx2.AsyncClient) -> None:
    answer = await client.get("/apis/example.dev/v1/watch")
    assert answer.status_code == 500
    assert answer.text == (
        'Internal Server Error: "/apis/example.dev/v1/watch": failed to create RequestInfo:'
        " unable to determine kind and namespace from url, /apis/example.dev/v1/watch\n"
    )


async def test_a_mounted_application_sees_the_path_below_its_mount(gate: SwitchedGate) -> None:
    async with in_memory(Starlette(routes=[Mount("/mounted", starlette(gate))])) as client:
        assert (await client.post(f"/mounted{WIDGETS}")).status_code == 503
        assert (await client.get(f"/mounted{WIDGETS}")).status_code == 200
        assert (await client.get("/mounted/readyz")).status_code == 500


@pytest.mark.parametrize("path", [WIDGETS, f"/outer{WIDGETS}"])
@pytest.mark.parametrize("root_path", ["/outer", "/outer/"])
async def test_root_path_is_a_prefix_of_the_path_or_is_not(
    gate: SwitchedGate, root_path: str, path: str
) -> None:
    """Some servers pass on the whole path, others the path that a proxy has shortened."""
    transport = httpx2.ASGITransport(app=starlette(gate), root_path=root_path)
    async with httpx2.AsyncClient(transport=transport, base_url="http://example.dev") as client:
        assert (await client.post(path)).status_code == 503
        assert (await client.get(path)).status_code == 200


async def test_other_protocols_reach_the_application(gate: SwitchedGate) -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        seen.append(scope["type"])

    async def nothing(*_: object) -> dict[str, object]:
        return {}

    async def nowhere(_: object) -> None: ...

    guarded = WriteGateMiddleware(app, gate)
    for kind in ("lifespan", "websocket"):
        await guarded({"type": kind, "path": WIDGETS, "headers": []}, nothing, nowhere)
    assert seen == ["lifespan", "websocket"]


@pytest.mark.parametrize("http2", [False, True])
async def test_behind_a_real_server(gate: SwitchedGate, *, http2: bool) -> None:
    async with (
        served(starlette(gate)) as url,
        httpx2.AsyncClient(base_url=url, http1=not http2, http2=http2, trust_env=False) as client,
    ):
        for _ in range(20):
            refused = await client.post(WIDGETS, content=b"x" * 100_000)
            assert (refused.status_code, refused.json()["message"]) == (503, MESSAGE)
        assert (await client.get("/livez")).status_code == 500
        gate.open()
        assert (await client.post(WIDGETS, content=b"x")).text.endswith("b'x'")
        assert (await client.get("/livez")).status_code == 200
