"""Authentication, authorization and limits of gRPC calls over TLS."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
import structlog
from apidiscovery.service.v1 import (
    discovery_pb2,
    discovery_pb2_grpc,
    openapi_pb2,
    registry_pb2,
)
from apidiscovery_service.access.credentials import Tokens
from apidiscovery_service.access.limits import CallerLimits
from apidiscovery_service.serving.grpc import AdmissionInterceptor
from apidiscovery_service.serving.grpc.discovery import SERVICE
from google.rpc import error_details_pb2  # pyright: ignore[reportMissingTypeStubs]
from grpc_errors import details_of, refusal
from grpc_reflection.v1alpha import reflection, reflection_pb2
from openapi_recipes import APPS_KEY
from secured import TOKENS, Metadata, Secured, call_metadata, secured
from waiting import WITHIN_S, until

OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
NOBODY = grpc.StatusCode.UNAUTHENTICATED

CALLERS = ("", "stranger", "nemo", "rita", "paul", "ada")
PUBLIC = (OK, NOBODY, OK, OK, OK, OK)
READERS = (NOBODY, NOBODY, DENIED, OK, OK, OK)
PUBLISHERS = (NOBODY, NOBODY, DENIED, DENIED, OK, OK)
ADMINS = (NOBODY, NOBODY, DENIED, DENIED, DENIED, OK)

REGISTRY = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"].full_name

Call = Callable[[grpc.aio.Channel, Metadata], Awaitable[object]]


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Secured]:
    async with secured(tmp_path) as running:
        yield running


def call_of(path: str, request: bytes = b"") -> Call:
    """Return a call of a method with one message each way."""

    async def call(channel: grpc.aio.Channel, metadata: Metadata) -> object:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
        return await method(request, metadata=metadata, timeout=WITHIN_S)

    return call


def stream_of(path: str, request: bytes = b"") -> Call:
    """Return a call of a method that streams, which is left after its first message.

    One request looks the same on the wire as a stream of one. grpc.aio sends it with the call; a
    request of a stream it sends later, and reports INTERNAL when the call is refused before that.
    """

    async def call(channel: grpc.aio.Channel, metadata: Metadata) -> object:
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = channel.unary_stream(path)
        call = method(request, metadata=metadata, timeout=WITHIN_S)
        message = await call.read()
        if message is grpc.aio.EOF:
            raise AssertionError(await call.code())
        call.cancel()
        return message

    return call


def watching(channel: grpc.aio.Channel, metadata: Metadata) -> Any:  # noqa: ANN401 - a call
    stub = discovery_pb2_grpc.DiscoveryServiceStub(channel)
    return stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest(), metadata=metadata)


OURS = "/apidiscovery.service.v1"
DOCUMENT = openapi_pb2.GetDocumentRequest(key=APPS_KEY).SerializeToString()
SERVICES = reflection_pb2.ServerReflectionRequest(list_services="").SerializeToString()

get = call_of(f"{OURS}.DiscoveryService/GetDiscovery")
watch = stream_of(f"{OURS}.DiscoveryService/WatchDiscovery")
health = call_of("/grpc.health.v1.Health/Check")
health_watch = stream_of("/grpc.health.v1.Health/Watch")

METHODS: dict[str, tuple[Call, tuple[grpc.StatusCode, ...]]] = {
    "GetDiscovery": (get, READERS),
    "ListSources": (call_of(f"{OURS}.DiscoveryService/ListSources"), READERS),
    "WatchDiscovery": (watch, READERS),
    "GetIndex": (call_of(f"{OURS}.OpenAPIService/GetIndex"), READERS),
    "GetDocument": (stream_of(f"{OURS}.OpenAPIService/GetDocument", DOCUMENT), READERS),
    "GetBundle": (stream_of(f"{OURS}.OpenAPIService/GetBundle"), READERS),
    "ListClusters": (call_of(f"{OURS}.FleetService/ListClusters"), READERS),
    "GetMatrix": (call_of(f"{OURS}.FleetService/GetMatrix"), READERS),
    "WatchFleet": (stream_of(f"{OURS}.FleetService/WatchFleet"), READERS),
    "Check": (health, PUBLIC),
    "Watch": (health_watch, PUBLIC),
    "ServerReflectionInfo": (
        stream_of(f"/{reflection.SERVICE_NAME}/ServerReflectionInfo", SERVICES),
        READERS,
    ),
}


async def outcome(call: Call, channel: grpc.aio.Channel, metadata: Metadata) -> grpc.StatusCode:
    try:
        await call(channel, metadata)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return OK


async def test_each_method_is_for_callers_with_its_role(served: Secured) -> None:
    async with served.channel() as channel:
        found = {
            method: tuple([await outcome(call, channel, call_metadata(user)) for user in CALLERS])
            for method, (call, _) in METHODS.items()
        }
    assert found == {method: codes for method, (_, codes) in METHODS.items()}


async def test_a_certificate_identifies_the_caller(served: Secured) -> None:
    expected: list[tuple[str, list[str], grpc.StatusCode]]
    expected = [("someone", ["readers"], OK), ("someone", ["writers"], DENIED), ("ada", [], OK)]
    for user, groups, code in expected:
        async with served.channel(served.authority.client(user, groups)) as channel:
            assert await outcome(get, channel, ()) is code
            assert await outcome(get, channel, call_metadata("stranger")) is code


async def test_the_server_answers_only_the_front(served: Secured) -> None:
    """Not even this user, who alone can reach its socket."""
    async with grpc.aio.insecure_channel(f"unix:{served.grpc_front.server_path}") as channel:
        for call, _ in METHODS.values():
            if call is not health_watch:  # it is read, not awaited
                assert await outcome(call, channel, call_metadata("ada")) is NOBODY


async def ended(call: Any) -> tuple[grpc.StatusCode, str]:  # noqa: ANN401 - a call
    """Return the status of a stream that ends."""
    async with asyncio.timeout(WITHIN_S):
        code, details = await call.code(), await call.details()
    return code, details


async def test_a_watch_ends_with_its_token(served: Secured) -> None:
    """It ends within about a second, and the watches of other tokens go on."""
    async with served.channel() as channel:
        rita, ada = (watching(channel, call_metadata(user)) for user in ("rita", "ada"))
        await rita.read()
        await ada.read()
        served.write_tokens(["ada"])
        assert await ended(rita) == (NOBODY, "the bearer token is not known")
        assert not ada.done()
        await until(lambda: served.watchers == 1)
        ada.cancel()


async def test_a_watch_ends_with_its_role(served: Secured) -> None:
    async with served.channel() as channel:
        call = watching(channel, call_metadata("rita"))
        await call.read()
        served.token_file.write_text(f"{TOKENS['rita']},rita,0\n")
        assert await ended(call) == (DENIED, "user 'rita' has not the role 'reader'")


async def test_a_watch_whose_caller_does_not_read_ends_too(served: Secured) -> None:
    """Flow control holds back messages, but not the end of the stream."""
    async with served.channel() as channel:
        calls = [watching(channel, call_metadata("rita")) for _ in range(3)]
        for call in calls:
            await call.initial_metadata()
        await until(lambda: served.watchers == 3)
        served.access.use_tokens(Tokens())
        await until(lambda: not served.watchers, within_s=10)
        for call in calls:
            call.cancel()


async def test_the_watches_of_a_caller_are_limited(tmp_path: Path) -> None:
    async with (
        secured(tmp_path, limits=CallerLimits(watches=2)) as served,
        served.channel() as channel,
    ):
        calls = [watching(channel, call_metadata("rita")) for _ in range(2)]
        for call in calls:
            await call.read()
        refused = watching(channel, call_metadata("rita"))
        assert await refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        other = watching(channel, call_metadata("ada"))
        assert await other.read() is not grpc.aio.EOF
        calls[0].cancel()

        async def is_admitted() -> bool:
            return await outcome(watch, channel, call_metadata("rita")) is OK

        await until(is_admitted, "the ended watch makes room")


async def test_a_call_over_the_limit_is_told_when_to_retry(tmp_path: Path) -> None:
    limits = CallerLimits(requests_per_second=0.05, burst_s=40.0)
    async with secured(tmp_path, limits=limits) as served, served.channel() as channel:
        for _ in range(2):
            await get(channel, call_metadata("rita"))
        error = await refusal(get(channel, call_metadata("rita")))
        assert await outcome(get, channel, call_metadata("ada")) is OK
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    (info,) = details_of(error)
    assert isinstance(info, error_details_pb2.RetryInfo)
    assert 1.0 < info.retry_delay.ToTimedelta().total_seconds() <= 20.0


async def answer(_request: bytes, _context: object) -> bytes:
    return b""


async def test_publishing_is_for_publishers_and_unknown_services_are_for_admins(
    served: Secured,
) -> None:
    registry = registry_pb2.DESCRIPTOR.services_by_name["RegistryService"]
    expected: dict[str, tuple[grpc.StatusCode, ...]]
    expected = {f"/{REGISTRY}/{method.name}": PUBLISHERS for method in registry.methods}
    expected[f"/{REGISTRY}/ListRegistrations"] = READERS
    expected["/example.New/Method"] = ADMINS
    server = grpc.aio.server(interceptors=[AdmissionInterceptor(served.access, served.metrics)])
    for path in expected:
        service, method = path[1:].split("/")
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]]
        handlers = {method: grpc.unary_unary_rpc_method_handler(answer)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    served.grpc_front.server_path.unlink()  # in place of the server that is there
    server.add_insecure_port(f"unix:{served.grpc_front.server_path}")
    await server.start()
    try:
        async with served.channel() as channel:
            for path, codes in expected.items():
                call = call_of(path)
                found = [await outcome(call, channel, call_metadata(user)) for user in CALLERS]
                assert (path, tuple(found)) == (path, codes)
    finally:
        await server.stop(0)


async def test_a_call_is_refused_before_its_message_is_read(served: Secured) -> None:

    async def nothing() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async with served.channel() as channel:
        for method in ("GetDiscovery", "WatchDiscovery"):
            begin: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
            begin = channel.stream_stream(f"/{SERVICE.full_name}/{method}")
            for user, code in (("", NOBODY), ("nemo", DENIED)):
                call = begin(nothing(), metadata=call_metadata(user), timeout=WITHIN_S)
                assert await call.code() is code


@pytest.mark.parametrize("messages", [[], [b"\x0a\xff"]], ids=["none", "junk"])
async def test_a_call_without_a_valid_message_is_an_invalid_argument(
    served: Secured, messages: list[bytes]
) -> None:
    async with served.channel() as channel:
        for method in ("GetDiscovery", "WatchDiscovery"):
            begin: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
            begin = channel.stream_stream(f"/{SERVICE.full_name}/{method}")
            call = begin(iter(messages), metadata=call_metadata("rita"), timeout=WITHIN_S)
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_no_error_log_or_metric_shows_a_secret(served: Secured) -> None:
    shown: list[object] = []
    with structlog.testing.capture_logs() as logs:
        async with served.channel() as channel:
            for call, _ in METHODS.values():
                for user in CALLERS:
                    try:
                        await call(channel, call_metadata(user))
                    except grpc.aio.AioRpcError as error:
                        shown += [error.details(), error.trailing_metadata()]
    text = f"{shown}{logs}{served.metrics.text()!r}"
    assert [secret for secret in (*TOKENS.values(), "unheard-of") if secret in text] == []
