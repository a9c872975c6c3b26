"""The gateway in memory: mounted in other applications, and remembering its answers."""

import asyncio
import json
import runpy
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import httpx2
import pytest
from apidiscovery_service.core.model import (
    Contribution,
    GroupVersionKind,
    Offer,
    Precedence,
    Resource,
    Scope,
    Version,
)
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.encoding import CurrentEncoding
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.openapi.body import WHOLE_BYTES
from apidiscovery_service.openapi.documents import Documents
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, Site
from apidiscovery_service.serving.http.messages import Receive, Send
from apidiscovery_service.serving.http.openapi import OpenAPIAnswers
from hypothesis import given, settings
from hypothesis import strategies as st
from media_types import JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2
from openapi_recipes import FakeRecipes
from repository import EXAMPLES
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

Message = dict[str, object]

EXAMPLE = EXAMPLES / "mounted.py"
DOCUMENT = b'{"openapi":"3.0.0","info":{"title":"apps","version":"v1"},"paths":{}}'


@dataclass
class Parts:
    """Everything that a gateway is made of, in memory."""

    registry: Registry = field(default_factory=Registry)
    metrics: Metrics = field(default_factory=Metrics)
    ready: bool = True

    def __post_init__(self) -> None:
        checks = Checks()
        checks.add("ping", lambda: None)
        documents = Documents(FakeRecipes({"apps": {"apis/apps/v1": DOCUMENT}}))
        self.site = Site(
            checks,
            self.metrics,
            FeatureGates(),
            "example.com:80",
            openapi=OpenAPIAnswers(documents),
        )
        self.encoding = CurrentEncoding(self.registry)
        self.gateway = self.fresh()

    def fresh(self) -> Gateway:
        """Return a gateway that remembers nothing."""
        return Gateway(self.encoding, self.site, lambda: self.ready)


def contribution(group: str, *kinds: str) -> Contribution:
    resources = tuple(
        Resource(f"{kind.lower()}s", GroupVersionKind("", "", kind), Scope.CLUSTER, "", ("get",))
        for kind in kinds
    )
    offer = Offer(group, Version("v1", resources), 1000, 15)
    return Contribution(f"source of {group}", Precedence.BUILTIN, (offer,))


@pytest.fixture
def parts() -> Parts:
    made = Parts()
    made.registry.publish(contribution("", "Pod"), contribution("apps", "Deployment"))
    return made


def client(app: Callable[..., Awaitable[None]], root_path: str = "") -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app, root_path=root_path)
    return httpx2.AsyncClient(transport=transport, base_url="http://example.com")


PATHS = ["/api", "/apis", "/apis/apps", "/apis/apps/", "/apis/apps/v1", "/api/v1", "/version"]
OPENAPI = [
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/apis/apps/v1",
    "/openapi/v3/apis/apps/v1?hash=0",
    "/openapi/v3/nope",
]


@pytest.mark.parametrize(
    "path", [*PATHS, *OPENAPI, "/readyz/ping", "/apis/nope", "/apis/apps/v1/nope", "/"]
)
async def test_mounted_anywhere_it_answers_as_if_alone(parts: Parts, path: str) -> None:
    async def home(_: Request) -> PlainTextResponse:
        return PlainTextResponse("home")

    below = Starlette(routes=[Route("/", home), Mount("/clusters/one", parts.gateway)])
    at_root = Starlette(routes=[Route("/home", home), Mount("/", parts.fresh())])
    async with client(parts.fresh()) as alone, client(below) as inner, client(at_root) as root:
        for _ in range(2):  # from memory the second time
            want = await alone.get(path)
            for got in (await inner.get(f"/clusters/one{path}"), await root.get(path)):
                assert (got.status_code, got.content) == (want.status_code, want.content)
                assert got.headers == want.headers
        assert (await inner.get("/")).text == (await root.get("/home")).text == "home"


@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_mounted_anywhere_a_large_merged_document_is_sent_in_pieces(coding: str) -> None:
    """Any server takes them: what is packed is unpacked by the gateway itself."""
    texts = {f"apis/g{number}.example.com/v1": large(number) for number in range(6)}
    documents = Documents(FakeRecipes({key.split("/")[1]: {key: texts[key]} for key in texts}))
    gates = FeatureGates()
    site = Site(Checks(), Metrics(), gates, "", openapi=OpenAPIAnswers(documents))
    app = Starlette(routes=[Mount("/clusters/one", Gateway(CurrentEncoding(Registry()), site))])
    sizes: list[int] = []

    async def counted(scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async def send_counted(message: MutableMapping[str, Any]) -> None:
            sizes.append(len(message.get("body", b"")))
            await send(message)

        await app(scope, receive, send_counted)

    async with client(counted) as http:
        answer = await http.get("/clusters/one/openapi/v2", headers={"accept-encoding": coding})
        assert answer.status_code == 200
        assert len(answer.json()["definitions"]) == len(texts)
        assert len(answer.content) > WHOLE_BYTES
        assert max(sizes) <= WHOLE_BYTES
        if coding == "identity":
            assert sum(sizes) == len(answer.content) == int(answer.headers["content-length"])
            again = await http.get("/clusters/one/openapi/v2", headers={"accept-encoding": coding})
            assert again.content == answer.content
            part = await http.get(
                "/clusters/one/openapi/v2",
                headers={"accept-encoding": coding, "range": "bytes=1000000-1999999"},
            )
            assert (part.status_code, part.content) == (206, answer.content[1_000_000:2_000_000])


def large(number: int) -> bytes:
    """Return a document with 400 KB of text."""
    schema = {"type": "object", "description": f"{number} " * 200_000}
    return json.dumps(
        {
            "openapi": "3.0.0",
            "info": {"title": "large", "version": "v1"},
            "paths": {},
            "components": {"schemas": {f"com.example.Thing{number}": schema}},
        }
    ).encode()


async def test_mounted_below_itself_it_is_not_confused(parts: Parts) -> None:
    """The same path means other things under other prefixes."""
    app = Starlette(routes=[Mount("/apis/apps", parts.gateway), Mount("/", parts.gateway)])
    async with client(app) as http, client(parts.gateway) as direct:
        for _ in range(2):
            assert (await http.get("/apis")).json()["kind"] == "APIGroupList"
            assert (await http.get("/apis/apps/version")).json()["major"]
            assert (await http.get("/apis/apps/apis/apps")).json()["kind"] == "APIGroup"
            assert (await direct.get("/apis/apps/v1")).json()["kind"] == "APIResourceList"
            assert (await http.get("/apis/apps/v1")).status_code == 404


async def test_the_example_describes_its_own_api() -> None:
    app = runpy.run_path(str(EXAMPLE))["application"]()
    key = "apis/widgets.example.com/v1"
    async with client(app) as http:
        index = (await http.get("/openapi/v3")).json()["paths"]
        document = await http.get(index[key]["serverRelativeURL"])
        merged = (await http.get("/openapi/v2")).json()
        # What the application serves itself is still there.
        assert (await http.get(f"/{key}/widgets")).json()["kind"] == "WidgetList"
        assert (await http.get(f"/{key}")).json()["resources"][0]["name"] == "widgets"
    assert sorted(index) == [key, "version"]
    assert document.headers["cache-control"] == "public, immutable"
    schema = document.json()["components"]["schemas"]["com.example.widgets.v1.Widget"]
    assert schema["properties"]["size"]["description"] == "Its size in millimetres."
    described = merged["definitions"]["com.example.widgets.v1.Widget"]["properties"]["size"]
    assert described == schema["properties"]["size"]


async def test_head_has_the_headers_of_get_and_no_body(parts: Parts) -> None:
    async with client(parts.gateway) as http:
        for path in ("/apis", "/apis/apps", "/livez", "/apis/nope"):
            get = await http.get(path, headers={"accept": f"{JSON_V2},*/*"})
            head = await http.head(path, headers={"accept": f"{JSON_V2},*/*"})
            assert (head.status_code, head.headers, head.content) == (
                get.status_code,
                get.headers,
                b"",
            )


async def test_the_lifespan_protocol_is_gone_through() -> None:
    """Servers that insist on it start and stop the application."""
    received = iter(["lifespan.startup", "lifespan.shutdown"])
    sent: list[object] = []

    async def receive() -> dict[str, object]:
        return {"type": next(received)}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])

    await Parts().gateway({"type": "lifespan"}, receive, send)
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_a_websocket_is_closed(parts: Parts) -> None:
    sent: list[object] = []

    async def receive() -> dict[str, object]:
        return {"type": "websocket.connect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message["type"])

    await parts.gateway({"type": "websocket", "path": "/apis"}, receive, send)
    assert sent == ["websocket.close"]


@pytest.mark.parametrize("path", ["/api", "/apis", "/apis/apps", "/apis/apps/v1", "/", "/nope"])
async def test_until_ready_discovery_is_to_be_asked_again(parts: Parts, path: str) -> None:
    """A document without the local sources would be taken for one of a server that lost them."""
    parts.ready = False
    async with client(parts.gateway) as http:
        for _ in range(2):
            response = await http.get(path, headers={"accept": f"{JSON_V2},application/json"})
            assert response.status_code == 503
            assert response.headers["retry-after"] == "5"
            assert response.headers["cache-control"] == "no-cache, private"
            assert response.content == (
                b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
                b'"message":"the request has been made before all known HTTP paths have been '
                b'installed, please try again","reason":"ServiceUnavailable",'
                b'"details":{"retryAfterSeconds":5},"code":503}\n'
            )
        for other in ("/livez", "/readyz", "/version", "/metrics"):
            assert (await http.get(other)).status_code == 200
        parts.ready = True
        answer = await http.get(path, headers={"accept": f"{JSON_V2},application/json"})
        assert answer.status_code == (404 if path == "/nope" else 200)


async def test_every_request_without_peers_is_counted(parts: Parts) -> None:
    """Also those that are answered from memory."""
    async with client(parts.gateway) as http:
        for _ in range(3):
            await http.get("/apis", headers={"accept": f"{JSON_V2};profile=nopeer"})
        text = (await http.get("/metrics")).text
    assert "aggregator_discovery_nopeer_requests_total 3.0" in text


async def test_callers_that_go_away_do_not_take_the_answer_along(parts: Parts) -> None:
    async with client(parts.gateway) as http:
        asked = [
            asyncio.create_task(http.get("/apis", headers={"accept": JSON_V2})) for _ in range(9)
        ]
        await asyncio.sleep(0)
        for task in asked[::2]:
            task.cancel()
        results = await asyncio.gather(*asked, return_exceptions=True)
    assert {result.status_code for result in results if isinstance(result, httpx2.Response)} == {
        200
    }


# What is remembered is what would be answered anew.


@dataclass(frozen=True)
class Ask:
    method: str
    path: str
    root_path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    has_etag: bool


@dataclass(frozen=True)
class Publish:
    group: str
    kinds: tuple[str, ...]


HEADERS = [
    *[
        ("accept", one)
        for one in (JSON_V2, JSON_V2BETA1, PROTOBUF_V2, YAML_V2, "*/*", f"{JSON_V2};profile=nopeer")
    ],
    *[("accept", one) for one in ("application/json", "application/yaml", "text/html")],
    *[("accept-encoding", one) for one in ("gzip", "zstd", "zstd;q=0.1, gzip", "identity")],
    *[("if-none-match", one) for one in ("*", '"x"', "W/")],
    *[("user-agent", one) for one in ("curl/8", "kubectl")],
    *[("content-type", one) for one in ("text/plain", "application/json")],
    ("x-large", "a" * 70_000),
]
METHODS = st.sampled_from(["GET", "GET", "HEAD", "POST"])
PATHS_ASKED = st.sampled_from(
    ["/api", "/api/", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/apis/x/v1", "/apis/x"]
)
PREFIXES = st.sampled_from(["", "/apis", "/apis/apps"])
QUERIES = st.sampled_from(["", "pretty=1", "timeout=32s", "timeout=x"])
ASKS = st.builds(
    Ask,
    method=METHODS,
    path=PATHS_ASKED,
    root_path=st.just(""),
    query=QUERIES,
    headers=st.lists(st.sampled_from(HEADERS), max_size=3).map(tuple),
    has_etag=st.booleans(),
)
PUBLISHES = st.builds(
    Publish,
    group=st.sampled_from(["", "apps", "x"]),
    # Some long enough to be compressed.
    kinds=st.sampled_from([(), ("A",), ("B", "A"), tuple(f"Kind{i}" for i in range(40))]),
)


def like(base: Ask) -> st.SearchStrategy[Ask]:
    """Return requests that differ in one thing at most."""
    return st.one_of(
        st.just(base),
        METHODS.map(lambda method: replace(base, method=method)),
        PATHS_ASKED.map(lambda path: replace(base, path=path)),
        PREFIXES.map(lambda prefix: replace(base, root_path=prefix)),
        QUERIES.map(lambda query: replace(base, query=query)),
        st.sampled_from(HEADERS).map(lambda one: replace(base, headers=(*base.headers, one))),
        st.just(replace(base, has_etag=not base.has_etag)),
    )


def histories(base: Ask) -> st.SearchStrategy[list[Ask | Publish]]:
    return st.lists(st.one_of(like(base), like(base), PUBLISHES), min_size=2, max_size=20)


async def answer(gateway: Gateway, ask: Ask, etag: str) -> tuple[Message, ...]:
    """Return the messages that answer a request."""
    headers = [*ask.headers, *([("if-none-match", etag)] if ask.has_etag else [])]
    scope: dict[str, object] = {
        "type": "http",
        "method": ask.method,
        "path": ask.path,
        "raw_path": ask.path.encode(),
        "root_path": ask.root_path,
        "query_string": ask.query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    sent: list[Message] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(dict(message))

    await gateway(scope, receive, send)
    return tuple(sent)


async def run(steps: list[Ask | Publish]) -> None:
    parts = Parts()
    parts.registry.publish(contribution("", "Pod"), contribution("apps", "Deployment"))
    for step in steps:
        if isinstance(step, Publish):
            parts.registry.publish(contribution(step.group, *step.kinds))
            continue
        snapshot = parts.registry.snapshot
        document = snapshot.core if step.path.rstrip("/") == "/api" else snapshot.named
        ask = partial(answer, ask=step, etag=f'"{document.etag}"')
        remembered = await ask(parts.gateway)
        assert remembered[0]["status"] != 500
        assert remembered == await ask(parts.fresh())
        assert remembered == await ask(parts.gateway)


@settings(deadline=None, max_examples=150)
@given(ASKS.flatmap(histories))
def test_what_is_remembered_is_what_would_be_answered_anew(steps: list[Ask | Publish]) -> None:
    asyncio.run(run(steps))
