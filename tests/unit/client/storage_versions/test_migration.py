"""A migration runs while all servers agree, and is interrupted when they may not."""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass

import grpc
import grpc.aio
import pytest
from apidiscovery_client import ServerUnreachable
from apidiscovery_client.storage_versions import migration
from apidiscovery_client.storage_versions.agreement import (
    Agreement,
    NoAgreement,
    agreement_progress,
    wait_for_agreement,
)
from apidiscovery_client.storage_versions.migration import AgreementLost, migration_guard
from apidiscovery_client.transports import CallRefused
from proxies import TcpProxy
from storage_version_server import Served, Stub, join, report, serving
from store_wrapper import failing
from waiting import WITHIN_S, until

NAME = "apps.deployments"
PROMPTLY_S = 10.0
LEFT_S = 20.0
HASTY_S = 0.6
PATIENT_S = 30.0
OBJECTS = "storageversions/"


@dataclass
class Cluster:
    """Two servers that write the same version, and whoever migrates."""

    served: Served
    stub: Stub
    channel: grpc.aio.Channel
    network: TcpProxy
    ids: list[str]

    def guard(self, version: str = "", timeout_s: float | None = WITHIN_S) -> migration_guard:
        return migration_guard(self.channel, NAME, encoding_version=version, timeout_s=timeout_s)

    async def says(self, number: int, version: str) -> None:
        await report(self.stub, self.ids[number], deployments=version)

    async def differ(self) -> None:
        await self.says(0, "v2")

    async def agree_on_another(self) -> None:
        await self.differ()
        await self.says(1, "v2")

    async def differ_for_a_moment(self) -> None:
        await self.differ()
        await self.says(0, "v1")

    async def remove(self) -> None:
        found = await self.served.state.collection.read(NAME)
        assert found is not None
        await self.served.state.collection.remove(found)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    before = asyncio.all_tasks()
    async with (
        serving() as served,
        served.stub() as stub,
        TcpProxy(served.target) as network,
        grpc.aio.insecure_channel(network.address) as channel,
    ):
        ids = [await join(stub, name) for name in ("one", "two")]
        made = Cluster(served, stub, channel, network, ids)
        await made.says(0, "v1")
        await made.says(1, "v1")
        yield made
        network.mend()
        served.store.before = None
        await served.no_streams()
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    # The server's own end a moment after it.
    assert not left or not (await asyncio.wait(left, timeout=LEFT_S))[1]


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the time without a successful read."""
    monkeypatch.setattr(migration, "UNVERIFIED_S", HASTY_S)
    monkeypatch.setattr(migration, "CHECK_EVERY_S", HASTY_S / 3)
    monkeypatch.setattr(migration, "_PAUSE_S", 2.0)  # the least timeout of a read


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengthen the time without a successful read."""
    monkeypatch.setattr(migration, "UNVERIFIED_S", PATIENT_S)


@asynccontextmanager
async def losing(reason: str) -> AsyncGenerator[None]:
    """Expect that the agreement is lost for a reason in time, and that nothing is left."""
    task = asyncio.current_task()
    assert task is not None
    began = time.monotonic()
    with pytest.raises(AgreementLost) as caught:
        yield
    assert time.monotonic() - began < PROMPTLY_S
    assert reason in caught.value.reason
    assert str(caught.value) == f"{NAME}: {caught.value.reason}"
    assert task.cancelling() == 0
    await asyncio.sleep(0)  # a cancellation that is left over would show


async def forever() -> None:
    await asyncio.sleep(WITHIN_S)
    raise AssertionError("nobody has interrupted this")


# Waiting.


async def test_it_waits_until_all_agree_and_tells_on_what(cluster: Cluster) -> None:
    await cluster.differ()
    entered: asyncio.Future[Agreement] = asyncio.get_running_loop().create_future()

    async def migrate() -> None:
        async with cluster.guard() as agreement:
            entered.set_result(agreement)

    task = asyncio.create_task(migrate())
    await asyncio.sleep(0.2)
    assert not entered.done()
    await cluster.says(1, "v2")
    await asyncio.wait_for(task, PROMPTLY_S)
    found = await cluster.served.state.collection.read(NAME)
    assert found is not None
    agreement = entered.result()
    assert (agreement.name, agreement.encoding_version) == (NAME, "apps/v2")
    assert agreement.resource_version == str(found.revision)


async def test_it_waits_for_the_version_that_is_asked_for(cluster: Cluster) -> None:
    began = time.monotonic()
    with pytest.raises(NoAgreement, match=r"no agreement on apps\.deployments within 0\.3 s"):
        async with cluster.guard("apps/v2", timeout_s=0.3):
            raise AssertionError("they agree on another one")
    assert time.monotonic() - began < PROMPTLY_S
    await cluster.agree_on_another()
    async with cluster.guard("apps/v2") as agreement:
        assert agreement.encoding_version == "apps/v2"


async def test_a_refused_or_failed_wait_is_an_error_as_of_other_calls() -> None:
    async with (
        serving(enabled=False) as served,
        grpc.aio.insecure_channel(served.target) as channel,
    ):
        with pytest.raises(CallRefused, match="the feature gate StorageVersionAPI is off"):
            await wait_for_agreement(channel, NAME)
    async with grpc.aio.insecure_channel(served.target) as channel:
        with pytest.raises(ServerUnreachable, match="the connection to the server was refused"):
            await wait_for_agreement(channel, NAME)


async def test_progress_names_agreeing_and_lagging_servers(cluster: Cluster) -> None:
    await cluster.differ()
    told: list[tuple[list[str], list[str], bool]] = []
    async for progress in agreement_progress(cluster.channel, [(NAME, "apps/v2")]):
        (one,) = progress.progress
        told.append((list(one.agreeing), list(one.lagging), progress.done))
        if len(told) == 1:
            await cluster.says(1, "v2")
    first, second = cluster.ids
    assert told == [([first], [second], False), (sorted(cluster.ids), [], True)]


async def test_a_closed_progress_ends_its_stream(cluster: Cluster) -> None:
    await cluster.differ()
    answers = agreement_progress(cluster.channel, [(NAME, "")])
    async with aclosing(answers):
        await anext(answers)
        assert cluster.served.streams == 1
    await cluster.served.no_streams()


# The end of the agreement.


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        pytest.param(Cluster.differ, "the servers no longer agree on apps/v1", id="differ"),
        pytest.param(Cluster.agree_on_another, "the servers no", id="another"),
        pytest.param(Cluster.differ_for_a_moment, "the servers ", id="for-a-moment"),
        pytest.param(Cluster.remove, "the object was removed", id="removed"),
    ],
)
async def test_the_body_is_interrupted_at_once(
    cluster: Cluster, end: Callable[[Cluster], Awaitable[None]], reason: str
) -> None:
    async with losing(reason), cluster.guard():
        ending = asyncio.ensure_future(end(cluster))
        try:
            await forever()
        finally:
            await ending


async def test_a_server_that_joins_with_the_same_version_ends_nothing(cluster: Cluster) -> None:
    async with cluster.guard() as agreement:
        third = await join(cluster.stub, "three")
        await report(cluster.stub, third, deployments="v1")
        await asyncio.sleep(0.2)
    assert agreement.encoding_version == "apps/v1"


@pytest.mark.usefixtures("hasty")
async def test_an_agreement_that_cannot_be_read_for_too_long_is_lost(cluster: Cluster) -> None:
    async with losing("cannot be verified"), cluster.guard():
        began = time.monotonic()
        cluster.network.cut()
        try:
            await forever()
        finally:
            assert time.monotonic() - began > HASTY_S / 2
            cluster.network.mend()


@pytest.mark.usefixtures("hasty")
async def test_a_service_without_its_store_proves_nothing(cluster: Cluster) -> None:
    async with losing("the store of the server cannot be reached"), cluster.guard():
        cluster.served.store.before = failing("get", OBJECTS)
        await forever()


@pytest.mark.usefixtures("patient")
async def test_a_shorter_absence_is_survived(cluster: Cluster) -> None:
    async with cluster.guard():
        await until(lambda: cluster.served.streams, "it watches")
        cluster.network.cut()
        await asyncio.sleep(1.5)
        cluster.network.mend()
        cluster.network.drop()
        await cluster.served.counted("WatchStorageVersions", "CANCELLED", 1)
        await until(lambda: cluster.served.streams, "it watches again")


@pytest.mark.usefixtures("patient")
async def test_a_disagreement_during_an_absence_is_detected(cluster: Cluster) -> None:
    async with losing("the servers disagreed for a while"), cluster.guard():
        cluster.network.cut()
        await cluster.differ_for_a_moment()
        cluster.network.drop()
        cluster.network.mend()
        await forever()


@pytest.mark.usefixtures("patient")
async def test_the_agreement_is_read_once_more_after_the_body(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migration, "CHECK_EVERY_S", PATIENT_S)
    reads = cluster.served.store.reads
    async with cluster.guard():
        before = reads.count(OBJECTS + NAME)
    assert reads.count(OBJECTS + NAME) == before + 1


@pytest.mark.usefixtures("patient")
async def test_the_guard_ends_when_the_last_read_succeeds(cluster: Cluster) -> None:
    loop = asyncio.get_running_loop()
    async with cluster.guard():
        cluster.served.store.before = failing("get", OBJECTS)
        ended = time.monotonic()
        loop.call_later(0.3, setattr, cluster.served.store, "before", None)
    assert 0.2 < time.monotonic() - ended < PATIENT_S


@pytest.mark.usefixtures("hasty")
async def test_without_a_last_read_the_agreement_is_lost(cluster: Cluster) -> None:
    async with losing("cannot be verified"), cluster.guard():
        cluster.served.store.before = failing("get", OBJECTS)


async def test_a_change_just_before_the_end_counts(cluster: Cluster) -> None:
    for _ in range(10):
        async with losing("the servers"), cluster.guard():
            ending = asyncio.ensure_future(cluster.differ_for_a_moment())
            try:
                await asyncio.shield(ending)
            finally:
                await ending


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("goes_on", [True, False])
async def test_a_closed_channel_proves_nothing(cluster: Cluster, goes_on: bool) -> None:  # noqa: FBT001
    channel = grpc.aio.insecure_channel(cluster.served.target)
    async with losing(""), migration_guard(channel, NAME):
        await channel.close()
        if goes_on:
            await forever()


# What else ends a body; test_migration_matrix.py has the cancellations.


async def test_an_error_of_the_body_is_its_own(cluster: Cluster) -> None:
    with pytest.raises(LookupError, match="mine") as caught:
        async with cluster.guard():
            raise LookupError("mine")
    assert caught.value.__cause__ is None


async def test_a_timeout_around_it_does_not_hide_the_loss(cluster: Cluster) -> None:
    async with losing("no longer agree"), asyncio.timeout(WITHIN_S) as limit, cluster.guard():
        await cluster.differ()
        await forever()
    assert not limit.expired()


async def test_a_timeout_within_it_does_not_hide_the_loss(cluster: Cluster) -> None:
    async with losing("no longer agree"), cluster.guard(), asyncio.timeout(WITHIN_S):
        await cluster.differ()
        await forever()


async def test_tasks_of_the_body_are_interrupted(cluster: Cluster) -> None:
    tasks: list[asyncio.Task[None]] = []
    async with losing("no longer agree"), cluster.guard(), asyncio.TaskGroup() as group:
        tasks += [group.create_task(forever()) for _ in range(3)]
        await cluster.differ()
    assert all(task.cancelled() for task in tasks)


async def test_one_within_another_ends_for_its_own_reason(cluster: Cluster) -> None:
    await report(cluster.stub, cluster.ids[0], daemonsets="v1", deployments="v1")
    inner = migration_guard(cluster.channel, "apps.daemonsets", timeout_s=WITHIN_S)
    async with losing("no longer agree on apps/v1"), cluster.guard(), inner:
        await report(cluster.stub, cluster.ids[0], daemonsets="v1", deployments="v2")
        await forever()
