"""Membership: heartbeats, departures, and the end of leases."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions.expiry import LeaseExpiry
from apidiscovery_service.storage_versions.leases import identity
from apidiscovery_service.storage_versions.members import (
    Heartbeat,
    MembershipCache,
    NotMember,
    Superseded,
)
from apidiscovery_service.store import ABSENT, Fenced, Guard, StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from storage_version_replicas import NOON, Replica, end, lease_key, object_key, ticking, writes
from store_wrapper import DisturbedStore, failing, once
from waiting import WITHIN_S, until

NODE_1 = "apiserver-lgabes5ywnaqeagh5dny4zlzs4"


@pytest.fixture
def store() -> DisturbedStore:
    return DisturbedStore(MemoryStore())


@pytest.fixture
def replica(store: DisturbedStore) -> Replica:
    return Replica(store)


def spec(lease: Object) -> Object:
    value = lease["spec"]
    assert isinstance(value, dict)
    return value


# The identity.


def test_the_identity_of_a_kube_apiserver_is_the_one_that_it_gives_itself() -> None:
    assert identity("node-1") == NODE_1


def test_the_component_decides_the_identity_too() -> None:
    digest = hashlib.sha256(b"\x00\x06node-1\x00\x04demo").digest()
    assert identity("node-1", "demo") != NODE_1
    # Base32 of 16 bytes has 26 digits; the first has the first five bits.
    assert identity("node-1", "demo")[10] == "abcdefghijklmnopqrstuvwxyz234567"[digest[0] >> 3]
    assert len(identity("node-1", "demo")) == len(NODE_1)


def test_hostname_and_component_are_not_just_joined() -> None:
    assert identity("ab", "c") != identity("a", "bc")


# Heartbeats.


async def test_the_first_heartbeat_makes_the_lease_of_a_kube_apiserver(replica: Replica) -> None:
    beat = await replica.members.heartbeat(Heartbeat("node-1", instance="life"))
    assert beat.joined
    assert beat.api_server_id == NODE_1
    assert beat.renew_after_s == 10
    metadata = metadata_of(beat.lease.object)
    assert metadata["name"] == NODE_1
    assert metadata["namespace"] == "kube-system"
    assert metadata["labels"] == {
        "apiserver.kubernetes.io/identity": "kube-apiserver",
        "kubernetes.io/hostname": "node-1",
    }
    assert spec(beat.lease.object) == {
        "holderIdentity": f"{NODE_1}_life",
        "leaseDurationSeconds": 3600,
        "renewTime": "2026-03-01T12:00:00.000000Z",
    }
    assert (await replica.members.membership(NODE_1)) == Guard(
        lease_key(NODE_1), beat.lease.created
    )


async def test_a_further_heartbeat_renews(store: DisturbedStore) -> None:
    replica = Replica(store, now=ticking())
    first = await replica.beat("node-1")
    second = await replica.beat("node-1", duration_s=6)
    assert not second.joined
    assert second.renew_after_s == 2
    assert second.lease.created == first.lease.created
    assert spec(second.lease.object) == {
        "holderIdentity": f"{NODE_1}_1",
        "leaseDurationSeconds": 6,
        "renewTime": "2026-03-01T12:00:01.000000Z",
    }
    assert metadata_of(second.lease.object) == {
        **metadata_of(first.lease.object),
        "resourceVersion": str(second.lease.revision),
    }


async def test_a_new_holder_takes_over_and_is_counted(store: DisturbedStore) -> None:
    replica = Replica(store, now=ticking())
    await replica.beat("node-1")
    for life in ("2", "3"):
        before = await replica.leases.read(NODE_1)
        beat = await replica.members.heartbeat(Heartbeat("node-1", instance=life))
        assert beat.joined
        assert before
        assert before.created < beat.lease.created
        assert metadata_of(before.object)["uid"] != metadata_of(beat.lease.object)["uid"]
    assert list(spec(beat.lease.object).items()) == [
        ("holderIdentity", f"{NODE_1}_3"),
        ("leaseDurationSeconds", 3600),
        ("acquireTime", "2026-03-01T12:00:02.000000Z"),
        ("renewTime", "2026-03-01T12:00:02.000000Z"),
        ("leaseTransitions", 2),
    ]


async def test_without_an_instance_a_heartbeat_is_of_whoever_holds_the_lease(
    replica: Replica,
) -> None:
    first = await replica.members.heartbeat(Heartbeat("node-1"))
    holder = str(spec(first.lease.object)["holderIdentity"])
    assert holder.startswith(f"{NODE_1}_")
    again = await replica.members.heartbeat(Heartbeat("node-1"))
    assert not again.joined
    assert spec(again.lease.object)["holderIdentity"] == holder


async def test_one_of_two_concurrent_first_heartbeats_joins(
    replica: Replica, store: DisturbedStore
) -> None:
    store.before = once("put", lease_key(NODE_1), lambda: replica.beat("node-1"))
    beat = await replica.beat("node-1")
    assert not beat.joined
    assert store.puts == [lease_key(NODE_1)] * 2


async def test_a_lease_that_ends_during_a_heartbeat_is_made_again(
    replica: Replica, store: DisturbedStore
) -> None:
    first = await replica.beat("node-1")
    store.before = once("put", lease_key(NODE_1), lambda: replica.members.depart(NODE_1))
    beat = await replica.beat("node-1")
    assert beat.joined
    assert beat.lease.created > first.lease.created
    assert metadata_of(first.lease.object)["uid"] != metadata_of(beat.lease.object)["uid"]


@pytest.mark.parametrize(
    ("heartbeat", "field"),
    [
        pytest.param(Heartbeat(""), "hostname", id="no hostname"),
        pytest.param(Heartbeat("a b"), "hostname", id="hostname that is no label"),
        pytest.param(Heartbeat("a" * 64), "hostname", id="hostname too long"),
        pytest.param(Heartbeat("a", "b/c"), "component", id="component"),
        pytest.param(Heartbeat("a", instance="i" * 254), "instance", id="instance"),
        pytest.param(Heartbeat("a", lease_duration_s=0), "lease_duration", id="too short"),
        pytest.param(Heartbeat("a", lease_duration_s=86_401), "lease_duration", id="too long"),
    ],
)
async def test_an_invalid_heartbeat_is_refused(
    replica: Replica, store: DisturbedStore, heartbeat: Heartbeat, field: str
) -> None:
    with pytest.raises(InvalidFields) as refused:
        await replica.members.heartbeat(heartbeat)
    assert [violation.field for violation in refused.value.violations] == [field]
    assert store.puts == []


@pytest.mark.parametrize("duration_s", [1, 86_400])
async def test_the_shortest_and_the_longest_duration_are_taken(
    replica: Replica, duration_s: int
) -> None:
    beat = await replica.beat("node-1", duration_s)
    assert spec(beat.lease.object)["leaseDurationSeconds"] == duration_s


async def test_a_heartbeat_fails_when_the_store_does(
    replica: Replica, store: DisturbedStore
) -> None:
    store.before = failing("get", "leases/")
    with pytest.raises(StoreUnavailable):
        await replica.beat("node-1")


# Departures.


async def test_a_departed_server_is_no_member(replica: Replica) -> None:
    await replica.beat("node-1")
    assert await replica.members.depart(NODE_1)
    with pytest.raises(NotMember, match=NODE_1):
        await replica.members.membership(NODE_1)
    assert replica.members.absence(NODE_1) == Guard(lease_key(NODE_1), ABSENT)


async def test_a_late_departure_of_an_earlier_life_ends_nothing(replica: Replica) -> None:
    await replica.members.heartbeat(Heartbeat("node-1", instance="first"))
    await replica.members.heartbeat(Heartbeat("node-1", instance="second"))
    assert not await replica.members.depart(NODE_1, "first")
    assert await replica.leases.read(NODE_1)
    assert await replica.members.depart(NODE_1, "second")
    assert await replica.leases.read(NODE_1) is None


async def test_a_departure_of_no_member_is_no_error(replica: Replica) -> None:
    assert not await replica.members.depart(NODE_1)


async def test_a_departure_wins_against_a_heartbeat_that_came_between(
    replica: Replica, store: DisturbedStore
) -> None:
    await replica.beat("node-1")
    store.before = once("delete", lease_key(NODE_1), lambda: replica.beat("node-1"))
    assert await replica.members.depart(NODE_1)
    assert await replica.leases.read(NODE_1) is None


async def test_an_invalid_identity_cannot_depart(replica: Replica) -> None:
    with pytest.raises(InvalidFields) as refused:
        await replica.members.depart("../claims")
    assert refused.value.violations[0].field == "api_server_id"


async def test_only_a_server_without_a_lease_in_the_store_is_gone(
    replica: Replica, store: DisturbedStore
) -> None:
    await replica.beat("node-1")
    await store.put(lease_key("apiserver-broken"), b"no object")
    ids = [NODE_1, "apiserver-broken", "apiserver-other"]
    cache = MembershipCache(replica.members)
    assert await cache.gone(ids) == {"apiserver-other"}
    cache.clear()
    store.before = failing("get", lease_key("apiserver-other"))
    with pytest.raises(StoreUnavailable):
        await cache.gone(ids)


# The end of leases.


@asynccontextmanager
async def expiring(expiry: LeaseExpiry, guard: Guard) -> AsyncGenerator[None]:
    """End leases, which must not fail meanwhile."""
    task = asyncio.ensure_future(expiry.expire(guard))
    try:
        yield
        assert not task.done()
    finally:
        await end(task)


async def test_a_silent_lease_ends_after_its_duration_and_no_sooner(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    async with replica.following():
        begun = asyncio.get_running_loop().time()
        await replica.beat("node-1", duration_s=1)
        await replica.beat("node-2", duration_s=3)
        async with expiring(replica.expiry, guard):
            await until(lambda: is_gone(replica, NODE_1))
            assert asyncio.get_running_loop().time() - begun >= 1
            assert await replica.leases.read(identity("node-2")) is not None
            await until(lambda: is_gone(replica, identity("node-2")))
            assert asyncio.get_running_loop().time() - begun >= 3
    assert len(store.puts) == 3


async def is_gone(replica: Replica, server_id: str) -> bool:
    return await replica.leases.read(server_id) is None


async def test_a_lease_that_is_renewed_lasts_on_whatever_its_clock_says(
    store: DisturbedStore,
) -> None:
    """The clock of the replica that takes the heartbeats is days behind."""
    behind = Replica(store, now=lambda: NOON - timedelta(days=3))
    guard = await behind.take_claim()
    async with behind.following():
        await behind.beat("node-1", duration_s=3)
        async with expiring(behind.expiry, guard):
            for _ in range(5):
                await asyncio.sleep(0.8)
                assert not (await behind.beat("node-1", duration_s=3)).joined


async def test_a_renewal_at_the_last_moment_wins(replica: Replica, store: DisturbedStore) -> None:
    guard = await replica.take_claim()
    renewed = asyncio.Event()

    async def renew() -> None:
        assert not (await replica.beat("node-1", duration_s=3)).joined
        renewed.set()

    async with replica.following():
        await replica.beat("node-1", duration_s=1)
        store.before = once("delete", lease_key(NODE_1), renew)
        async with expiring(replica.expiry, guard):
            async with asyncio.timeout(WITHIN_S):
                await renewed.wait()
            await asyncio.sleep(0.1)
            assert await replica.leases.read(NODE_1) is not None
            await until(lambda: is_gone(replica, NODE_1))  # it was silent again


async def test_while_the_store_cannot_be_read_no_lease_ends(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    async with replica.following():
        await replica.beat("node-1", duration_s=2)
        async with expiring(replica.expiry, guard):
            await asyncio.sleep(0.1)
            store.before = failing("get", lease_key(NODE_1))
            await asyncio.sleep(2.4)
            store.before = None
            back = asyncio.get_running_loop().time()
            # The server may renew within a whole duration, less the pause after the last failure.
            await until(lambda: is_gone(replica, NODE_1))
            assert asyncio.get_running_loop().time() - back >= 0.6


async def test_nothing_is_removed_after_the_claim_is_lost(
    replica: Replica, store: DisturbedStore
) -> None:
    guard = await replica.take_claim()
    await store.delete(guard.key)
    async with replica.following():
        await replica.beat("node-1", duration_s=1)
        async with asyncio.timeout(WITHIN_S):
            with pytest.raises(Fenced):
                await replica.expiry.expire(guard)
    assert await replica.leases.read(NODE_1) is not None


async def test_no_lease_ends_because_the_process_was_stopped(store: DisturbedStore) -> None:
    """The clock leaps once, as it does for a process that was stopped."""
    replica = Replica(store)
    leap_s = 0.0

    def monotonic() -> float:
        return asyncio.get_running_loop().time() + leap_s

    expiry = LeaseExpiry(replica.leases, monotonic=monotonic)
    guard = await replica.take_claim()
    async with replica.following():
        await replica.beat("node-1", duration_s=2)
        async with expiring(expiry, guard):
            await asyncio.sleep(0.1)
            leap_s = 100.0
            leapt = asyncio.get_running_loop().time()
            await until(lambda: is_gone(replica, NODE_1))
            assert asyncio.get_running_loop().time() - leapt >= 2


async def test_a_report_of_an_earlier_life_that_is_late_changes_nothing() -> None:
    shared = MemoryStore()
    cut_off = DisturbedStore(shared)  # the replica that is cut off from the store
    old, new = Replica(cut_off), Replica(shared)
    beat = await new.members.heartbeat(Heartbeat("one", instance="first"))
    server_id = beat.api_server_id
    await new.says(server_id, deployments="v2")

    on_its_way, mended = asyncio.Event(), asyncio.Event()

    async def hold(operation: str, key: str) -> None:
        if (operation, key) == ("put", object_key("apps.deployments")):
            on_its_way.set()
            await mended.wait()

    cut_off.before = hold
    late = asyncio.create_task(old.says(server_id, deployments="v1"))  # rolled back to v1 ...
    await on_its_way.wait()  # ... and killed
    await new.members.heartbeat(Heartbeat("one", instance="second"))  # again with v2
    await new.says(server_id, deployments="v2")  # acknowledged, nothing written
    mended.set()
    with pytest.raises(NotMember):
        await late
    assert await new.written("apps.deployments") == {server_id: "apps/v2"}


async def test_a_report_that_reaches_the_server_late_is_refused() -> None:
    replica = Replica(MemoryStore())
    beat = await replica.members.heartbeat(Heartbeat("one", instance="first"))
    server_id = beat.api_server_id
    await replica.reports.report(server_id, [writes("deployments", "v2")], "first")
    await replica.members.heartbeat(Heartbeat("one", instance="second"))
    with pytest.raises(NotMember, match="another instance"):
        await replica.reports.report(server_id, [writes("deployments", "v1")], "first")
    await replica.reports.report(server_id, [writes("deployments", "v2")], "second")
    assert await replica.written("apps.deployments") == {server_id: "apps/v2"}


async def test_a_heartbeat_of_an_earlier_life_that_is_late_ends_no_later_one() -> None:
    replica = Replica(MemoryStore())
    for life in ("first", "second", "third"):
        beat = await replica.members.heartbeat(Heartbeat("one", instance=life))
    server_id = beat.api_server_id
    for life in ("second", "first"):
        with pytest.raises(Superseded, match="another process has become"):
            await replica.members.heartbeat(Heartbeat("one", instance=life))
    lease = await replica.leases.read(server_id)
    assert lease
    assert lease.object == beat.lease.object


async def test_a_superseded_instance_may_join_after_the_later_one_departed() -> None:
    replica = Replica(MemoryStore())
    for life in ("first", "second"):
        beat = await replica.members.heartbeat(Heartbeat("one", instance=life))
    await replica.members.depart(beat.api_server_id, "second")
    assert (await replica.members.heartbeat(Heartbeat("one", instance="first"))).joined
