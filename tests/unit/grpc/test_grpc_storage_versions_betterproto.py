"""StorageVersionService through betterproto's stubs, over grpclib: another codec and HTTP/2."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta

import grpclib
import pytest
from apidiscovery_betterproto.apidiscovery.service import v1
from apidiscovery_service.sources.catalog import kubernetes_catalog
from storage_version_server import Served, serving
from waiting import WITHIN_S

Status = grpclib.const.Status
Stub = v1.StorageVersionServiceStub
DEPLOYMENTS = "apps.deployments"


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(served: Served) -> AsyncGenerator[Stub]:
    async with served.grpclib_channel() as channel:
        stub = v1.StorageVersionServiceStub(channel)
        yield stub


def writes(version: str) -> v1.ReportedResource:
    return v1.ReportedResource(
        group="apps",
        resource="deployments",
        encoding_version=version,
        decodable_versions=[version],
        served_versions=[version],
    )


async def join(
    stub: Stub, hostname: str, lease_duration: timedelta = timedelta()
) -> v1.HeartbeatResponse:
    request = v1.HeartbeatRequest(hostname=hostname, instance="1", lease_duration=lease_duration)
    return await stub.heartbeat(request)


async def report(stub: Stub, server: str, version: str) -> v1.ReportedStorageVersion:
    request = v1.ReportRequest(api_server_id=server, resources=[writes(version)])
    (reported,) = (await stub.report(request)).reported
    return reported


async def test_an_api_server_joins_reports_and_departs(served: Served, stub: Stub) -> None:
    served.registry.publish(kubernetes_catalog())
    beat = await join(stub, "node-1", lease_duration=timedelta(seconds=15))
    assert (beat.api_server_id, beat.joined) == ("apiserver-lgabes5ywnaqeagh5dny4zlzs4", True)
    assert beat.renew_after == timedelta(seconds=5)
    assert beat.lease.spec.lease_duration_seconds == 15
    server = beat.api_server_id
    for outcome in (
        v1.ReportedStorageVersionOutcome.OUTCOME_CREATED,
        v1.ReportedStorageVersionOutcome.OUTCOME_UNCHANGED,
    ):
        told = await report(stub, server, "apps/v1beta1")
        assert (told.name, told.outcome, told.agreed) == (DEPLOYMENTS, outcome, True)
    answer = await stub.get_storage_version(v1.GetStorageVersionRequest(name=DEPLOYMENTS))
    found = answer.storage_version
    assert found.metadata.resource_version == told.resource_version
    assert found.status.common_encoding_version == "apps/v1beta1"
    listed = await stub.list_storage_versions(v1.ListStorageVersionsRequest())
    assert listed.list.items == [found]
    assert [one.metadata.name for one in listed.members] == [server]
    assert [one.verdict for one in listed.comparisons] == [v1.HashVerdict.DIFFERENT]
    for was_member in (True, False):
        departed = await stub.depart(v1.DepartRequest(api_server_id=server))
        assert departed.was_member is was_member


async def test_watch(served: Served, stub: Stub) -> None:
    server = (await join(stub, "a")).api_server_id
    await report(stub, server, "apps/v1")
    async with asyncio.timeout(WITHIN_S):
        events = stub.watch_storage_versions(v1.WatchStorageVersionsRequest(names=[DEPLOYMENTS]))
        first, bookmark = await anext(events), await anext(events)
        await report(stub, server, "apps/v2")
        changed = await anext(events)
        await events.aclose()  # type: ignore[attr-defined] # it is a generator
    assert [one.type for one in (first, bookmark, changed)] == [
        v1.WatchStorageVersionsResponseEventType.EVENT_TYPE_ADDED,
        v1.WatchStorageVersionsResponseEventType.EVENT_TYPE_BOOKMARK,
        v1.WatchStorageVersionsResponseEventType.EVENT_TYPE_MODIFIED,
    ]
    assert changed.storage_version.status.common_encoding_version == "apps/v2"
    await served.no_streams()


async def test_wait_for_agreement(served: Served, stub: Stub) -> None:
    first = (await join(stub, "a")).api_server_id
    second = (await join(stub, "b")).api_server_id
    await report(stub, first, "apps/v2")
    await report(stub, second, "apps/v1")
    request = v1.WaitForAgreementRequest(
        targets=[v1.AgreementTarget(name=DEPLOYMENTS, encoding_version="apps/v2")]
    )
    async with asyncio.timeout(WITHIN_S):
        progresses = stub.wait_for_agreement(request)
        told = await anext(progresses)
        assert (told.done, told.progress[0].agreeing, told.progress[0].lagging) == (
            False,
            [first],
            [second],
        )
        await report(stub, second, "apps/v2")
        messages = [message async for message in progresses]
    assert messages[-1].done
    assert messages[-1].progress[0].agreeing == sorted([first, second])
    await served.no_streams()
