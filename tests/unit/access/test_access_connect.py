"""Authentication, authorization and limits of calls over HTTP."""

import asyncio
import json
import math
from pathlib import Path

import pytest
from apidiscovery_service.access.limits import CallerLimits
from connect_server import DISCOVERY, END, GET, TRAILERS, WATCH, arriving, enveloped, envelopes
from secured import bearer, secured
from waiting import WITHIN_S

JSON = {"content-type": "application/json"}
STREAM = {"content-type": "application/connect+json"}
WEB = {"content-type": "application/grpc-web"}
READ = f"{GET}?connect=v1&encoding=json&message=%7B%7D"
HEARTBEAT = "/apidiscovery.service.v1.StorageVersionService/Heartbeat"


async def test_callers_are_identified(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        async with server.client("rita") as http:
            assert (await http.get(READ)).status_code == 200
        # The answer is cached by now, and still only for those who may read.
        for user, status, code in (
            ("", 401, "unauthenticated"),
            ("nemo", 403, "permission_denied"),
            ("ada", 200, None),
        ):
            async with server.client(user) as http:
                answer = await http.get(READ)
                assert (answer.status_code, answer.json().get("code")) == (status, code)
        async with server.client() as http:
            wrong = await http.get(READ, headers={"authorization": "Bearer wrong"})
            assert (wrong.status_code, wrong.json()["code"]) == (401, "unauthenticated")


async def test_refusals_are_written_in_the_protocol_of_the_call(tmp_path: Path) -> None:
    async with secured(tmp_path) as server, server.client("nemo") as http:
        answer = await http.post(WATCH, content=enveloped(b"{}"), headers=STREAM)
        ((flags, end),) = envelopes(answer.content)
        assert (answer.status_code, flags) == (200, END)
        assert json.loads(end)["error"]["code"] == "permission_denied"
        answer = await http.post(GET, content=enveloped(), headers=WEB)
        ((flags, end),) = envelopes(answer.content)
        assert flags == TRAILERS
        assert end.startswith(b"grpc-status: 7\r\n")


async def test_the_role_of_a_method_is_checked_before_its_message_is_read(tmp_path: Path) -> None:
    async with secured(tmp_path) as server:
        for user, content, code in (
            ("rita", b"{}", "permission_denied"),
            ("rita", b"{" * 10, "permission_denied"),
            ("paul", b"{}", "unimplemented"),
        ):
            async with server.client(user) as http:
                answer = await http.post(HEARTBEAT, content=content, headers=JSON)
                assert answer.json()["code"] == code


async def test_a_call_counts_once_as_a_request(tmp_path: Path) -> None:
    limits = CallerLimits(requests_per_second=0.001, burst_s=4000)
    async with secured(tmp_path, limits=limits) as server, server.client("rita") as http:
        # Not kept, so that each reaches the handler.
        sourced = f"{DISCOVERY}/ListSources"
        codes = [
            (await http.post(sourced, content=b"{}", headers=JSON)).status_code for _ in range(5)
        ]
        assert codes == [200, 200, 200, 200, 429]
        refused = await http.post(sourced, content=b"{}", headers=JSON)
        assert refused.json()["code"] == "resource_exhausted"
        retry_s = int(refused.headers["retry-after"])
        (detail,) = refused.json()["details"]
        assert detail["debug"] == {"retryDelay": f"{retry_s}s"}
        assert 0 < retry_s < math.inf


@pytest.mark.parametrize("http2", [False, True])
async def test_a_stream_ends_when_its_token_is_revoked(tmp_path: Path, *, http2: bool) -> None:
    async with (
        secured(tmp_path) as server,
        server.client("rita", http2=http2) as http,
        asyncio.timeout(WITHIN_S),
        http.stream("POST", WATCH, content=enveloped(b"{}"), headers=STREAM) as answer,
    ):
        messages = arriving(answer)
        assert (await anext(messages))[0] == 0
        server.write_tokens(("paul", "ada"))
        flags, end = await anext(messages)
        assert flags == END
        assert json.loads(end)["error"]["code"] == "unauthenticated"


async def test_the_streams_of_a_caller_are_limited(tmp_path: Path) -> None:
    limits = CallerLimits(watches=1)
    async with (
        secured(tmp_path, limits=limits) as server,
        server.client("rita") as http,
        asyncio.timeout(WITHIN_S),
        http.stream("POST", WATCH, content=enveloped(b"{}"), headers=STREAM) as answer,
    ):
        messages = arriving(answer)
        assert (await anext(messages))[0] == 0
        second = await http.post(
            WATCH, content=enveloped(b"{}"), headers={**STREAM, **bearer("rita")}
        )
        ((_, end),) = envelopes(second.content)
        assert json.loads(end)["error"]["code"] == "resource_exhausted"
