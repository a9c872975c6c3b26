"""Unary calls over HTTP: GET and POST, their codecs, validators, limits and errors."""

import asyncio
import base64
import gzip
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
import zstandard
from apidiscovery.service.v1 import discovery_pb2
from apidiscovery_service.serving.connect.conversions import Conversions
from apidiscovery_service.serving.connect.methods import Method
from connect_server import (
    DISCOVERY,
    GET,
    TRAILERS,
    WATCH,
    Connected,
    connected,
    enveloped,
    envelopes,
)
from google.protobuf.json_format import Parse
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
    status_pb2,
)
from groups import contribution
from structlog.testing import capture_logs

JSON = {"content-type": "application/json"}
PROTO = {"content-type": "application/proto"}
WEB = {"content-type": "application/grpc-web+proto"}
MAX_BYTES = 8 * 1024 * 1024
FIRST = contribution("a", "example.com/v1")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncGenerator[Connected]:
    """Yield a server of one group-version, which no test changes."""
    async with connected(FIRST) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def catalogue() -> AsyncGenerator[Connected]:
    """Yield a server of the built-in catalogue, which no test changes."""
    async with connected() as started:
        yield started


def query(message: str = "{}", **more: str) -> str:
    """Return the path and query of a GetDiscovery by GET."""
    parameters = {"connect": "v1", "encoding": "json", "message": message, **more}
    return f"{GET}?" + "&".join(f"{name}={quote(text)}" for name, text in parameters.items())


async def whole(served: Connected) -> discovery_pb2.GetDiscoveryResponse:
    answer = await served.http.post(GET, content=b"", headers=PROTO)
    assert answer.headers["content-type"] == "application/proto"
    return discovery_pb2.GetDiscoveryResponse.FromString(answer.content)


def unzstd(data: bytes) -> bytes:
    return zstandard.ZstdDecompressor().decompressobj().decompress(data)


async def test_each_form_has_the_same_message(catalogue: Connected) -> None:
    expected = await whole(catalogue)
    assert len(expected.v2.groups.items) > 15
    by_get = await catalogue.http.get(query())
    by_post = await catalogue.http.post(GET, content=b"{}", headers=JSON)
    with_charset = {"content-type": "Application/JSON; charset=utf-8"}
    by_charset = await catalogue.http.post(GET, content=b"{}", headers=with_charset)
    for answer in (by_get, by_post, by_charset):
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert Parse(answer.content, discovery_pb2.GetDiscoveryResponse()) == expected
    web = await catalogue.http.post(GET, content=enveloped(), headers=WEB)
    assert web.headers["content-type"] == WEB["content-type"]
    (flags, message), (last, trailers) = envelopes(web.content)
    assert (flags, last, trailers) == (0, TRAILERS, b"grpc-status: 0\r\n")
    assert discovery_pb2.GetDiscoveryResponse.FromString(message) == expected


async def test_get_takes_base64_with_and_without_padding(catalogue: Connected) -> None:
    request = discovery_pb2.GetDiscoveryRequest(
        scope=discovery_pb2.DISCOVERY_SCOPE_CORE, if_none_match="?" * 4
    ).SerializeToString()
    for text in (
        base64.urlsafe_b64encode(request),
        base64.urlsafe_b64encode(request).rstrip(b"="),
    ):
        answer = await catalogue.http.get(query(text.decode(), encoding="proto", base64="1"))
        message = discovery_pb2.GetDiscoveryResponse.FromString(answer.content)
        assert message.v2.HasField("core")
        assert not message.v2.HasField("groups")
    packed = base64.urlsafe_b64encode(gzip.compress(request)).decode()
    zipped = query(packed, encoding="proto", base64="1", compression="gzip")
    assert (await catalogue.http.get(zipped)).content == answer.content


async def test_a_read_has_the_etag_of_its_message_and_is_answered_with_304() -> None:
    async with connected(FIRST) as served:
        first = await served.http.get(query())
        etag = first.headers["etag"]
        assert etag == f'"{first.json()["etag"]}"'
        for given in (etag, f"W/{etag}", f'"other", {etag}'):
            known = await served.http.get(query(), headers={"if-none-match": given})
            assert (known.status_code, known.content) == (304, b"")
            assert known.headers["etag"] == etag
        # POST has no conditions, and its answer no validator.
        posted = await served.http.post(GET, content=b"{}", headers={**JSON, "if-none-match": etag})
        assert posted.status_code == 200
        assert "etag" not in posted.headers
        served.registry.publish(contribution("b", "example.org/v1"))
        changed = await served.http.get(query(), headers={"if-none-match": etag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != etag


async def test_cached_answers_are_those_of_the_current_snapshot() -> None:
    async with connected(FIRST) as served:
        calls = "apidiscovery_grpc_requests_total"
        for _ in range(3):
            await served.http.get(query())
        assert served.sample(calls, method="GetDiscovery", code="OK") == 1
        served.registry.publish(contribution("b", "example.org/v1"))
        names = [group["name"] for group in (await served.http.get(query())).json()["groupHashes"]]
        assert names == ["example.com", "example.org"]
        assert served.sample(calls, method="GetDiscovery", code="OK") == 2
        # Sources can change while the document stays the same, so these answers are not cached.
        sourced = query('{"withProvenance":true}')
        assert "etag" not in (await served.http.get(sourced)).headers
        await served.http.get(sourced)
        assert served.sample(calls, method="GetDiscovery", code="OK") == 4
        served.ready = False
        assert (await served.http.get(sourced)).status_code == 503
        served.ready = True
        assert (await served.http.get(sourced)).status_code == 200


async def test_answers_are_compressed_as_the_client_accepts(catalogue: Connected) -> None:
    plain = (await catalogue.http.get(query(), headers={"accept-encoding": "identity"})).content
    unpacked = {"gzip": gzip.decompress, "zstd": unzstd}
    for coding, unpack in unpacked.items():
        request = catalogue.http.build_request("GET", query(), headers={"accept-encoding": coding})
        answer = await catalogue.http.send(request, stream=True)
        raw = b"".join([piece async for piece in answer.aiter_raw()])
        await answer.aclose()
        assert answer.headers["content-encoding"] == coding
        assert answer.headers["vary"] == "Accept-Encoding"
        assert len(raw) < len(plain)
        assert unpack(raw) == plain
    headers = {**WEB, "grpc-accept-encoding": "gzip"}
    web = await catalogue.http.post(GET, content=enveloped(), headers=headers)
    assert web.headers["grpc-encoding"] == "gzip"
    flags, message = envelopes(web.content)[0]
    assert flags == 1
    assert gzip.decompress(message) == (await whole(catalogue)).SerializeToString()


async def test_compressed_requests_are_read_to_their_limit(catalogue: Connected) -> None:
    zipped = {**JSON, "content-encoding": "gzip"}
    answer = await catalogue.http.post(GET, content=gzip.compress(b"{}"), headers=zipped)
    assert answer.status_code == 200
    bomb = gzip.compress(b" " * (MAX_BYTES + 1))
    answer = await catalogue.http.post(GET, content=bomb, headers=zipped)
    assert (answer.status_code, answer.json()["code"]) == (429, "resource_exhausted")
    for body in (b"no gzip", gzip.compress(b"{}")[:-3], gzip.compress(b"{}") + b"more"):
        answer = await catalogue.http.post(GET, content=body, headers=zipped)
        assert answer.json()["code"] == "invalid_argument"
    other = {**JSON, "content-encoding": "br"}
    answer = await catalogue.http.post(GET, content=b"{}", headers=other)
    assert (answer.status_code, answer.json()["code"]) == (501, "unimplemented")


async def test_large_requests_are_refused(catalogue: Connected) -> None:
    answer = await catalogue.http.post(GET, content=b" " * (MAX_BYTES + 1), headers=JSON)
    assert answer.json() == {
        "code": "resource_exhausted",
        "message": f"the message is larger than {MAX_BYTES} bytes",
    }


BAD: list[tuple[bytes, dict[str, str], str]] = [
    (b"{", JSON, "not valid JSON of apidiscovery.service.v1.GetDiscoveryRequest"),
    (b"\xff", JSON, "not valid JSON"),
    (b"[]", JSON, "message: want an object"),
    (b'"x"', JSON, "message: want an object"),
    (b'{"knownGroups":[1]}', JSON, "knownGroups: want an object"),
    (b'{"scope":"GROUPS"}', JSON, "scope: 'GROUPS' is not a DiscoveryScope; want one of DISCOV"),
    (b'{"acceptVersions":["X"]}', JSON, "acceptVersions: 'X' is not a DiscoveryVersion"),
    (b'{"scope":' + b"[" * 5000, JSON, "not valid JSON"),
    (b"\xff\xff", PROTO, "not a valid apidiscovery.service.v1.GetDiscoveryRequest"),
    (b"{}", {**JSON, "connect-protocol-version": "2"}, "want 1, got '2'"),
    (b"{}", {**JSON, "connect-timeout-ms": "1s"}, "want up to 10 digits, got '1s'"),
    (b"{}", {**JSON, "connect-timeout-ms": "12345678901"}, "want up to 10 digits"),
]


async def test_malformed_requests_are_refused_with_the_reason(served: Connected) -> None:
    for body, headers, message in BAD:
        answer = await served.http.post(GET, content=body, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
        assert message in answer.json()["message"]
    for path, message in (
        (f"{GET}?encoding=json", "the query has no message"),
        (f"{GET}?connect=v2&encoding=json&message=%7B%7D", "connect: want v1, got 'v2'"),
        (f"{GET}?encoding=proto&base64=1&message=%21", "want base64 of the URL alphabet"),
    ):
        answer = await served.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid_argument")
        assert message in answer.json()["message"]


async def test_malformed_envelopes_are_refused_with_the_reason(served: Connected) -> None:
    two = enveloped(b"") + enveloped(b"")
    for body in (b"", b"\x00\x00", two, enveloped(b"", 4), enveloped(b"ab")[:-1]):
        answer = await served.http.post(GET, content=body, headers=WEB)
        assert answer.status_code == 200
        ((flags, trailers),) = envelopes(answer.content)
        assert flags == TRAILERS
        assert trailers.startswith(b"grpc-status: 3\r\ngrpc-message: want one message")


async def test_errors_of_a_method_have_their_details(served: Connected) -> None:
    answer = await served.http.post(GET, content=b'{"scope":99}', headers=JSON)
    assert answer.status_code == 400
    error: dict[str, Any] = answer.json()
    assert error["code"] == "invalid_argument"
    (detail,) = error["details"]
    assert detail["type"] == "google.rpc.BadRequest"
    value = base64.b64decode(detail["value"] + "==")
    (violation,) = error_details_pb2.BadRequest.FromString(value).field_violations
    assert violation.field == "scope"
    assert detail["debug"]["fieldViolations"][0]["field"] == "scope"

    request = discovery_pb2.GetDiscoveryRequest(scope=99).SerializeToString()  # type: ignore[arg-type] # pyright: ignore[reportArgumentType] - not in the enum
    web = await served.http.post(GET, content=enveloped(request), headers=WEB)
    lines = envelopes(web.content)[0][1].decode().splitlines()
    named = dict(line.split(": ", 1) for line in lines)
    assert named["grpc-status"] == "3"
    binary = base64.b64decode(named["grpc-status-details-bin"] + "==")
    assert status_pb2.Status.FromString(binary).message == error["message"]


async def test_the_message_of_grpc_web_is_percent_encoded(served: Connected) -> None:
    headers = {**WEB, "grpc-timeout": "5Ä"}
    raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
    answer = await served.http.post(GET, content=enveloped(), headers=raw)
    assert b"got '5%C3%84'\r\n" in envelopes(answer.content)[0][1]


async def test_other_methods_and_media_types_are_refused_with_the_accepted_ones(
    served: Connected,
) -> None:
    answer = await served.http.put(GET)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    answer = await served.http.get(f"{WATCH}?encoding=json&message={{}}")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    for path, media_type in (
        (GET, "text/plain"),
        (GET, "application/connect+json"),
        (GET, "application/grpc"),
        (WATCH, "application/json"),
    ):
        answer = await served.http.post(path, headers={"content-type": media_type})
        assert answer.status_code == 415
        assert "application/grpc-web" in answer.headers["accept-post"]
    answer = await served.http.get(f"{GET}?encoding=xml&message={{}}")
    assert answer.status_code == 415
    assert answer.text.startswith("GET needs encoding=json or encoding=proto")
    native = {"content-type": "application/grpc"}
    answer = await served.http.post(GET, headers=native)
    assert "native gRPC is on the other port (--grpc)" in answer.text


async def test_a_method_that_does_not_exist_is_unimplemented_and_others_are_named(
    served: Connected,
) -> None:
    path = f"{DISCOVERY}/GetDiscover"
    message = (
        "DiscoveryService has no GetDiscover; it has GetDiscovery, WatchDiscovery, ListSources"
    )
    by_get = await served.http.get(f"{path}?encoding=json&message={{}}")
    for answer in (by_get, await served.http.post(path, content=b"{}", headers=JSON)):
        assert answer.status_code == 404
        assert answer.json()["code"] == "unimplemented"
        assert set(answer.json()["message"].replace(",", "").split()) == set(
            message.replace(",", "").split()
        )
    web = await served.http.post(path, content=enveloped(), headers=WEB)
    assert web.status_code == 200
    assert envelopes(web.content)[0][1].startswith(b"grpc-status: 12\r\n")
    other = await served.http.post("/apidiscovery.service.v1.Discovery/Get", headers=JSON)
    assert other.status_code == 404
    assert "there is no service apidiscovery.service.v1.Discovery;" in other.json()["message"]


async def test_a_call_ends_at_its_deadline(
    served: Connected, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(*_args: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("apidiscovery_service.serving.connect.methods.Method.decoded", never)
    headers = {**JSON, "connect-timeout-ms": "20"}
    answer = await served.http.post(GET, content=b"{}", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (504, "deadline_exceeded")
    web = await served.http.post(GET, content=enveloped(), headers={**WEB, "grpc-timeout": "20m"})
    assert envelopes(web.content)[0][1].startswith(b"grpc-status: 4\r\n")


async def test_an_unexpected_exception_is_logged_and_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_args: object) -> bytes:
        raise ValueError("secret")

    async with connected(FIRST) as served:
        monkeypatch.setattr("apidiscovery_service.serving.connect.methods.Method.json", fails)
        with capture_logs() as logs:
            answer = await served.http.get(query())
        assert (answer.status_code, answer.json()["code"]) == (500, "internal")
        assert "secret" not in answer.text
        assert [(line["event"], line["method"]) for line in logs] == [("call failed", GET)]


async def test_head_is_get_without_a_body(served: Connected) -> None:
    whole_answer = await served.http.get(query())
    head = await served.http.head(query())
    assert head.headers["etag"] == whole_answer.headers["etag"]
    assert head.content == b""


async def test_unknown_fields_of_newer_clients_are_ignored(served: Connected) -> None:
    newer = json.dumps({"invented": 1}).encode()
    assert (await served.http.post(GET, content=newer, headers=JSON)).status_code == 200


async def test_a_document_is_converted_once_for_concurrent_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    converted: list[bytes] = []
    convert = Method.json

    def counted(method: Method, data: bytes) -> bytes:
        converted.append(data)
        return convert(method, data)

    monkeypatch.setattr(Method, "json", counted)
    many = [f"g{number}.example.com/v1" for number in range(400)]
    async with connected(contribution("a", *many)) as served:
        paths = [query(f'{{"ifNoneMatch":"{number}"}}') for number in range(20)]
        answers = await asyncio.gather(*(served.http.get(path) for path in paths))
        assert {answer.status_code for answer in answers} == {200}
        assert len({answer.content for answer in answers}) == 1
        assert len(converted) == 1
        served.registry.publish(contribution("b", "example.org/v1"))
        assert len((await served.http.get(paths[0])).json()["groupHashes"]) == 401
        assert len(converted) == 2


async def test_a_conversion_that_failed_is_made_again() -> None:
    conversions, message, failing = Conversions(), b"m" * 40_000, [True, False]

    def convert(data: bytes) -> bytes:
        if failing.pop(0):
            raise ValueError("once")
        return data[:1]

    with pytest.raises(ValueError, match="once"):
        await conversions.run(convert, message)
    assert await conversions.run(convert, message) == b"m"
    assert await conversions.run(convert, message) == b"m"
