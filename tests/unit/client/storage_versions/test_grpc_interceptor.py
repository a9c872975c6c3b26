"""The interceptors around real servers, synchronous and not, for every kind of call."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio
import pytest
from apidiscovery_client.storage_versions import (
    AsyncWriteGateInterceptor,
    GroupResource,
    GuardedMethods,
    RequestAttributes,
    WriteGate,
    WriteGateInterceptor,
    follow_health,
)
from google.rpc import error_details_pb2, status_pb2  # pyright: ignore[reportMissingTypeStubs]
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from waiting import WITHIN_S

SERVICE = "example.v1.Widgets"
CREATE = RequestAttributes("create", "example.dev", "widgets")
LIST = RequestAttributes("list", "example.dev", "widgets")
METHODS = {
    f"/{SERVICE}/Create": CREATE,
    f"/{SERVICE}/CreateMany": CREATE,
    f"/{SERVICE}/Follow": CREATE,
    f"/{SERVICE}/Exchange": CREATE,
    f"/{SERVICE}/List": LIST,
    f"/{SERVICE}/CreateGadget": RequestAttributes("create", "example.dev", "gadgets"),
}
MESSAGE = (
    "wait for storage version registration to complete for resource: widgets.example.dev,"
    " last seen error: <nil>"
)
PENDING = frozenset({GroupResource("example.dev", "widgets")})
CLOSED = WriteGate(confirmed=False, pending=PENDING)
OPEN = WriteGate(confirmed=True)


class AsyncWidgets:
    """Handlers of grpc.aio; each answers with what it was sent."""

    async def one(self, request: bytes, _context: object) -> bytes:
        return request

    async def join(self, requests: AsyncIterator[bytes], _context: object) -> bytes:
        return b"".join([request async for request in requests])

    async def split(self, request: bytes, _context: object) -> AsyncIterator[bytes]:
        yield request

    async def exchange(
        self, requests: AsyncIterator[bytes], _context: object
    ) -> AsyncIterator[bytes]:
        async for request in requests:
            yield request


class Widgets:
    """The same for grpc.Server."""

    def one(self, request: bytes, _context: object) -> bytes:
        return request

    def join(self, requests: Iterator[bytes], _context: object) -> bytes:
        return b"".join(requests)

    def split(self, request: bytes, _context: object) -> Iterator[bytes]:
        yield request

    def exchange(self, requests: Iterator[bytes], _context: object) -> Iterator[bytes]:
        yield from requests


def handlers(widgets: AsyncWidgets | Widgets) -> grpc.GenericRpcHandler:
    served: Any = widgets  # grpc's stubs know handlers of the synchronous kind alone
    unary = ("Create", "List", "CreateGadget", "Unlisted")
    made: dict[str, Any] = {
        **{name: grpc.unary_unary_rpc_method_handler(served.one) for name in unary},
        "CreateMany": grpc.stream_unary_rpc_method_handler(served.join),
        "Follow": grpc.unary_stream_rpc_method_handler(served.split),
        "Exchange": grpc.stream_stream_rpc_method_handler(served.exchange),
    }
    return grpc.method_handlers_generic_handler(SERVICE, made)


Call = Callable[[str], bytes]


@contextlib.contextmanager
def calls(port: int) -> Generator[Call]:
    """Yield what calls a method, with the client of another thread than the server's loop."""
    options = [("grpc.enable_http_proxy", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{port}", options) as opened:
        channel: Any = opened  # what is sent and received stays bytes

        def call(method: str) -> bytes:
            path = f"/{SERVICE}/{method}"
            if method == "CreateMany":
                return bytes(channel.stream_unary(path)(iter([b"a", b"b"]), timeout=WITHIN_S))
            if method == "Follow":
                return b"".join(channel.unary_stream(path)(b"a", timeout=WITHIN_S))
            if method == "Exchange":
                stream = channel.stream_stream(path)(iter([b"a", b"b"]), timeout=WITHIN_S)
                return b"".join(stream)
            return bytes(channel.unary_unary(path)(b"a", timeout=WITHIN_S))

        yield call


@contextlib.contextmanager
def sync_server(methods: GuardedMethods) -> Generator[int]:
    pool = ThreadPoolExecutor(2)
    server = grpc.server(pool, interceptors=[WriteGateInterceptor(methods)])
    server.add_generic_rpc_handlers([handlers(Widgets())])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(0).wait(WITHIN_S)
        pool.shutdown()


@contextlib.asynccontextmanager
async def async_server(methods: GuardedMethods) -> AsyncGenerator[int]:
    server = grpc.aio.server(interceptors=[AsyncWriteGateInterceptor(methods)])
    server.add_generic_rpc_handlers([handlers(AsyncWidgets())])
    servicer = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield port
    finally:
        await server.stop(0)


async def outcome(port: int, method: str) -> bytes | grpc.RpcError:
    """Return the answer, or the error.

    The client is not one of asyncio: that takes a message which comes too late, since the server
    has refused already, for an internal error now and then (grpc/aio/_call.py `_write`).
    """
    with calls(port) as call:
        try:
            return await asyncio.to_thread(call, method)
        except grpc.RpcError as error:
            return error


def retry_delay_s(error: grpc.RpcError) -> int:
    trailer: Any = error.trailing_metadata()
    entries: dict[str, bytes] = dict(trailer)
    status = status_pb2.Status.FromString(entries["grpc-status-details-bin"])
    assert status.code == grpc.StatusCode.UNAVAILABLE.value[0]
    assert status.message == error.details()
    retry = error_details_pb2.RetryInfo()
    assert status.details[0].Unpack(retry)
    return retry.retry_delay.seconds


WRITES = ["Create", "CreateMany", "Follow", "Exchange"]


@contextlib.asynccontextmanager
async def either_server(methods: GuardedMethods, *, is_async: bool) -> AsyncGenerator[int]:
    async with contextlib.AsyncExitStack() as stack:
        if is_async:
            yield await stack.enter_async_context(async_server(methods))
        else:
            yield stack.enter_context(sync_server(methods))


either = pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])


@either
async def test_writes_wait(*, is_async: bool) -> None:
    async with either_server(GuardedMethods(CLOSED, METHODS), is_async=is_async) as port:
        for method in WRITES:
            error = await outcome(port, method)
            assert isinstance(error, grpc.RpcError), method
            assert (error.code(), error.details()) == (grpc.StatusCode.UNAVAILABLE, MESSAGE)
            assert retry_delay_s(error) == 1


@either
@pytest.mark.parametrize(
    ("gate", "methods"),
    [
        pytest.param(CLOSED, ["List", "CreateGadget"], id="closed"),
        pytest.param(OPEN, [*WRITES, "Unlisted"], id="open"),
    ],
)
async def test_other_calls_pass_unchanged(
    gate: WriteGate, methods: list[str], *, is_async: bool
) -> None:
    async with either_server(GuardedMethods(gate, METHODS), is_async=is_async) as port:
        for method in methods:
            expected = b"ab" if method in {"CreateMany", "Exchange"} else b"a"
            assert await outcome(port, method) == expected, method


async def test_an_undescribed_method_waits_unless_it_is_exempt() -> None:
    async with async_server(GuardedMethods(CLOSED, METHODS)) as port:
        error = await outcome(port, "Unlisted")
        assert isinstance(error, grpc.RpcError)
        assert error.details() == MESSAGE.replace(
            "resource: widgets.example.dev", f"method: /{SERVICE}/Unlisted"
        )
    for known in (f"/{SERVICE}/Unlisted", SERVICE):
        async with async_server(GuardedMethods(CLOSED, METHODS, [known])) as port:
            assert await outcome(port, "Unlisted") == b"a"


async def test_a_missing_method_is_unimplemented() -> None:
    async with async_server(GuardedMethods(CLOSED, METHODS)) as port:
        error = await outcome(port, "Nothing")
        assert isinstance(error, grpc.RpcError)
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED


async def test_a_function_may_describe_the_methods() -> None:
    def describe(method: str, metadata: object) -> RequestAttributes | None:
        assert isinstance(metadata, dict)
        assert "user-agent" in metadata
        return METHODS.get(method)

    async with async_server(GuardedMethods(CLOSED, describe)) as port:
        assert await outcome(port, "List") == b"a"
        assert isinstance(await outcome(port, "Create"), grpc.RpcError)


async def test_health_is_always_answered() -> None:
    async with (
        async_server(GuardedMethods(CLOSED, METHODS)) as port,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", [("grpc.enable_http_proxy", 0)]) as channel,
    ):
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        answer = await check(health_pb2.HealthCheckRequest(), timeout=WITHIN_S)
        assert answer.status == health_pb2.HealthCheckResponse.SERVING


class Reporter:
    """A gate that is closed, is opened, and ends."""

    async def changes(self) -> AsyncIterator[bool]:
        for is_open in (False, True):
            yield is_open


class Recorded:
    """A servicer that remembers what it was set to, synchronous or not."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def set(self, service: str, status: int) -> None:
        self.seen.append((service, status))


async def test_the_health_service_follows_the_gate() -> None:
    servicer = Recorded()
    await follow_health(Reporter(), servicer, ["", SERVICE])
    statuses = health_pb2.HealthCheckResponse
    assert servicer.seen == [
        (name, status)
        for status in (statuses.NOT_SERVING, statuses.SERVING, statuses.NOT_SERVING)
        for name in ("", SERVICE)
    ]


async def test_the_servicer_of_grpc_can_be_followed() -> None:
    request = health_pb2.HealthCheckRequest()
    asynchronous, synchronous = health.aio.HealthServicer(), health.HealthServicer()
    await follow_health(Reporter(), asynchronous)
    await follow_health(Reporter(), synchronous)
    context: Any = None
    answers = [await asynchronous.Check(request, context), synchronous.Check(request, context)]
    assert {answer.status for answer in answers} == {health_pb2.HealthCheckResponse.NOT_SERVING}
