"""Documents of thousands of groups, in pieces or in one message."""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, MutableMapping
from typing import Any, cast

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
from apidiscovery_service.serving.health import Checks
from apidiscovery_service.serving.http import Gateway, HttpServer, Site
from apidiscovery_service.serving.http.sending import PIECE_BYTES
from http_server import running
from media_types import JSON_V2, JSON_V2BETA1
from waiting import WITHIN_S

GROUPS = 2500
HEADERS = {"accept": JSON_V2, "accept-encoding": "identity"}
_STOP_S = 5.0


def contribution(kind: str) -> Contribution:
    """Return many groups, each with one resource."""
    kinds = GroupVersionKind("", "", kind)
    version = Version("v1", (Resource("things", kinds, Scope.CLUSTER, "thing", ("get", "list")),))
    offers = (Offer(f"g{number:04}.example.com", version, 1000, 15) for number in range(GROUPS))
    return Contribution("many", Precedence.CRD, tuple(offers))


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.publish(contribution("Thing"))
    return made


@pytest.fixture
async def port(registry: Registry) -> AsyncIterator[int]:
    site = Site(Checks(), Metrics())
    server = HttpServer(Gateway(CurrentEncoding(registry), site), "127.0.0.1", 0)
    async with running(server, _STOP_S):
        yield server.port


def client(port: int, *, http2: bool = False) -> httpx2.AsyncClient:
    base = f"http://127.0.0.1:{port}"
    return httpx2.AsyncClient(
        base_url=base, http1=not http2, http2=http2, trust_env=False, timeout=WITHIN_S
    )


def fields(response: httpx2.Response) -> dict[str, str]:
    """Return the header fields, but for the time of the answer."""
    return {name: value for name, value in response.headers.items() if name != "date"}


@pytest.mark.parametrize("http2", [False, True], ids=["http1", "http2"])
async def test_the_first_answer_is_that_of_later_ones(port: int, *, http2: bool) -> None:
    async with client(port, http2=http2) as http:
        answers = [await http.get("/apis", headers=HEADERS) for _ in range(3)]
    first = answers[0]
    assert first.status_code == 200
    assert first.headers["content-length"] == str(len(first.content))
    assert len(cast("dict[str, list[object]]", json.loads(first.content))["items"]) == GROUPS
    for later in answers[1:]:
        assert later.content == first.content
        assert fields(later) == fields(first)


async def test_the_etag_is_the_hash_of_what_is_sent(port: int, registry: Registry) -> None:
    """It covers the v2 form without kind and apiVersion, whose JSON ends in no line feed."""
    async with client(port) as http:
        for kind in ("Thing", "Other"):
            registry.publish(contribution(kind))
            answer = await http.get("/apis", headers=HEADERS)
            hashed = b'{"metadata"' + answer.content.partition(b'"metadata"')[2].rstrip(b"\n")
            assert answer.headers["etag"] == f'"{hashlib.sha512(hashed).hexdigest().upper()}"'
            again = {**HEADERS, "if-none-match": answer.headers["etag"]}
            assert (await http.get("/apis", headers=again)).status_code == 304


async def test_the_pieces_are_the_whole_document(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Gateway(CurrentEncoding(registry), Site(Checks(), Metrics()))
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/apis",
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in HEADERS.items()],
    }
    monkeypatch.setattr("random.random", lambda: 1.0)  # the lot that says: in one message
    await gateway(scope, nothing_comes, send)
    _, whole = sent
    sent.clear()
    monkeypatch.setattr("random.random", lambda: 0.0)
    await gateway(scope, nothing_comes, send)
    _, *pieces = sent
    assert len(pieces) > 1
    assert max(len(piece["body"]) for piece in pieces) <= PIECE_BYTES
    assert b"".join(piece["body"] for piece in pieces) == whole["body"]
    *others, last = (piece["more_body"] for piece in pieces)
    assert all(others)
    assert not last


async def nothing_comes() -> dict[str, Any]:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("method", ["HEAD", "GET"])
async def test_head_tells_the_length_of_get_whoever_comes_first(port: int, method: str) -> None:
    headers = {"accept": JSON_V2BETA1, "accept-encoding": "identity"}
    async with client(port) as http:
        answers = [
            await http.request(one, "/apis", headers=headers) for one in (method, "HEAD", "GET")
        ]
    assert len({answer.headers["content-length"] for answer in answers}) == 1
    assert [len(answer.content) for answer in answers[1:]] == [
        0,
        int(answers[0].headers["content-length"]),
    ]


async def test_many_at_once_are_all_sent_the_same(port: int) -> None:
    async with client(port) as http:
        answers = await asyncio.gather(*(http.get("/apis", headers=HEADERS) for _ in range(8)))
    assert len({answer.content for answer in answers}) == 1


async def test_a_reader_that_goes_away_after_the_first_piece_takes_nothing_along(
    port: int,
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /apis HTTP/1.1\r\nHost: x\r\nAccept: {JSON_V2}\r\n\r\n".encode())
    assert (await reader.readline()).split()[1] == b"200"
    writer.transport.abort()
    async with client(port) as http:
        answer = await http.get("/apis", headers=HEADERS)
    assert len(cast("dict[str, list[object]]", answer.json())["items"]) == GROUPS
