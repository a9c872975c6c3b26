"""Fetching over gRPC: everything, differences, and answers that cannot be used."""

import asyncio
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2 as pb
from apidiscovery.v2 import discovery_pb2 as v2
from apidiscovery.v2beta1 import discovery_pb2 as v2beta1
from apidiscovery_client._errors import ServerUnreachable, UnexpectedDocument
from apidiscovery_client._grpc.calls import CallRefused
from apidiscovery_client._grpc.errors import FieldProblem
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._writing import PROTOBUF_EXTRA
from apidiscovery_client.model import CURRENT, GroupVersionKind, Stale, Unknown
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import (  # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    error_details_pb2,
)
from grpc_fakes import End, aio_server
from grpc_server import serving
from grpc_transports import Driven, local, opened
from programs import refusing
from proxies import TcpProxy
from scripted_discovery import Hang, changed, group, scripted, whole
from server import Server
from waiting import until

every_library = pytest.mark.parametrize("family", ["grpcio", "betterproto", "sync-grpcio"])

PODS, APPS, BATCH = group("", "pods"), group("apps", "deployments"), group("batch", "jobs")
NOT_MODIFIED = pb.GetDiscoveryResponse(etag="E", not_modified=pb.NotModified())


def names(held: FetchedSnapshot) -> list[str]:
    return [found.name for found in held.snapshot.groups]


def hashes(**by_name: str) -> list[pb.GroupHash]:
    return [pb.GroupHash(name=name.replace("core", ""), hash=h) for name, h in by_name.items()]


def delta(
    *groups: pb.ChangedGroup, removed: tuple[str, ...] = (), **by_name: str
) -> pb.GetDiscoveryResponse:
    told = pb.DiscoveryDelta(changed=groups, removed=removed)
    return pb.GetDiscoveryResponse(etag="F", group_hashes=hashes(**by_name), delta=told)


@every_library
async def test_the_first_fetch_asks_once_for_everything(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, APPS, BATCH))
        held = await client.fetch()
        [(method, request, metadata)] = script.asked
        assert method == "GetDiscovery"
        assert not request.HasField("known_groups")
        assert request.scope == pb.DISCOVERY_SCOPE_ALL
        assert list(request.accept_versions) == [1, 2]
        assert "authorization" not in metadata
        assert held.snapshot.server == script.address
    assert names(held) == ["", "apps", "batch"]
    assert held.hashes == {"": "1", "apps": "1", "batch": "1"}
    assert held.etags == {"": "E"}
    assert held.snapshot.freshness == CURRENT
    assert client.traffic.requests == 1
    assert client.traffic.body_bytes == whole(PODS, APPS, BATCH).ByteSize()


@pytest.mark.parametrize(
    ("answer", "etag", "not_modified"),
    [
        pytest.param(NOT_MODIFIED, "E", 1, id="not modified"),
        pytest.param(delta(core="1", apps="1"), "F", 0, id="empty delta"),
    ],
)
async def test_nothing_changed_gives_the_very_same_groups(
    family: str, answer: pb.GetDiscoveryResponse, etag: str, not_modified: int
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([whole(PODS, APPS), answer])
        first = await client.fetch()
        second = await client.fetch(first)
        request = script.asked[1][1]
    assert (request.if_none_match, dict(request.known_groups.hashes)) == ("E", first.hashes)
    assert second.snapshot.groups is first.snapshot.groups
    assert second.snapshot.checked_at > first.snapshot.checked_at
    assert second.etags == {"": etag}
    assert (client.traffic.requests, client.traffic.not_modified) == (2, not_modified)


async def test_a_delta_leaves_other_groups_as_the_objects_they_are(family: str) -> None:
    more = group("apps", "deployments", "replicasets")
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, APPS, BATCH))
        first = await client.fetch()
        new = changed(group("new", "news"), 0)
        script.gets.append(
            delta(new, changed(more, 1), removed=("batch",), core="1", new="2", apps="2")
        )
        second = await client.fetch(first)
    assert names(second) == ["", "new", "apps"]
    assert second.hashes == {"": "1", "new": "2", "apps": "2"}
    assert second.snapshot.groups[0] is first.snapshot.groups[0]
    apps = second.snapshot.groups[2].versions[0]
    assert [found.name for found in apps.resources] == ["deployments", "replicasets"]


@pytest.mark.parametrize(
    "wrong",
    [
        delta(changed(APPS, 7), core="1", apps="2"),
        delta(removed=("nobody",), core="1", apps="1"),
        delta(changed(APPS, 0), core="1"),
        delta(changed(APPS, 0), core="1", apps="2", batch="1"),
        delta(pb.ChangedGroup(name="x", hash="2", v2=APPS), core="1", x="2"),
        delta(changed(BATCH, 0), changed(BATCH, 1), core="1", batch="2", apps="1"),
        pb.GetDiscoveryResponse(etag="other", not_modified=pb.NotModified()),
    ],
    ids=["position", "removed", "gone", "missing", "name", "twice", "etag"],
)
async def test_an_inconsistent_delta_is_followed_by_one_call_for_everything(
    family: str, wrong: pb.GetDiscoveryResponse
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([whole(PODS, APPS), wrong, whole(PODS, APPS, BATCH)])
        first = await client.fetch()
        second = await client.fetch(first)
        assert not script.asked[-1][1].HasField("known_groups")
        assert len(script.asked) == 3
    assert names(second) == ["", "apps", "batch"]
    assert second.snapshot.groups[1] is first.snapshot.groups[1]


def lacking_a_group() -> pb.GetDiscoveryResponse:
    answer = whole(PODS, APPS)
    answer.v2.ClearField("core")
    return answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        pytest.param(pb.GetDiscoveryResponse(), "has no result", id="empty"),
        pytest.param(
            pb.GetDiscoveryResponse(etag="E", group_hashes=hashes(apps="1")),
            "has no result",
            id="only hashes",
        ),
        pytest.param(b"\xa2\x06\x00", "has no result", id="unknown result"),
        pytest.param(lacking_a_group(), "leads to 'apps'", id="fewer groups than hashes"),
        pytest.param(NOT_MODIFIED, "knows nothing", id="not modified"),
    ],
)
async def test_an_unusable_first_answer_is_an_error(
    family: str, answer: pb.GetDiscoveryResponse | bytes, message: str
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(answer)
        with pytest.raises(UnexpectedDocument, match=message) as caught:
            await client.fetch()
    assert str(caught.value).startswith(f"GetDiscovery {script.address}: ")


async def test_a_changed_group_without_content_is_an_error(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, APPS))
        held = await client.fetch()
        script.gets.append(delta(pb.ChangedGroup(name="apps", hash="2"), core="1", apps="2"))
        with pytest.raises(UnexpectedDocument, match="'apps' has no content"):
            await client.fetch(held)


async def test_an_empty_service_has_no_groups(family: str) -> None:
    async with serving() as served, opened(family, served.target) as client:
        assert (await client.fetch()).snapshot.groups == ()


async def test_a_snapshot_over_http_is_no_base_for_a_delta(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([whole(PODS, APPS), whole(PODS, APPS)])
        held = await client.fetch()
        second = await client.fetch(FetchedSnapshot(snapshot=held.snapshot, etags={"/api": '"x"'}))
        assert not script.asked[1][1].HasField("known_groups")
        assert not script.asked[1][1].if_none_match
    assert second.snapshot.groups is held.snapshot.groups


async def test_a_server_that_has_v2beta1_only_is_read(family: str) -> None:
    beta = v2beta1.APIGroupDiscovery.FromString(APPS.SerializeToString())
    answer = pb.GetDiscoveryResponse(etag="E", group_hashes=hashes(apps="1"))
    answer.v2beta1.groups.items.append(beta)
    change = pb.ChangedGroup(name="apps", hash="2", v2beta1=beta)
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([answer, delta(change, apps="2"), whole(APPS)])
        first = await client.fetch()
        second = await client.fetch(first)
        assert (await client.fetch()).snapshot.groups == first.snapshot.groups
    assert second.snapshot.groups is first.snapshot.groups
    assert second.hashes == {"apps": "2"}


@every_library
async def test_no_version_in_common_is_told_with_what_is_offered(family: str) -> None:
    gates = "AggregatedDiscoveryEndpoint=false,AggregatedDiscoveryRemoveBetaType=true"
    async with serving(gates=gates) as served, opened(family, served.target) as client:
        with pytest.raises(CallRefused, match="offered: none") as caught:
            await client.fetch()
    assert caught.value.code == grpc.StatusCode.FAILED_PRECONDITION


@every_library
async def test_a_server_without_the_method_is_told_by_its_name(family: str) -> None:
    async with aio_server(lambda _: None) as address, opened(family, address) as client:
        for call in (client.fetch(), anext_of(client)):
            with pytest.raises(CallRefused, match=r"v1\.DiscoveryService/\w+Discovery") as e:
                await call
            assert e.value.code == grpc.StatusCode.UNIMPLEMENTED
            assert f"{address} does not have the method" in str(e.value)


async def anext_of(client: Driven) -> None:
    async with client.listening() as listener:
        await listener.next()


@pytest.mark.usefixtures("hurry")
@every_library
async def test_an_address_where_nobody_listens_is_told_as_kubectl_does(
    family: str,
) -> None:
    with refusing() as address:
        async with opened(family, address) as client:
            with pytest.raises(ServerUnreachable, match=f"the server {address} was refused"):
                await client.fetch()


@every_library
async def test_an_answer_that_does_not_come_in_time_is_told(family: str) -> None:
    async with scripted() as script:
        script.gets.append(Hang())
        async with opened(family, local(script.address, 0.2)) as client:
            with pytest.raises(ServerUnreachable, match=r"no answer within 0\.2 s"):
                await client.fetch()


@every_library
async def test_an_earlier_refusal_is_told_when_no_answer_comes_in_time(family: str) -> None:
    async with scripted() as script:
        script.gets.extend([End(grpc.StatusCode.UNAVAILABLE, "no\nsource"), Hang()])
        async with opened(family, local(script.address, 4)) as client:
            with pytest.raises(ServerUnreachable) as caught:
                await client.fetch()
    assert str(caught.value).endswith(": no answer within 4 s; before, UNAVAILABLE: no source")


@every_library
async def test_an_unavailable_server_is_asked_again(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([End(grpc.StatusCode.UNAVAILABLE, "soon"), whole(APPS)])
        assert names(await client.fetch()) == ["apps"]
    assert client.traffic.requests == 2


@every_library
async def test_an_answer_that_is_too_large_is_told(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("_grpc.calls", "transports.async_betterproto"):
        monkeypatch.setattr(f"apidiscovery_client.{module}.MAX_ANSWER_BYTES", 1000)
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(group("x" * 2000)))
        with pytest.raises(CallRefused, match="larger than max") as caught:
            await client.fetch()
        script.gets.append(whole(APPS))
        assert names(await client.fetch()) == ["apps"]
    assert caught.value.code == grpc.StatusCode.RESOURCE_EXHAUSTED


@every_library
async def test_more_than_grpc_takes_by_default_is_taken(family: str) -> None:
    document = whole(*(group(f"{i:04}", "x" * 10_000) for i in range(500)))
    assert document.ByteSize() > 5_000_000
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(document)
        assert len((await client.fetch()).snapshot.groups) == 500


@every_library
async def test_garbage_is_an_error_and_not_an_empty_discovery(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(b"\x0a\xff\xff\xff\xff\x0f")
        with pytest.raises(UnexpectedDocument):
            await client.fetch()


async def test_unknown_fields_are_kept_as_they_are_on_the_wire(family: str) -> None:
    unknown = b"\xa0\x1f\x07" + b"\xaa\x1f\x02hi" + b"\xa0\x1f\x08"
    item = v2.APIGroupDiscovery.FromString(APPS.SerializeToString() + unknown)
    version = item.versions[0]
    version.MergeFromString(unknown)
    version.resources[0].MergeFromString(unknown)
    version.resources[0].subresources.add(subresource="scale").MergeFromString(unknown)
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(item))
        [read] = (await client.fetch()).snapshot.groups
    resource = read.versions[0].resources[0]
    for told in (read, read.versions[0], resource, resource.subresources[0]):
        assert told.extra == {PROTOBUF_EXTRA: unknown}


async def test_fields_that_are_absent_are_not_those_that_are_empty(family: str) -> None:
    item = group("apps", "first", "second")
    first, second = item.versions[0].resources
    first.ClearField("response_kind")
    second.response_kind.Clear()
    second.response_kind.SetInParent()
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(item))
        [read] = (await client.fetch()).snapshot.groups
    told = [resource.response_kind for resource in read.versions[0].resources]
    assert told == [None, GroupVersionKind("", "", "")]


def stale_source(error: str, since: datetime | None) -> pb.ListSourcesResponse:
    source = pb.DiscoverySource(name="upstream:east", error=error)
    if since:
        source.since.CopyFrom(Timestamp(seconds=int(since.timestamp())))
    for name in ("apps", "batch"):
        source.group_versions.add(group=name, version="v1", freshness="Stale")
    shadowed = pb.DiscoverySource(name="another", error="not asked")
    shadowed.group_versions.add(group="apps", version="v1", shadowed_by="upstream:east")
    return pb.ListSourcesResponse(sources=[shadowed, source])


async def test_stale_versions_are_told_with_since_and_why_by_one_more_call(family: str) -> None:
    since = datetime(2026, 1, 2, tzinfo=UTC)
    stale = [
        PODS,
        group("apps", "deployments", freshness="Stale"),
        group("batch", freshness="Stale"),
    ]
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(*stale))
        script.sources.append(stale_source("connection\nrefused", since))
        held = await client.fetch()
        assert [method for method, *_ in script.asked] == ["GetDiscovery", "ListSources"]
        script.gets.append(NOT_MODIFIED)
        again = await client.fetch(held)
        assert len(script.asked) == 3
    reason = "upstream:east: connection refused"
    apps, batch = (found.versions[0].freshness for found in held.snapshot.groups[1:])
    assert (apps, batch) == (Stale(since, reason), Unknown(since, reason))
    assert again.snapshot.groups is held.snapshot.groups


@pytest.mark.parametrize("told", [End(grpc.StatusCode.PERMISSION_DENIED, "no"), b"\xff", None])
async def test_a_failure_to_list_sources_does_no_harm(
    family: str, told: End | bytes | None
) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(group("apps", "deployments", freshness="Stale")))
        script.sources.append(stale_source("", None) if told is None else told)
        held = await client.fetch()
    freshness = held.snapshot.groups[0].versions[0].freshness
    assert isinstance(freshness, Stale)
    assert freshness.reason == "stale GroupVersion discovery: apps/v1"
    assert held.snapshot.checked_at - freshness.since < timedelta(seconds=30)


async def test_a_version_that_lost_its_resources_keeps_those_that_were_known(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(whole(PODS, APPS))
        first = await client.fetch()
        lost = changed(group("apps", freshness="Stale"), 0)
        script.gets.append(delta(lost, core="1", apps="2"))
        script.sources.append(stale_source("gone", None))
        second = await client.fetch(first)
        script.gets.append(delta(core="1", apps="2"))
        third = await client.fetch(second)
    version = second.snapshot.groups[1].versions[0]
    assert version.resources == first.snapshot.groups[1].versions[0].resources
    assert isinstance(version.freshness, Stale)
    assert (version.freshness.retained, version.freshness.reason) == (True, "upstream:east: gone")
    assert third.snapshot.groups is second.snapshot.groups


@every_library
async def test_a_closed_transport_says_so(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        await client.close()
        await client.close()
        with pytest.raises(ServerUnreachable, match="is closed"):
            await client.fetch()
        async with client.listening() as listener:
            with pytest.raises(StopAsyncIteration):
                await listener.next()
    assert not script.asked


@every_library
async def test_closing_ends_a_fetch_that_waits(family: str) -> None:
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(Hang())
        fetching = asyncio.create_task(client.fetch())
        await until(lambda: script.asked, "a request")
        await client.close()
        with pytest.raises(ServerUnreachable, match="is closed"):
            await fetching


@every_library
async def test_a_refusal_is_told_with_all_its_details(family: str) -> None:
    wrong = error_details_pb2.BadRequest()
    wrong.field_violations.add(field="scope", description="is not known")
    offered = error_details_pb2.PreconditionFailure()
    offered.violations.add(subject="accept_versions", description="v3 is offered")
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(seconds=7))
    end = End(grpc.StatusCode.FAILED_PRECONDITION, "no: \u00e9", (wrong, offered, retry))
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.append(end)
        with pytest.raises(CallRefused) as caught:
            await client.fetch()
    refused = caught.value
    assert (refused.code, refused.message) == (grpc.StatusCode.FAILED_PRECONDITION, "no: \u00e9")
    assert refused.problems == (
        FieldProblem("scope", "is not known"),
        FieldProblem("accept_versions", "v3 is offered"),
    )
    assert refused.retry_after_s == 7


@every_library
async def test_a_server_that_is_busy_is_asked_again_when_it_says(family: str) -> None:
    retry = error_details_pb2.RetryInfo(retry_delay=Duration(nanos=1000))
    busy = End(grpc.StatusCode.RESOURCE_EXHAUSTED, "busy", (retry,))
    async with scripted() as script, opened(family, script.address) as client:
        script.gets.extend([busy, whole(APPS)])
        assert names(await client.fetch()) == ["apps"]


@every_library
async def test_a_connection_that_breaks_in_a_call_is_no_answer(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_client._grpc.calls.RETRY_WAITS_S", ())
    async with scripted() as script, TcpProxy(script.address) as network:
        script.gets.append(Hang())
        async with opened(family, network.address) as client:
            fetching = asyncio.create_task(client.fetch())
            await until(lambda: script.asked, "a request")
            network.drop()
            with pytest.raises(ServerUnreachable, match=f"GetDiscovery {network.address}: "):
                await fetching


@pytest.mark.usefixtures("hurry")
@every_library
async def test_a_server_of_http_1_is_told_as_no_answer(family: str, server: Server) -> None:
    async with opened(family, local(server.http, 3)) as client:
        with pytest.raises((ServerUnreachable, CallRefused)):
            await client.fetch()
