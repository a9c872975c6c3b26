"""Roles of StorageVersionService, over TLS."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import grpc
import grpc.aio
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery_service.access import Grant, Role
from apidiscovery_service.serving.grpc import AdmissionInterceptor
from google.protobuf.duration_pb2 import Duration
from grpc_errors import refusal
from secured import TOKENS, Metadata, Secured, call_metadata, secured
from storage_version_server import Served, Stub, resource, serving
from waiting import WITHIN_S, until

OK, DENIED = grpc.StatusCode.OK, grpc.StatusCode.PERMISSION_DENIED
NOBODY = grpc.StatusCode.UNAUTHENTICATED

# rita reads; paul publishes, but other groups; nemo publishes storage versions; ada is an admin.
CALLERS = ("", "stranger", "rita", "paul", "nemo", "ada")
GRANTS = (
    Grant(Role.READER, groups=frozenset({"readers"})),
    Grant(Role.PUBLISHER, users=frozenset({"paul"}), api_groups=("*.example.com", "apps")),
    Grant(Role.PUBLISHER, users=frozenset({"nemo"}), api_groups=("internal.apiserver.k8s.io",)),
    Grant(Role.ADMIN, users=frozenset({"ada"})),
)
READERS = (NOBODY, NOBODY, OK, OK, OK, OK)
REPORTERS = (NOBODY, NOBODY, DENIED, DENIED, OK, OK)


class Both(NamedTuple):
    front: Secured
    served: Served


@pytest.fixture(name="running")
async def fixture_running(tmp_path: Path) -> AsyncGenerator[Both]:
    """Serve behind the front of another server."""
    async with secured(tmp_path, grants=GRANTS) as front:
        interceptor = AdmissionInterceptor(front.access, front.metrics)
        path = front.grpc_front.server_path
        path.unlink()  # in place of the server that is there
        async with serving(
            access=front.access, interceptors=[interceptor], address=f"unix:{path}"
        ) as served:
            yield Both(front, served)


@pytest.fixture(name="stub")
async def fixture_stub(running: Both) -> AsyncGenerator[Stub]:
    async with running.front.channel() as channel:
        yield storage_version_pb2_grpc.StorageVersionServiceStub(channel)


def watching(
    stub: Stub, metadata: Metadata
) -> grpc.aio.UnaryStreamCall[pb.WatchStorageVersionsRequest, pb.WatchStorageVersionsResponse]:
    return stub.WatchStorageVersions(pb.WatchStorageVersionsRequest(), metadata=metadata)


async def watch(stub: Stub, metadata: Metadata) -> object:
    async for event in watching(stub, metadata):
        return event
    raise AssertionError


async def wait(stub: Stub, metadata: Metadata) -> object:
    request = pb.WaitForAgreementRequest(targets=[pb.AgreementTarget(name="apps.deployments")])
    async for progress in stub.WaitForAgreement(request, metadata=metadata):
        return progress
    raise AssertionError


METHODS: dict[str, tuple[Callable[[Stub, Metadata], Awaitable[object]], object]] = {
    "Heartbeat": (
        lambda stub, who: stub.Heartbeat(pb.HeartbeatRequest(hostname="a"), metadata=who),
        REPORTERS,
    ),
    "Depart": (
        lambda stub, who: stub.Depart(pb.DepartRequest(api_server_id="b"), metadata=who),
        REPORTERS,
    ),
    "Report": (
        lambda stub, who: stub.Report(
            pb.ReportRequest(
                api_server_id="apiserver-member", resources=[resource("deployments", "v1")]
            ),
            metadata=who,
        ),
        REPORTERS,
    ),
    "GetStorageVersion": (
        lambda stub, who: stub.GetStorageVersion(
            pb.GetStorageVersionRequest(name="apps.widgets"), metadata=who
        ),
        READERS,
    ),
    "ListStorageVersions": (
        lambda stub, who: stub.ListStorageVersions(pb.ListStorageVersionsRequest(), metadata=who),
        READERS,
    ),
    "WatchStorageVersions": (watch, READERS),
    "WaitForAgreement": (wait, READERS),
}


async def outcome(call: Awaitable[object]) -> grpc.StatusCode:
    try:
        async with asyncio.timeout(WITHIN_S):
            await call
    except grpc.aio.AioRpcError as error:
        # These errors are of admitted callers.
        allowed = (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.FAILED_PRECONDITION)
        return OK if error.code() in allowed else error.code()
    return OK


def test_every_method_is_here() -> None:
    (service,) = pb.DESCRIPTOR.services_by_name.values()
    assert [method.name for method in service.methods] == list(METHODS)


async def test_each_method_for_each_caller(stub: Stub) -> None:
    for method, (call, expected) in METHODS.items():
        outcomes = tuple([await outcome(call(stub, call_metadata(user))) for user in CALLERS])
        assert outcomes == expected, method


async def test_denied_calls_change_nothing(stub: Stub) -> None:
    request = pb.HeartbeatRequest(hostname="a")
    error = await refusal(stub.Heartbeat(request, metadata=call_metadata("paul")))
    denied = "user 'paul' may not change these API groups: 'internal.apiserver.k8s.io'"
    assert error.details() == denied
    answer = await stub.ListStorageVersions(
        pb.ListStorageVersionsRequest(), metadata=call_metadata("paul")
    )
    assert not answer.members


async def test_the_role_is_checked_before_the_fields(stub: Stub) -> None:
    bad = pb.HeartbeatRequest(lease_duration=Duration(seconds=-1))
    for user, code in (("rita", DENIED), ("nemo", grpc.StatusCode.INVALID_ARGUMENT)):
        assert await outcome(stub.Heartbeat(bad, metadata=call_metadata(user))) is code


async def test_streams_end_with_their_token(running: Both, stub: Stub) -> None:
    """Streams of others go on."""
    request = pb.WaitForAgreementRequest(targets=[pb.AgreementTarget(name="apps.deployments")])
    rita = (
        watching(stub, call_metadata("rita")),
        stub.WaitForAgreement(request, metadata=call_metadata("rita")),
    )
    ada = watching(stub, call_metadata("ada"))
    for call in (*rita, ada):
        assert await call.read() is not grpc.aio.EOF
    running.front.write_tokens(["ada"])
    async with asyncio.timeout(WITHIN_S):
        for call in rita:
            assert await call.code() is NOBODY
            assert await call.details() == "the bearer token is not known"
    await until(lambda: running.served.streams == 1, "the streams of rita have ended")
    assert not ada.done()
    ada.cancel()
    await running.served.no_streams()


async def test_streams_end_with_their_role(running: Both, stub: Stub) -> None:
    call = watching(stub, call_metadata("rita"))
    assert await call.read() is not grpc.aio.EOF
    running.front.token_file.write_text(f"{TOKENS['rita']},rita,0\n")
    async with asyncio.timeout(WITHIN_S):
        assert await call.code() is DENIED
    await running.served.no_streams()


async def test_streams_of_identified_callers_end_when_the_server_stops(
    running: Both, stub: Stub
) -> None:
    calls = [watching(stub, call_metadata("rita")) for _ in range(10)]
    for call in calls:
        assert await call.read() is not grpc.aio.EOF
    async with asyncio.timeout(WITHIN_S / 2):
        await running.served.server.stop(WITHIN_S)
    async with asyncio.timeout(WITHIN_S):
        ends = {(await call.code(), await call.details()) for call in calls}
    assert ends == {(grpc.StatusCode.UNAVAILABLE, "the server is stopping")}
