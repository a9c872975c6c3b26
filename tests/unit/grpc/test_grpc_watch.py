"""WatchDiscovery: messages, heartbeats, and that a watch leaves nothing behind."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import grpc
import pytest
from apidiscovery.service.v1 import discovery_pb2
from google.protobuf.duration_pb2 import Duration
from grpc_contributions import APPS, CORE, EXAMPLES, one_group, resource
from grpc_errors import refusal
from grpc_holding import Holding
from grpc_server import Served, WatchCall, next_changes, next_message, serving
from waiting import WITHIN_S, until

SCOPE_CORE, SCOPE_GROUPS, SCOPE_ALL = (
    discovery_pb2.DISCOVERY_SCOPE_CORE,
    discovery_pb2.DISCOVERY_SCOPE_GROUPS,
    discovery_pb2.DISCOVERY_SCOPE_ALL,
)
# How much later than asked for a heartbeat may come on a busy machine.
LATE_S = 10.0


@asynccontextmanager
async def watching(
    served: Served,
    known: Holding | None = None,
    scope: discovery_pb2.DiscoveryScope.ValueType = SCOPE_ALL,
    heartbeat_s: int | None = None,
) -> AsyncGenerator[WatchCall]:
    """Watch from the known groups; cancel in the end."""
    request = discovery_pb2.WatchDiscoveryRequest(
        scope=scope,
        known_groups=known.known if known else None,
        heartbeat_interval=Duration(seconds=heartbeat_s) if heartbeat_s else None,
    )
    async with served.stub() as stub:
        call = stub.WatchDiscovery(request)
        try:
            yield call
        finally:
            call.cancel()


async def round_trips(served: Served) -> None:
    """Make calls, so that each watch of the server has time to run."""
    async with served.stub() as stub:
        for _ in range(3):
            await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest(), timeout=WITHIN_S)


async def test_first_message_of_an_empty_server_has_the_etag_of_nothing() -> None:
    async with serving() as served, watching(served) as call:
        assert (await next_changes(call)).etag == Holding().etag(SCOPE_ALL)


async def test_each_change_is_one_message_with_the_difference() -> None:
    async with serving(CORE, APPS) as served, watching(served) as call:
        held = Holding()
        held.apply((await next_changes(call)).delta)

        served.registry.publish(EXAMPLES[0])
        added = await next_changes(call)
        held.apply(added.delta)
        assert [(c.name, c.position) for c in added.delta.changed] == [("a.example.com", 1)]
        assert added.etag == held.etag(SCOPE_ALL)

        served.registry.publish(one_group("", resource("nodes"), priority=18000))
        changed = await next_changes(call)
        held.apply(changed.delta)
        assert [(c.name, c.position) for c in changed.delta.changed] == [("", 0)]
        assert changed.etag == held.etag(SCOPE_ALL)

        served.registry.publish(one_group("a.example.com", priority=20000))
        moved = await next_changes(call)
        held.apply(moved.delta)
        assert [(c.name, c.position) for c in moved.delta.changed] == [("a.example.com", 0)]
        assert moved.etag == held.etag(SCOPE_ALL)

        served.registry.withdraw(APPS.source, CORE.source)
        removed = await next_changes(call)
        held.apply(removed.delta)
        assert not removed.delta.changed
        assert list(removed.delta.removed) == ["", "apps"]
        assert removed.etag == held.etag(SCOPE_ALL)


async def test_version_asked_for_is_the_one_sent() -> None:
    async with serving(CORE, APPS) as served, served.stub() as stub:
        request = discovery_pb2.WatchDiscoveryRequest(
            accept_versions=[discovery_pb2.DISCOVERY_VERSION_V2BETA1]
        )
        call = stub.WatchDiscovery(request)
        first = await next_changes(call)
        served.registry.publish(EXAMPLES[0])
        second = await next_changes(call)
        call.cancel()
    for changed in (*first.delta.changed, *second.delta.changed):
        assert changed.WhichOneof("group") == "v2beta1"


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        pytest.param(SCOPE_CORE, "", "apps", id="core"),
        pytest.param(SCOPE_GROUPS, "apps", "", id="groups"),
    ],
)
async def test_changes_out_of_scope_are_not_sent(
    scope: discovery_pb2.DiscoveryScope.ValueType, inside: str, outside: str
) -> None:
    async with serving(CORE, APPS) as served, watching(served, scope=scope) as call:
        first = await next_changes(call)
        assert [group.name for group in first.delta.changed] == [inside]
        for number in range(10):
            served.registry.publish(one_group(outside, resource(f"r{number}")))
            await round_trips(served)
        served.registry.withdraw(f"source of {outside}")
        await round_trips(served)
        served.registry.publish(one_group(inside, resource("last")))
        second = await next_changes(call)
        assert [group.name for group in second.delta.changed] == [inside]
        assert not second.delta.removed


async def test_changes_without_effect_are_not_sent() -> None:
    async with serving(CORE, APPS) as served, watching(served) as call:
        await next_changes(call)
        served.registry.publish(APPS)
        await round_trips(served)
        served.registry.publish(EXAMPLES[0])
        served.registry.withdraw(EXAMPLES[0].source)
        await round_trips(served)
        served.registry.publish(EXAMPLES[1])
        assert [c.name for c in (await next_changes(call)).delta.changed] == ["b.example.com"]


async def test_changes_at_one_moment_arrive_as_one() -> None:
    async with serving(CORE) as served, watching(served) as call:
        await next_changes(call)
        for example in EXAMPLES:
            served.registry.publish(example)
        served.registry.withdraw(EXAMPLES[0].source)
        changes = await next_changes(call)
    names = [f"{letter}.example.com" for letter in "bcde"]
    assert [changed.name for changed in changes.delta.changed] == names
    assert not changes.delta.removed


async def test_resuming_at_another_server_with_the_same_content_sends_no_change() -> None:
    async with serving(CORE, APPS, *EXAMPLES) as one, watching(one) as call:
        held = Holding()
        first = await next_changes(call)
        held.apply(first.delta)
    # Fed in another order, and not without detours.
    async with serving(*EXAMPLES[::-1], one_group("apps"), APPS, CORE) as other:
        other.registry.publish(one_group("gone.example.com"))
        other.registry.withdraw("source of gone.example.com")
        async with watching(other, held) as call:
            again = await next_changes(call)
    assert again.HasField("delta")
    assert again.delta.ByteSize() == 0
    assert again.etag == first.etag


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same-server", "other-server"])
async def test_resuming_sends_removals_of_the_meantime(
    elsewhere: bool,  # noqa: FBT001
) -> None:
    """`removed = known - current`, on every first message (istio#41494, kmesh#415)."""
    async with serving(CORE, APPS, *EXAMPLES) as one:
        async with watching(one) as call:
            held = Holding()
            held.apply((await next_changes(call)).delta)
        one.registry.withdraw(CORE.source, EXAMPLES[2].source)
        async with (
            serving(*EXAMPLES[3:], APPS, *EXAMPLES[:2]) as other,
            watching(other if elsewhere else one, held) as call,
        ):
            changes = await next_changes(call)
    assert not changes.delta.changed
    assert list(changes.delta.removed) == ["", "c.example.com"]
    held.apply(changes.delta)
    assert held.etag(SCOPE_ALL) == changes.etag


@pytest.mark.parametrize(
    ("scope", "removed"),
    [
        pytest.param(SCOPE_CORE, [""], id="core"),
        pytest.param(SCOPE_GROUPS, ["apps", "b.example.com"], id="groups"),
        pytest.param(SCOPE_ALL, ["", "apps", "b.example.com"], id="all"),
    ],
)
async def test_resuming_with_another_scope_removes_nothing_outside_of_it(
    scope: discovery_pb2.DiscoveryScope.ValueType, removed: list[str]
) -> None:
    async with serving(CORE, APPS, *EXAMPLES[:2]) as served:
        async with served.stub() as stub:
            request = discovery_pb2.GetDiscoveryRequest()
            held = Holding.of(await stub.GetDiscovery(request, timeout=WITHIN_S))
        served.registry.withdraw(CORE.source, APPS.source, EXAMPLES[1].source)
        async with watching(served, held, scope) as call:
            first = await next_changes(call)
            assert list(first.delta.removed) == removed
            assert not first.delta.changed
            # Nor later: the known groups count for the first message alone.
            served.registry.publish(CORE, APPS)
            second = await next_changes(call)
    expected = {SCOPE_CORE: [""], SCOPE_GROUPS: ["apps"]}.get(scope, ["", "apps"])
    assert [changed.name for changed in second.delta.changed] == expected
    assert not second.delta.removed


async def test_heartbeats_come_within_the_interval() -> None:
    async with serving(CORE, APPS) as served:
        await asyncio.gather(
            *(assert_heartbeat(served, scope) for scope in (SCOPE_CORE, SCOPE_GROUPS, SCOPE_ALL))
        )


async def assert_heartbeat(served: Served, scope: discovery_pb2.DiscoveryScope.ValueType) -> None:
    """Check that a watch of nothing new hears after a second that it is up to date."""
    loop = asyncio.get_running_loop()
    begun = loop.time()  # the interval begins when the first message is sent, not when it is read
    async with watching(served, scope=scope, heartbeat_s=1) as call:
        tag = (await next_changes(call)).etag
        since = loop.time()
        message = await next_message(call)
        assert message.WhichOneof("event") == "heartbeat"
        assert message.heartbeat.etag == tag
        assert loop.time() - begun > 0.9
        assert loop.time() - since < 1 + LATE_S


@pytest.mark.parametrize("pause_s", [0, 0.02], ids=["restless", "busy"])
async def test_a_heartbeat_comes_in_spite_of_continuous_changes_out_of_scope(
    pause_s: float,
) -> None:
    loop = asyncio.get_running_loop()
    async with serving(CORE, APPS) as served:

        async def publish_for_ever() -> None:
            number = 0
            while True:
                number += 1
                served.registry.publish(one_group("apps", resource(f"r{number}")))
                await asyncio.sleep(pause_s)

        async with watching(served, scope=SCOPE_CORE, heartbeat_s=1) as call:
            tag = (await next_changes(call)).etag
            since = loop.time()
            publishing = asyncio.create_task(publish_for_ever())
            message = await next_message(call)
            assert message.WhichOneof("event") == "heartbeat"
            assert message.heartbeat.etag == tag
            assert loop.time() - since < 1 + LATE_S
            publishing.cancel()


async def test_a_change_is_as_good_as_a_heartbeat() -> None:
    """The interval begins anew with every message, whatever it says."""
    loop = asyncio.get_running_loop()
    async with serving(CORE) as served, watching(served, heartbeat_s=1) as call:
        await next_changes(call)
        half = loop.time() + 0.5
        await until(lambda: loop.time() > half)
        begun = loop.time()
        served.registry.publish(APPS)
        message = await next_message(call)
        while message.HasField("heartbeat"):  # on a busy machine the half may be a whole one
            message = await next_message(call)
        changes, since = message.changes, loop.time()
        message = await next_message(call)
        assert message.heartbeat.etag == changes.etag
        assert loop.time() - begun > 0.9
        assert loop.time() - since < 1 + LATE_S


async def test_a_watch_that_is_cancelled_is_counted_and_forgotten() -> None:
    async with serving(CORE) as served:
        async with watching(served) as call:
            await next_changes(call)
            assert served.watchers == 1
            call.cancel()
            await until(lambda: served.watchers == 0, within_s=10)
        ended = "apidiscovery_grpc_requests_total"
        await until(lambda: served.sample(ended, method="WatchDiscovery") == 1, within_s=10)
        # A later change does not bring it back.
        served.registry.publish(APPS)
        await round_trips(served)
        assert served.watchers == 0


async def test_a_watch_whose_connection_is_closed_is_forgotten() -> None:
    async with serving(CORE) as served:
        async with served.stub() as stub:
            calls = [stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest()) for _ in range(5)]
            for call in calls:
                await next_changes(call)
            assert served.watchers == 5
        await until(lambda: served.watchers == 0, within_s=10)


async def test_a_watch_past_its_deadline_is_forgotten() -> None:
    async with serving(CORE) as served, served.stub() as stub:
        call = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest(), timeout=0.3)
        assert await call.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: served.watchers == 0, within_s=10)


async def test_a_watch_that_is_refused_was_never_there() -> None:
    async with serving(CORE) as served, served.stub() as stub:
        request = discovery_pb2.WatchDiscoveryRequest(heartbeat_interval=Duration())
        await refusal(stub.WatchDiscovery(request).read())
        assert served.watchers == 0
