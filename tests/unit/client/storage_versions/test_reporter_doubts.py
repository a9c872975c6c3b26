"""A reporter does not rely on answers that may no longer hold, or not yet."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace

import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery_client.storage_versions import (
    ReporterEnded,
    StorageVersionReporter,
    StoredResource,
    Timing,
)
from fake_storage_versions import (
    CREATE,
    WIDGETS,
    WIDGETS_V2,
    Context,
    FakeStorageVersions,
    confirmed,
    fake_service,
)

CALL_TIMEOUT_S = 2.0
QUICK = Timing(lease_duration_s=60, heartbeat_s=0.1, retry_s=0.1, call_timeout_s=CALL_TIMEOUT_S)


@dataclass
class Store(FakeStorageVersions):
    """A service that also says how often its leases changed hands, and how it counts.

    Attributes:
        transitions: Of the lease.
        revision: Of the last write.
    """

    transitions: int = 0
    revision: int = 100

    async def Heartbeat(  # noqa: N802 - a method of the service
        self, request: pb.HeartbeatRequest, context: Context
    ) -> pb.HeartbeatResponse:
        answer = await super().Heartbeat(request, context)
        self.revision += 1
        answer.lease.metadata.resource_version = str(self.revision)
        answer.lease.spec.lease_transitions = self.transitions
        return answer

    def another_life_beats(self) -> None:
        """Have another process, and then this one again, hold the lease."""
        self.transitions += 2

    def go_back(self) -> None:
        """Be restored from a backup."""
        self.revision = 1


@pytest.fixture
async def store() -> AsyncGenerator[Store]:
    async with fake_service(made := Store()):
        yield made


def reporter(*targets: FakeStorageVersions) -> StorageVersionReporter:
    addresses = [target.address for target in targets]
    return StorageVersionReporter(addresses, hostname="server-1", resources=[WIDGETS], timing=QUICK)


@pytest.mark.parametrize("happen", [Store.another_life_beats, Store.go_back])
async def test_a_report_that_may_be_lost_is_repeated_before_any_write(
    store: Store, happen: Callable[[Store], None]
) -> None:
    async with reporter(store) as made:
        await confirmed(made)
        await store.calls_of("Heartbeat", 4)
        assert made.confirmed  # heartbeats alone change nothing
        assert len(store.requests("Report")) == 1
        store.held.clear()
        store.reported.clear()
        happen(store)
        await store.calls_of("Report", 2)
        assert made.refusal(CREATE) is not None
        store.held.set()
        await confirmed(made)
        assert list(store.reported.values()) == ["example.dev/v1"]


async def test_another_process_of_the_same_name_is_logged(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with reporter(store) as made:
        await confirmed(made)
        store.another_life_beats()
        await store.calls_of("Report", 2)
        await confirmed(made)
    assert [record.getMessage() for record in caplog.records] == [
        "another process is apiserver-of-server-1 too: no two may share a hostname"
    ]


async def test_a_failed_report_delays_the_next_also_after_a_success(store: Store) -> None:
    store.lost["Report"] = 1
    loop = asyncio.get_running_loop()
    async with reporter(store) as made:
        await store.calls_of("Report", 1)
        failed_at = loop.time()
        await confirmed(made)
        made.update_resources([WIDGETS_V2])
        assert made.refusal(CREATE) is not None
        await store.calls_of("Report", 3)
        assert loop.time() - failed_at >= CALL_TIMEOUT_S
        await confirmed(made)
    assert list(store.reported.values()) == ["example.dev/v2"]


async def test_an_address_that_lags_cannot_overwrite_what_another_one_took(store: Store) -> None:
    loop = asyncio.get_running_loop()
    # A heartbeat at the other one must not seem to be of an older state: it would be reported anew.
    lagging = Store(members=store.members, reported=store.reported, revision=0)
    lagging.held.clear()
    began = loop.time()
    async with fake_service(lagging), reporter(lagging, store) as made:
        await confirmed(made)
        assert [len(each.requests("Report")) for each in (lagging, store)] == [1, 1]
        made.update_resources([WIDGETS_V2])
        await store.calls_of("Report", 2)
        assert loop.time() - began >= 2 * CALL_TIMEOUT_S * 0.95
        await confirmed(made)


async def test_a_report_that_cannot_be_made_ends_the_reporter(store: Store) -> None:
    unspeakable = replace(WIDGETS, resource="\ud800")

    async def serve() -> None:
        async with reporter(store) as made:
            await confirmed(made)
            made.update_resources([unspeakable])
            with pytest.raises(ReporterEnded):
                await confirmed(made)
            assert made.refusal(CREATE) is None  # of what is not stored any more
            assert not made.confirmed

    with pytest.raises(ValueError, match=r"surrogate|utf-8|UTF-8"):
        await serve()
    assert store.calls[-1][0] == "Depart"


@pytest.mark.parametrize(
    ("target", "hostname"), [("", "a"), ([], "a"), (["a:1", ""], "a"), ("a:1", "")]
)
def test_an_address_and_a_hostname_are_required(target: str | list[str], hostname: str) -> None:
    with pytest.raises(ValueError, match="is given"):
        StorageVersionReporter(target, hostname=hostname, resources=[WIDGETS])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoding_version": "example.dev/v3"}, "does not read"),
        ({"served_versions": ("example.dev/v3",)}, "does not read"),
        ({"decodable_versions": "example.dev/v1"}, "a tuple"),
        ({"resource": ""}, "has no name"),
    ],
)
def test_an_invalid_resource_is_refused_when_it_is_made(
    changes: dict[str, object], message: str
) -> None:
    fields: dict[str, object] = {
        "group": "example.dev",
        "resource": "widgets",
        "encoding_version": "example.dev/v1",
        "decodable_versions": ("example.dev/v1",),
    }
    with pytest.raises((ValueError, TypeError), match=message):
        StoredResource(**(fields | changes))  # type: ignore[arg-type]
