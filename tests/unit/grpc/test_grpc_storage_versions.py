"""StorageVersionService with grpcio's stubs: messages, and statuses with their details."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeAlias, cast

import grpc
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.sources.catalog import kubernetes_catalog
from apidiscovery_service.storage_versions import collection
from apidiscovery_service.store import StoreRefused, StoreUnavailable
from google.protobuf.duration_pb2 import Duration
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpc_errors import details_of, refusal, violations_of
from grpc_server import next_message
from storage_version_server import (
    Served,
    Stub,
    join,
    report,
    resource,
    serving,
    waiting,
    watching,
)
from store_wrapper import failing, once
from waiting import WITHIN_S

CREATED, UPDATED, UNCHANGED = (
    pb.ReportedStorageVersion.OUTCOME_CREATED,
    pb.ReportedStorageVersion.OUTCOME_UPDATED,
    pb.ReportedStorageVersion.OUTCOME_UNCHANGED,
)
NODE_1 = "apiserver-lgabes5ywnaqeagh5dny4zlzs4"  # as kube-apiserver of a host `node-1` calls itself
DEPLOYMENTS = "apps.deployments"

Call: TypeAlias = "Callable[[Stub], Awaitable[object]]"


@pytest.fixture(name="served")
async def fixture_served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


@pytest.fixture(name="stub")
async def fixture_stub(served: Served) -> AsyncGenerator[Stub]:
    async with served.stub() as stub:
        yield stub


async def events(stub: Stub, after: str = "") -> object:
    return [event async for event in watching(stub, after=after)]


async def progresses(stub: Stub, *names: str) -> object:
    return [progress async for progress in waiting(stub, *names)]


def get_request(name: str = DEPLOYMENTS) -> pb.GetStorageVersionRequest:
    return pb.GetStorageVersionRequest(name=name)


UNARY: dict[str, Call] = {
    "Heartbeat": lambda stub: stub.Heartbeat(pb.HeartbeatRequest(hostname="node-1")),
    "Depart": lambda stub: stub.Depart(pb.DepartRequest(api_server_id=NODE_1)),
    "Report": lambda stub: report(stub, NODE_1, deployments="v1"),
    "GetStorageVersion": lambda stub: stub.GetStorageVersion(get_request()),
    "ListStorageVersions": lambda stub: stub.ListStorageVersions(pb.ListStorageVersionsRequest()),
}
METHODS: dict[str, Call] = {
    **UNARY,
    "WatchStorageVersions": events,
    "WaitForAgreement": lambda stub: progresses(stub, DEPLOYMENTS),
}


async def violations(call: Awaitable[object]) -> dict[str, str]:
    return violations_of(await refusal(call))


async def listed(stub: Stub) -> pb.ListStorageVersionsResponse:
    return await stub.ListStorageVersions(pb.ListStorageVersionsRequest())


async def test_an_api_server_joins_reports_and_departs(stub: Stub) -> None:
    request = pb.HeartbeatRequest(
        hostname="node-1", instance="i", lease_duration=Duration(seconds=15)
    )
    beat = await stub.Heartbeat(request)
    assert (beat.api_server_id, beat.joined, beat.renew_after.seconds) == (NODE_1, True, 5)
    spec = beat.lease.spec
    assert (spec.holder_identity, spec.lease_duration_seconds) == (f"{NODE_1}_i", 15)
    assert dict(beat.lease.metadata.labels) == {
        "apiserver.kubernetes.io/identity": "kube-apiserver",
        "kubernetes.io/hostname": "node-1",
    }
    again = await stub.Heartbeat(request)
    assert not again.joined
    assert again.lease.metadata.uid == beat.lease.metadata.uid

    for outcome in (CREATED, UNCHANGED):
        (told,) = (await report(stub, NODE_1, deployments="v1")).reported
        assert (told.name, told.outcome, told.agreed) == (DEPLOYMENTS, outcome, True)
        found = (await stub.GetStorageVersion(get_request())).storage_version
        assert found.metadata.resource_version == told.resource_version
    assert found.status.common_encoding_version == "apps/v1"
    (entry,) = found.status.storage_versions
    assert (entry.api_server_id, entry.encoding_version) == (NODE_1, "apps/v1")
    assert (list(entry.decodable_versions), list(entry.served_versions)) == (
        ["apps/v1"],
        ["apps/v1"],
    )

    for was_member in (True, False):
        answer = await stub.Depart(pb.DepartRequest(api_server_id=NODE_1))
        assert answer.was_member is was_member


async def test_the_default_lease_lasts_an_hour_and_zero_is_refused(stub: Stub) -> None:
    beat = await stub.Heartbeat(pb.HeartbeatRequest(hostname="node-1"))
    assert beat.lease.spec.lease_duration_seconds == 3600
    assert beat.renew_after.ToMilliseconds() == 10_000
    zero = pb.HeartbeatRequest(hostname="node-1", lease_duration=Duration())
    assert list(await violations(stub.Heartbeat(zero))) == ["lease_duration"]


@pytest.mark.parametrize(
    ("duration", "message"),
    [
        pytest.param(
            Duration(seconds=15, nanos=1),
            "is 15.000000001 s, must be whole seconds from 1 s to 86400 s",
            id="fraction",
        ),
        pytest.param(
            Duration(seconds=-15),
            "is -15 s, must be whole seconds from 1 s to 86400 s",
            id="negative",
        ),
        pytest.param(
            Duration(seconds=15, nanos=-1),
            "want nanos of up to 999999999 and of the sign of seconds, got 15 and -1",
            id="malformed",
        ),
    ],
)
async def test_a_lease_lasts_whole_seconds(stub: Stub, duration: Duration, message: str) -> None:
    request = pb.HeartbeatRequest(hostname="node-1", lease_duration=duration)
    assert await violations(stub.Heartbeat(request)) == {"lease_duration": message}


async def test_another_version_is_an_update_without_agreement(stub: Stub) -> None:
    first, second = await join(stub, "a"), await join(stub, "b")
    await report(stub, first, deployments="v1", daemonsets="v1")
    answer = await report(stub, second, deployments="v1beta1", daemonsets="v1")
    assert [(one.name, one.outcome, one.agreed) for one in answer.reported] == [
        ("apps.daemonsets", UPDATED, True),
        (DEPLOYMENTS, UPDATED, False),
    ]


async def test_equivalents_are_decodable_and_only_the_first_is_kept(stub: Stub) -> None:
    server = await join(stub, "a")
    ingresses = [
        pb.ReportedResource(
            group=group,
            resource="ingresses",
            encoding_version="networking.k8s.io/v1",
            decodable_versions=["networking.k8s.io/v1"],
        )
        for group in ("networking.k8s.io", "extensions")
    ]
    ingresses[1].equivalents.add(group="networking.k8s.io", version="v1beta1", resource="ingresses")
    answer = await stub.Report(pb.ReportRequest(api_server_id=server, resources=ingresses))
    assert [one.name for one in answer.reported] == ["extensions.ingresses"]
    (found,) = (await listed(stub)).list.items
    assert list(found.status.storage_versions[0].decodable_versions) == [
        "networking.k8s.io/v1",
        "networking.k8s.io/v1beta1",
    ]


async def test_list_has_objects_members_and_comparisons_by_name(served: Served, stub: Stub) -> None:
    """The catalogue of discovery has another version of deployments than `apps/v1beta1`."""
    served.registry.publish(kubernetes_catalog())
    ids = sorted([await join(stub, "b"), await join(stub, "a")])
    for server in ids:
        pods = pb.ReportedResource(
            resource="pods", encoding_version="v1", decodable_versions=["v1"]
        )
        resources = [resource("widgets", "v1"), resource("deployments", "v1beta1", "v1"), pods]
        await stub.Report(pb.ReportRequest(api_server_id=server, resources=resources))
    answer = await listed(stub)
    names = [one.metadata.name for one in answer.list.items]
    assert names == [DEPLOYMENTS, "apps.widgets", "core.pods"]
    assert [one.metadata.name for one in answer.members] == ids
    newest = max(int(one.metadata.resource_version) for one in answer.list.items)
    assert int(answer.list.metadata.resource_version) >= newest
    deployments, core_pods = answer.comparisons
    assert deployments == pb.HashComparison(
        name=DEPLOYMENTS,
        discovery_hash=storage_version_hash("apps", "v1", "Deployment"),
        reported_hash=storage_version_hash("apps", "v1beta1", "Deployment"),
        verdict=pb.HASH_VERDICT_DIFFERENT,
    )
    assert (core_pods.name, core_pods.verdict) == ("core.pods", pb.HASH_VERDICT_SAME)
    await report(stub, ids[0], deployments="v1")
    mixed = (await listed(stub)).comparisons[0]
    assert (mixed.verdict, mixed.reported_hash) == (pb.HASH_VERDICT_UNKNOWN, "")


async def test_a_list_has_the_member_of_each_entry_also_when_a_server_joins_meanwhile(
    served: Served, stub: Stub
) -> None:
    old = await join(stub, "old")
    await report(stub, old, deployments="v1")

    async def another_joins() -> None:
        await report(stub, await join(stub, "new"), deployments="v1")

    served.store.before = once("list", "leases/kube-system/", another_joins)
    answer = await listed(stub)
    members = {one.metadata.name for one in answer.members}
    (found,) = answer.list.items
    assert {entry.api_server_id for entry in found.status.storage_versions} <= members
    assert len(members) == 2


async def ends(stub: Stub) -> dict[str, tuple[grpc.StatusCode, str | None]]:
    """Call every method; return the code and details with which each fails."""
    errors = {method: await refusal(call(stub)) for method, call in METHODS.items()}
    return {method: (error.code(), error.details()) for method, error in errors.items()}


async def test_no_method_is_implemented_while_the_gate_is_off() -> None:
    async with serving(enabled=False) as served, served.stub() as stub:
        for method, (code, details) in (await ends(stub)).items():
            assert code is grpc.StatusCode.UNIMPLEMENTED
            assert "StorageVersionAPI" in (details or "")
            await served.counted(method, "UNIMPLEMENTED", 1)


async def test_no_method_is_available_until_the_sources_are_read() -> None:
    told = "the server is still reading its sources"
    async with serving(ready=False) as served, served.stub() as stub:
        assert await ends(stub) == dict.fromkeys(METHODS, (grpc.StatusCode.UNAVAILABLE, told))


async def test_no_method_is_available_while_the_server_stops(served: Served, stub: Stub) -> None:
    await served.service.streams.end()
    told = "the server is stopping"
    assert await ends(stub) == dict.fromkeys(METHODS, (grpc.StatusCode.UNAVAILABLE, told))


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (StoreUnavailable("secret"), grpc.StatusCode.UNAVAILABLE),
        (StoreRefused("secret"), grpc.StatusCode.FAILED_PRECONDITION),
    ],
    ids=["away", "refuses"],
)
async def test_errors_do_not_show_details_of_the_store(
    served: Served, stub: Stub, failure: Exception, code: grpc.StatusCode
) -> None:
    async def fail(_operation: str, _key: str) -> None:
        raise failure

    served.store.before = fail
    for method in (*UNARY, "WatchStorageVersions"):
        error = await refusal(METHODS[method](stub))
        assert error.code() is code
        assert "store of the server" in (error.details() or "")
        assert "secret" not in (error.details() or "")
        await served.counted(method, code.name, 1)


async def test_no_agreement_is_told_while_the_store_is_away(served: Served, stub: Stub) -> None:
    await report(stub, await join(stub, "a"), deployments="v1")
    await served.state.collection.seen(served.state.collection.revision)
    served.store.before = failing("get", "storageversions/")
    error = await refusal(progresses(stub, DEPLOYMENTS))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_lost_acknowledgement_is_recovered(served: Served, stub: Stub) -> None:
    server = await join(stub, "a")

    async def fail(_operation: str, _key: str) -> None:
        served.store.after = None
        raise StoreUnavailable("the answer is lost")

    served.store.after = fail
    error = await refusal(report(stub, server, deployments="v1"))
    assert error.code() is grpc.StatusCode.UNAVAILABLE
    (told,) = (await report(stub, server, deployments="v1")).reported
    assert told.outcome == UNCHANGED


async def test_a_server_that_is_no_member_may_not_report(stub: Stub) -> None:
    error = await refusal(report(stub, NODE_1, deployments="v1"))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    (info,) = details_of(error)
    assert isinstance(info, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("NOT_A_MEMBER", "apidiscovery")
    assert dict(info.metadata) == {"api_server_id": NODE_1}


async def test_an_unknown_name_is_not_found(stub: Stub) -> None:
    for name in (DEPLOYMENTS, "deployments", "../leases/x", "a\0b", "ä" * 317):
        error = await refusal(stub.GetStorageVersion(get_request(name)))
        assert error.code() is grpc.StatusCode.NOT_FOUND


async def test_wrong_fields_of_a_heartbeat_are_named(stub: Stub) -> None:
    request = pb.HeartbeatRequest(
        hostname="-", component="a b", instance="i" * 254, lease_duration=Duration(seconds=86_401)
    )
    found = await violations(stub.Heartbeat(request))
    assert list(found) == ["hostname", "component", "instance", "lease_duration"]
    found = await violations(stub.Heartbeat(pb.HeartbeatRequest()))
    assert list(found) == ["hostname"]


async def test_an_identity_must_be_the_name_of_a_lease(stub: Stub) -> None:
    for server in ("", "A", "a/b", "a" * 254, "a\0"):
        depart = stub.Depart(pb.DepartRequest(api_server_id=server))
        assert list(await violations(depart)) == ["api_server_id"]
        assert list(await violations(report(stub, server))) == ["api_server_id"]


async def test_wrong_fields_of_a_report_are_named_and_nothing_is_stored(stub: Stub) -> None:
    server = await join(stub, "a")
    bad = pb.ReportedResource(
        group="Apps", resource="", encoding_version="a/b/c", served_versions=["apps/v1"]
    )
    bad.equivalents.add(group="core", version="", resource="x")
    request = pb.ReportRequest(api_server_id=server, resources=[resource("fine", "v1"), bad])
    assert set(await violations(stub.Report(request))) == {
        "resources[1].group",
        "resources[1].resource",
        "resources[1].encoding_version",
        "resources[1].decodable_versions",
        "resources[1].served_versions[0]",
        "resources[1].equivalents[0].group",
        "resources[1].equivalents[0].version",
    }
    assert not (await listed(stub)).list.items


async def test_a_report_has_5000_resources_at_most(stub: Stub) -> None:
    server = await join(stub, "a")
    resources = [resource("x", "v1")] * 5_001
    call = stub.Report(pb.ReportRequest(api_server_id=server, resources=resources))
    assert list(await violations(call)) == ["resources"]


async def test_a_report_that_makes_an_object_too_large_is_refused(
    stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the limit, and the object stays as it was."""
    first, second = await join(stub, "a"), await join(stub, "b")
    await report(stub, first, deployments="v1")
    before = await stub.GetStorageVersion(get_request())
    monkeypatch.setattr(collection, "MAX_VALUE_BYTES", 1000)
    large = resource("deployments", "v1", *(f"v1beta{number}" for number in range(1, 100)))
    error = await refusal(stub.Report(pb.ReportRequest(api_server_id=second, resources=[large])))
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "at most 1000 can be stored" in (error.details() or "")
    assert await stub.GetStorageVersion(get_request()) == before


async def test_wrong_fields_of_get_watch_and_wait_are_named(stub: Stub) -> None:
    for name in ("", "a" * 318):
        assert list(await violations(stub.GetStorageVersion(get_request(name)))) == ["name"]
    for after in ("-1", "1.0", " 1", "1_0", "\u0661", "x", "9223372036854775808", "1" * 5000):
        assert list(await violations(events(stub, after=after))) == ["resource_version"], after
    for names, field in (
        ((), "targets"),
        (("x",) * 1001, "targets"),
        ((DEPLOYMENTS, ""), "targets[1].name"),
    ):
        assert list(await violations(progresses(stub, *names))) == [field]


async def test_a_cancelled_report_is_not_stored(served: Served, stub: Stub) -> None:
    server = await join(stub, "a")
    held, arrived = asyncio.Event(), asyncio.Event()

    async def hold(operation: str, _key: str) -> None:
        if operation == "put":
            arrived.set()
            await held.wait()

    served.store.before = hold
    call = stub.Report(
        pb.ReportRequest(api_server_id=server, resources=[resource("deployments", "v1")])
    )
    async with asyncio.timeout(WITHIN_S):
        await arrived.wait()
    assert call.cancel()
    await served.counted("Report", "CANCELLED", 1)
    held.set()
    served.store.before = None
    assert not (await listed(stub)).list.items


async def test_objects_written_by_others_are_shown_whole(served: Served, stub: Stub) -> None:
    """Such as by HTTP: further conditions, labels, no entries at all."""
    value = cast(
        "Object",
        {
            "kind": "StorageVersion",
            "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
            "metadata": {"name": DEPLOYMENTS, "labels": {"a": "b"}},
            "spec": {},
            "status": {
                "conditions": [
                    {
                        "type": "Odd",
                        "status": "Unknown",
                        "lastTransitionTime": None,
                        "reason": "R",
                        "message": "m",
                    }
                ]
            },
        },
    )
    await served.state.collection.create(value)
    found = (await stub.GetStorageVersion(get_request())).storage_version
    assert dict(found.metadata.labels) == {"a": "b"}
    assert [one.type for one in found.status.conditions] == ["Odd"]
    call = waiting(stub, DEPLOYMENTS)
    (progress,) = (await next_message(call)).progress
    assert not progress.agreed
    assert not progress.HasField("storage_version")
    call.cancel()
