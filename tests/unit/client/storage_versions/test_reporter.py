"""The reporter against a service on a real socket that fails in every way."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace

import grpc
import grpc.aio
import pytest
from apidiscovery_client.storage_versions import (
    ReporterEnded,
    RequestAttributes,
    ServiceChannels,
    StorageVersionReporter,
    Timing,
)
from apidiscovery_client.storage_versions.membership import boot_clock
from fake_storage_versions import (
    CREATE,
    WIDGETS,
    WIDGETS_V2,
    FakeStorageVersions,
    confirmed,
    fake_service,
)
from programs import free_port
from waiting import WITHIN_S

QUICK = Timing(
    lease_duration_s=60, heartbeat_s=0.1, retry_s=0.1, not_a_member_s=0.1, call_timeout_s=10.0
)
ME = "apiserver-of-server-1"
RECORDED = (ME, "widgets.example.dev")


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def service() -> AsyncGenerator[FakeStorageVersions]:
    async with fake_service() as fake:
        yield fake


def reporter(
    target: str | list[str] | grpc.aio.Channel | ServiceChannels,
    *,
    timing: Timing = QUICK,
    clock: Clock | None = None,
) -> StorageVersionReporter:
    return StorageVersionReporter(
        target,
        hostname="server-1",
        resources=[WIDGETS],
        timing=timing,
        clock=clock or boot_clock,
    )


async def closed(made: StorageVersionReporter) -> None:
    async with asyncio.timeout(WITHIN_S):
        async for is_open in made.changes():
            if not is_open:
                return


async def error_seen(made: StorageVersionReporter) -> str:
    async with asyncio.timeout(WITHIN_S):
        async for _ in made.changes():
            if made.last_error is not None:
                return made.last_error
    raise AssertionError("the reporter has ended")


async def test_it_joins_then_reports_then_departs(service: FakeStorageVersions) -> None:
    async with reporter(service.address) as made:
        assert made.refusal(CREATE) is not None
        assert made.api_server_id is None
        async with asyncio.timeout(WITHIN_S):
            assert await made.wait_joined() == ME
        await confirmed(made)
        assert made.refusal(CREATE) is None
        assert service.reported == {RECORDED: "example.dev/v1"}
        assert service.calls[0][0] == "Heartbeat"
    assert service.calls[-1][0] == "Depart"
    assert service.members == {}
    assert made.refusal(CREATE) is not None


async def test_requests_have_what_the_reporter_was_given(service: FakeStorageVersions) -> None:
    async with reporter(service.address) as made:
        await confirmed(made)
    heartbeat = service.requests("Heartbeat")[0]
    assert (heartbeat.hostname, heartbeat.lease_duration.seconds) == ("server-1", 60)
    assert {beat.instance for beat in service.requests("Heartbeat")} == {heartbeat.instance}
    assert len(heartbeat.instance) == 36
    report = service.requests("Report")[0]
    assert report.api_server_id == ME
    assert list(report.resources) == [WIDGETS.message()]
    assert list(report.resources[0].served_versions) == ["example.dev/v1"]


async def test_heartbeats_keep_the_interval_of_the_service(service: FakeStorageVersions) -> None:
    service.renew_after_s = 0.15
    loop = asyncio.get_running_loop()
    async with reporter(service.address, timing=Timing(heartbeat_s=1000)):
        await service.calls_of("Heartbeat", 1)
        started = loop.time()
        await service.calls_of("Heartbeat", 5)
        took_s = loop.time() - started
    assert took_s >= 4 * 0.15 * 0.96 - 0.05


async def test_without_an_interval_of_the_service_their_own_is_kept(
    service: FakeStorageVersions,
) -> None:
    service.renew_after_s = None
    async with reporter(service.address) as made:
        await service.calls_of("Heartbeat", 4)
        await confirmed(made)
    assert len(service.requests("Report")) == 1


async def test_reports_are_repeated(service: FakeStorageVersions) -> None:
    async with reporter(service.address, timing=replace(QUICK, report_again_s=0.2)) as made:
        await service.calls_of("Report", 3)
        assert made.confirmed
        service.failures["Report"].extend([grpc.StatusCode.UNAVAILABLE])
        await service.calls_of("Report", 4)
        assert "Report fails" in await error_seen(made)
        assert made.confirmed  # what was acknowledged stands
        await service.calls_of("Report", 5)


async def test_errors_are_retried_without_end_and_without_haste(
    service: FakeStorageVersions,
) -> None:
    service.failures["Heartbeat"].extend([grpc.StatusCode.UNIMPLEMENTED] * 3)
    service.failures["Report"].extend([grpc.StatusCode.INVALID_ARGUMENT] * 3)
    loop = asyncio.get_running_loop()
    started = loop.time()
    async with reporter(service.address) as made:
        assert await error_seen(made) == "Heartbeat fails"
        refusal = made.refusal(CREATE)
        assert refusal is not None
        assert refusal.message.endswith("last seen error: Heartbeat fails")
        await confirmed(made)
        assert made.last_error is None
    assert loop.time() - started >= 0.55  # six retries of 0.1 s
    assert len(service.requests("Report")) == 4


async def test_joined_again_closes_until_reported_again(service: FakeStorageVersions) -> None:
    async with reporter(service.address) as made:
        await confirmed(made)
        service.held.clear()
        service.collect()
        await closed(made)
        assert made.was_confirmed
        assert made.refusal(CREATE) is not None
        service.held.set()
        await confirmed(made)
        assert service.reported == {RECORDED: "example.dev/v1"}


async def test_a_lost_answer_does_not_hide_that_it_joined_again(
    service: FakeStorageVersions,
) -> None:
    async with reporter(service.address) as made:
        await confirmed(made)
        service.held.clear()
        service.lost["Heartbeat"] = 1  # the one that joins; the next does not say so
        service.collect()
        await closed(made)
        service.held.set()
        await confirmed(made)
        assert service.reported == {RECORDED: "example.dev/v1"}


async def test_an_answer_of_the_membership_before_opens_nothing(
    service: FakeStorageVersions,
) -> None:
    service.held.clear()
    async with reporter(service.address) as made:
        async with asyncio.timeout(WITHIN_S):
            await service.is_held.wait()
        service.collect()  # while the report is under way
        beats = len(service.requests("Heartbeat"))
        await service.calls_of("Heartbeat", beats + 2)
        assert service.reported == {}
        service.held.set()
        await service.calls_of("Report", 2)
        await confirmed(made)
        assert service.reported == {RECORDED: "example.dev/v1"}


async def test_a_report_of_no_member_brings_a_heartbeat(service: FakeStorageVersions) -> None:
    timing = replace(QUICK, report_again_s=0.2)
    service.renew_after_s = 15
    async with reporter(service.address, timing=timing) as made:
        await confirmed(made)
        service.collect()
        await service.calls_of("Heartbeat", 2)  # long before it would be due
        await confirmed(made)
    assert len(service.requests("Heartbeat")) == 2


async def test_without_an_answer_it_stays_open_until_the_lease_may_be_over(
    service: FakeStorageVersions,
) -> None:
    clock = Clock()
    async with reporter(service.address, clock=clock) as made:
        await confirmed(made)
        service.failures["Heartbeat"].extend([grpc.StatusCode.UNAVAILABLE] * 20)
        assert "Heartbeat fails" in await error_seen(made)
        clock.now = 53.9  # a tenth before the end of 60 s
        assert made.refusal(CREATE) is None
        clock.now = 54.1
        assert made.refusal(CREATE) is not None
        reports = len(service.requests("Report"))
        service.failures["Heartbeat"].clear()
        await confirmed(made)
        assert len(service.requests("Report")) > reports


async def test_a_gate_that_closes_by_time_is_a_change(service: FakeStorageVersions) -> None:
    timing = replace(QUICK, lease_duration_s=1)
    async with reporter(service.address, timing=timing) as made:
        await confirmed(made)
        service.failures["Heartbeat"].extend([grpc.StatusCode.UNAVAILABLE] * 1000)
        await closed(made)
        service.failures["Heartbeat"].clear()
        await confirmed(made)


async def test_an_upgrade_in_place_closes_until_reported(service: FakeStorageVersions) -> None:
    async with reporter(service.address) as made:
        await confirmed(made)
        made.update_resources([WIDGETS_V2])
        assert made.refusal(CREATE) is not None
        assert made.refusal(RequestAttributes("create", "example.dev", "gadgets")) is None
        await confirmed(made)
        assert service.reported == {RECORDED: "example.dev/v2"}


async def test_a_report_whose_answer_was_lost_cannot_come_after_another(
    service: FakeStorageVersions,
) -> None:
    timing = replace(QUICK, call_timeout_s=1.5)
    loop = asyncio.get_running_loop()
    async with reporter(service.address, timing=timing) as made:
        await confirmed(made)
        service.lost["Report"] = 1
        made.update_resources([WIDGETS_V2])
        await service.calls_of("Report", 2)
        await error_seen(made)
        started = loop.time()
        made.update_resources([WIDGETS])
        assert made.refusal(CREATE) is not None
        await confirmed(made)
        assert loop.time() - started >= 0.8
        assert service.reported == {RECORDED: "example.dev/v1"}


async def test_another_address_takes_over(service: FakeStorageVersions) -> None:
    async with fake_service(FakeStorageVersions(members=service.members)) as other:
        other.reported = service.reported  # one store, two replicas
        async with reporter([service.address, other.address]) as made:
            await confirmed(made)
            assert other.calls == []
            service.failures["Heartbeat"].extend([grpc.StatusCode.UNAVAILABLE] * 1000)
            await other.calls_of("Heartbeat", 2)
            assert made.confirmed
            assert made.last_error is None
        assert other.requests("Depart")


async def test_it_waits_for_a_service_that_starts_later() -> None:
    address = f"127.0.0.1:{free_port()}"
    async with reporter(address) as made:
        refused = f"the connection to the server {address} was refused"
        assert (await error_seen(made)).startswith(refused)
        async with fake_service(address=address):
            await confirmed(made)


async def test_a_channel_that_was_lent_stays_open(service: FakeStorageVersions) -> None:
    async with grpc.aio.insecure_channel(service.address) as channel:
        for _ in range(2):
            async with reporter(channel) as made:
                await confirmed(made)
    assert len(service.requests("Depart")) == 2


async def test_a_channel_that_is_closed_under_it_is_an_error_as_others(
    service: FakeStorageVersions,
) -> None:
    channel = grpc.aio.insecure_channel(service.address)
    async with reporter(channel) as made:
        await confirmed(made)
        await channel.close()
        assert "closed" in (await error_seen(made)).lower()


async def test_a_token_goes_with_every_call(service: FakeStorageVersions) -> None:
    async with reporter(ServiceChannels(service.address, token="t")) as made:  # noqa: S106
        await confirmed(made)
    assert service.calls[-1][0] == "Depart"
    assert {sent.get("authorization") for sent in service.metadata} == {"Bearer t"}


async def test_at_the_end_a_heartbeat_under_way_comes_before_the_departure(
    service: FakeStorageVersions,
) -> None:
    async with reporter(service.address) as made:
        await service.calls_of("Heartbeat", 3)
    assert service.calls[-1][0] == "Depart"
    assert service.members == {}
    assert not made.confirmed


async def test_without_a_service_the_reporter_ends_soon_and_without_error() -> None:
    async with fake_service() as gone:
        address = gone.address
    loop = asyncio.get_running_loop()
    async with reporter(address):
        started = loop.time()
    assert loop.time() - started < 8.0


async def test_no_task_is_left_behind(service: FakeStorageVersions) -> None:
    before = asyncio.all_tasks()
    with contextlib.suppress(ZeroDivisionError):
        async with reporter(service.address) as made:
            await confirmed(made)
            raise ZeroDivisionError
    left = asyncio.all_tasks() - before
    assert not [task for task in left if "apidiscovery_client/storage_versions" in repr(task)]


async def test_cancelling_departs_too(service: FakeStorageVersions) -> None:
    async def serve() -> None:
        async with reporter(service.address) as made:
            await confirmed(made)
            await asyncio.Event().wait()

    task = asyncio.create_task(serve())
    await service.calls_of("Report", 1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert service.members == {}


async def test_waiting_ends_with_the_reporter(service: FakeStorageVersions) -> None:
    service.held.clear()
    async with reporter(service.address) as made:
        waiting = asyncio.create_task(made.wait_confirmed())
        await service.calls_of("Report", 1)
        service.held.set()
        service.failures["Report"].extend([grpc.StatusCode.UNAVAILABLE] * 100)
        service.collect()
        await closed(made)
        waiting_again = asyncio.create_task(made.wait_confirmed())
        await asyncio.sleep(0)
    await asyncio.wait([waiting, waiting_again], timeout=WITHIN_S)
    assert isinstance(waiting_again.exception(), ReporterEnded)


async def test_it_is_used_once(service: FakeStorageVersions) -> None:
    made = reporter(service.address)
    with pytest.raises(ReporterEnded):
        await made.wait_confirmed()
    async with made:
        pass
    with pytest.raises(RuntimeError, match="entered once"):
        async with made:
            pass


async def test_steps_and_errors_are_logged_once_each(
    service: FakeStorageVersions, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "apidiscovery_client")
    service.failures["Heartbeat"].extend([grpc.StatusCode.UNAVAILABLE] * 3)
    async with reporter(service.address) as made:
        await confirmed(made)
    assert caplog.messages == [
        "heartbeat failed: Heartbeat fails",
        f"joined as {ME}",
        "reported widgets.example.dev in example.dev/v1",
        "departed",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"lease_duration_s": 0},
        {"lease_duration_s": 86401},
        {"jitter": 1.0},
        {"retry_s": 0},
        {"write_within_s": 3600},
    ],
)
def test_impossible_times_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"lease|jitter|wait"):
        Timing(**wrong)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def test_no_address_is_an_error() -> None:
    with pytest.raises(ValueError, match="at least one"):
        reporter([])
