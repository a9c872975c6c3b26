"""Streams over HTTP: their messages and their ends."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx2
import pytest
from apidiscovery.service.v1 import discovery_pb2, openapi_pb2
from connect_server import (
    DOCUMENT,
    END,
    TRAILERS,
    WATCH,
    Connected,
    arriving,
    connected,
    enveloped,
    envelopes,
)
from groups import contribution
from openapi_recipes import APPS_DOCUMENT, APPS_KEY
from waiting import WITHIN_S, until

JSON = {"content-type": "application/connect+json"}
PROTO = {"content-type": "application/connect+proto"}
WEB = {"content-type": "application/grpc-web"}
FIRST = contribution("a", "example.com/v1")


@asynccontextmanager
async def stream(
    served: Connected, headers: dict[str, str], message: bytes = b""
) -> AsyncGenerator[httpx2.Response]:
    """Open a watch."""
    async with (
        asyncio.timeout(WITHIN_S),
        served.http.stream("POST", WATCH, content=enveloped(message), headers=headers) as answer,
    ):
        yield answer


def changed(message: bytes) -> list[str]:
    """Return the names of the groups in a message of JSON."""
    delta = json.loads(message)["changes"]["delta"]
    return [group["name"] for group in delta.get("changed", [])]


async def test_a_watch_brings_the_state_and_then_changes() -> None:
    async with connected(FIRST) as served, stream(served, JSON, b"{}") as answer:
        assert answer.headers["content-type"] == JSON["content-type"]
        messages = arriving(answer)
        flags, message = await anext(messages)
        assert (flags, changed(message)) == (0, ["example.com"])
        served.registry.publish(contribution("b", "example.org/v1"))
        flags, message = await anext(messages)
        assert (flags, changed(message)) == (0, ["example.org"])


@pytest.mark.parametrize("headers", [PROTO, WEB])
async def test_a_watch_is_ended_with_the_server(headers: dict[str, str]) -> None:
    async with connected(FIRST) as served, stream(served, headers) as answer:
        messages = arriving(answer)
        _, message = await anext(messages)
        response = discovery_pb2.WatchDiscoveryResponse.FromString(message)
        assert response.changes.delta.changed[0].name == "example.com"
        await served.service.streams.end()
        flags, end = await anext(messages)
        if headers is WEB:
            assert flags == TRAILERS
            assert end == b"grpc-status: 14\r\ngrpc-message: the server is stopping\r\n"
        else:
            assert flags == END
            error = {"code": "unavailable", "message": "the server is stopping"}
            assert json.loads(end) == {"error": error}
        assert [each async for each in messages] == []


async def test_a_watch_ends_when_its_client_goes() -> None:
    async with connected(FIRST) as served:
        async with stream(served, JSON, b"{}") as answer:
            await anext(arriving(answer))
            await until(lambda: served.watchers == 1)
        await until(lambda: served.watchers == 0)
        assert served.unread.total == 0


async def test_a_watch_ends_at_its_deadline() -> None:
    async with (
        connected(FIRST) as served,
        stream(served, {**JSON, "connect-timeout-ms": "300"}, b"{}") as answer,
    ):
        got = [each async for each in arriving(answer)]
        flags, end = got[-1]  # a busy machine may have had no time for a message before it
        assert flags == END
        assert json.loads(end)["error"]["code"] == "deadline_exceeded"
        await until(lambda: served.watchers == 0)


async def test_a_finished_stream_has_an_end_message() -> None:
    request = openapi_pb2.GetDocumentRequest(key=APPS_KEY).SerializeToString()
    async with connected(FIRST) as served:
        answer = await served.http.post(DOCUMENT, content=enveloped(request), headers=PROTO)
        *messages, end = envelopes(answer.content)
        assert end == (END, b"{}")
        parts = [openapi_pb2.GetDocumentResponse.FromString(message) for _, message in messages]
        assert b"".join(part.chunk for part in parts) == APPS_DOCUMENT
        web = await served.http.post(DOCUMENT, content=enveloped(request), headers=WEB)
        assert envelopes(web.content)[:-1] == messages
        assert envelopes(web.content)[-1] == (TRAILERS, b"grpc-status: 0\r\n")


async def test_errors_come_as_the_end_of_the_stream() -> None:
    async with connected(FIRST) as served:
        for message, code in (
            (b'{"heartbeatInterval":"0.1s"}', "invalid_argument"),
            (b"{", "invalid_argument"),
        ):
            answer = await served.http.post(WATCH, content=enveloped(message), headers=JSON)
            assert answer.status_code == 200
            ((flags, end),) = envelopes(answer.content)
            assert flags == END
            assert json.loads(end)["error"]["code"] == code
        served.ready = False
        answer = await served.http.post(WATCH, content=enveloped(b"{}"), headers=JSON)
        assert json.loads(envelopes(answer.content)[0][1])["error"]["code"] == "unavailable"


async def test_large_messages_are_compressed_if_the_client_accepts_it() -> None:
    many = [f"g{number}.example.com/v1" for number in range(60)]
    async with (
        connected(contribution("a", *many)) as served,
        stream(served, {**PROTO, "connect-accept-encoding": "gzip"}) as answer,
    ):
        assert answer.headers["connect-content-encoding"] == "gzip"
        flags, message = await anext(arriving(answer))
        assert flags == 1
        assert message.startswith(b"\x1f\x8b")


async def test_streams_are_counted_when_they_begin() -> None:
    async with connected(FIRST) as served, stream(served, JSON, b"{}") as answer:
        await anext(arriving(answer))
        text = served.metrics.text().decode()
        assert f'endpoint="{WATCH}"' in text


async def test_unread_bytes_of_a_client_are_counted() -> None:
    document = b'{"openapi":"3.0.0","x-filler":"' + b"f" * 12_000_000 + b'"}'
    request = enveloped(openapi_pb2.GetDocumentRequest(key=APPS_KEY).SerializeToString())
    head = (
        f"POST {DOCUMENT} HTTP/1.1\r\nhost: a\r\ncontent-type: application/connect+proto\r\n"
        f"content-length: {len(request)}\r\n\r\n"
    )
    async with connected(FIRST, document=document) as served, asyncio.timeout(WITHIN_S):
        loop = asyncio.get_running_loop()
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)  # noqa: FBT003 - its only parameter
            await loop.sock_connect(client, ("127.0.0.1", served.port))
            await loop.sock_sendall(client, head.encode() + request)
            # Messages are made and read one after another: one that stays is not read.
            stays = 0
            while stays < 20:
                stays = stays + 1 if served.unread.total else 0
                await asyncio.sleep(0.01)
        while served.unread.total:  # noqa: ASYNC110 - what is counted is what is tested
            await asyncio.sleep(0.01)
