"""Each way in which a guarded body ends or is cancelled has its error and leaves no task."""

import asyncio
import itertools
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc
import grpc.aio
import pytest
from apidiscovery.service.v1 import storage_version_pb2 as pb
from apidiscovery.service.v1 import storage_version_pb2_grpc
from apidiscovery.storageversion.v1alpha1 import storageversion_pb2
from apidiscovery_client.storage_versions import AgreementLost, NoAgreement, migration_guard
from grpc_fakes import aio_server
from scripted_storage_versions import DEPLOYMENTS, progress, storage_version, waited
from waiting import WITHIN_S

Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"
OURS = ("migration_guard.", "_settle")

AGREED = storage_version({"a": "apps/v2", "b": "apps/v2"})
DIFFERENT = storage_version({"a": "apps/v2", "b": "apps/v1"})


@dataclass
class Service(storage_version_pb2_grpc.StorageVersionServiceServicer):
    """Answers as its attributes say.

    Attributes:
        found: What GetStorageVersion answers and WatchStorageVersions tells of.
        stale: How often WaitForAgreement tells of an agreement that is over for GetStorageVersion.
        failing: How the next calls of GetStorageVersion end.
        answers: While clear, GetStorageVersion does not answer.
        asked: Set when GetStorageVersion has been called while `answers` is clear.
    """

    found: storageversion_pb2.StorageVersion = field(default_factory=lambda: AGREED)
    stale: int = 0
    failing: list[grpc.StatusCode] = field(default_factory=list[grpc.StatusCode])
    answers: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answers.set()

    def differ(self) -> None:
        self.found = DIFFERENT
        self.changed.set()

    async def WaitForAgreement(  # noqa: N802 - a method of the service
        self, request: pb.WaitForAgreementRequest, context: Context
    ) -> AsyncGenerator[pb.WaitForAgreementResponse]:
        del request, context
        told = waited(progress(agreeing=["a", "b"]))
        if self.stale:
            self.stale -= 1
            told.progress[0].storage_version.metadata.uid = "of an earlier one"
        yield told

    async def GetStorageVersion(  # noqa: N802
        self, request: pb.GetStorageVersionRequest, context: Context
    ) -> pb.GetStorageVersionResponse:
        del request
        if not self.answers.is_set():
            self.asked.set()
            await self.answers.wait()
        if self.failing:
            await context.abort(self.failing.pop(0), "as it was told to")
        return pb.GetStorageVersionResponse(storage_version=self.found)

    async def WatchStorageVersions(  # noqa: N802
        self, request: pb.WatchStorageVersionsRequest, context: Context
    ) -> AsyncGenerator[pb.WatchStorageVersionsResponse]:
        del request, context
        await self.changed.wait()
        yield pb.WatchStorageVersionsResponse(
            type=pb.WatchStorageVersionsResponse.EVENT_TYPE_MODIFIED, storage_version=self.found
        )
        await asyncio.Event().wait()

    def _unused(self, request: object, context: object) -> NoReturn:
        raise NotImplementedError

    Heartbeat = Depart = Report = ListStorageVersions = _unused


class Event(Enum):
    """What happens to the body: the agreement is lost, others cancel it, or both."""

    LOSS = auto()
    OTHERS = auto()
    BOTH = auto()


@dataclass
class Setup:
    service: Service
    channel: grpc.aio.Channel

    def guard(self, *, also_cancelled: bool = False, timeout_s: float | None = None) -> "Guard":
        return Guard(self.channel, also_cancelled=also_cancelled, timeout_s=timeout_s)

    def happen(self, event: Event) -> None:
        """Cancel the work of `ended`, or end the agreement; the guard adds the rest of BOTH."""
        if event is Event.OTHERS:
            running("ended.<locals>.run").cancel()
        else:
            self.service.differ()


class Guard(migration_guard):
    """One in whose body, if asked to, a cancellation of others arrives together with ours."""

    def __init__(
        self, channel: grpc.aio.Channel, *, also_cancelled: bool, timeout_s: float | None
    ) -> None:
        super().__init__(channel, DEPLOYMENTS, timeout_s=timeout_s)
        self._also_cancelled = also_cancelled

    def _interrupt(self) -> None:
        super()._interrupt()
        if self._also_cancelled:
            self._body.cancel()


@asynccontextmanager
async def serving() -> AsyncGenerator[Setup]:
    service = Service()
    add = partial(storage_version_pb2_grpc.add_StorageVersionServiceServicer_to_server, service)
    async with aio_server(add) as address, grpc.aio.insecure_channel(address) as channel:
        try:
            yield Setup(service, channel)
        finally:
            service.answers.set()


@pytest.fixture
async def setup() -> AsyncGenerator[Setup]:
    async with serving() as made:
        yield made


class Rude(BaseException):
    """As KeyboardInterrupt, of which asyncio would make more."""


# How a body behaves that is interrupted.


async def waits(interrupted: asyncio.Event) -> None:
    del interrupted
    await asyncio.Event().wait()


async def suppresses(interrupted: asyncio.Event) -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        interrupted.set()


async def fails(interrupted: asyncio.Event) -> None:
    await suppresses(interrupted)
    raise ValueError("of the body")


async def is_rude(interrupted: asyncio.Event) -> None:
    await suppresses(interrupted)
    raise Rude


async def fails_in_a_group(interrupted: asyncio.Event) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(fails(interrupted))
        await asyncio.Event().wait()


async def fails_and_cancels_once_more(interrupted: asyncio.Event) -> None:
    """Do as TaskGroup does since Python 3.13: the cancellation is still to be delivered."""
    await suppresses(interrupted)
    task = asyncio.current_task()
    assert task is not None
    task.uncancel()
    task.cancel()
    raise ExceptionGroup("of the body", [ValueError("of a part of it")])


async def is_cleaning_up(interrupted: asyncio.Event) -> None:
    """Go on for a while after the interruption, with other cancellations of its own."""
    await suppresses(interrupted)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    raise asyncio.CancelledError


Body: TypeAlias = Callable[[asyncio.Event], Coroutine[Any, Any, None]]
CANCELLED = asyncio.CancelledError
LOST = AgreementLost
# Since Python 3.13 a TaskGroup has a cancellation delivered that came while it failed.
OF_A_GROUP = CANCELLED if sys.version_info >= (3, 13) else ExceptionGroup
# What comes out, by what has happened: LOSS, OTHERS, BOTH. Nothing comes out of who suppresses.
OUTCOMES: dict[Body, tuple[type[BaseException] | None, ...]] = {
    waits: (LOST, CANCELLED, CANCELLED),
    suppresses: (LOST, None, CANCELLED),
    fails: (LOST, ValueError, ValueError),
    is_rude: (Rude, Rude, Rude),
    fails_in_a_group: (LOST, OF_A_GROUP, OF_A_GROUP),
    fails_and_cancels_once_more: (LOST, CANCELLED, CANCELLED),
    is_cleaning_up: (LOST, CANCELLED, CANCELLED),
}
MATRIX = [
    pytest.param(body, event, outcome, id=f"{body.__name__}-{event.name}")
    for body, outcomes in OUTCOMES.items()
    for event, outcome in zip(Event, outcomes, strict=True)
]


@dataclass
class Ended:
    """How a task ended: what came out, and how often it was still being cancelled then."""

    error: BaseException | None
    cancelling: int
    leaks: bool
    left: list[str]


async def ended(
    work: Callable[[], Awaitable[None]], meanwhile: Callable[[], Awaitable[None]] | None = None
) -> Ended:
    """Run something in a task of its own, and something else beside it."""
    result: list[Ended] = []

    async def run() -> None:
        task = asyncio.current_task()
        assert task is not None
        error: BaseException | None = None
        try:
            await work()
        except BaseException as caught:  # noqa: BLE001 - it is what is looked at
            error = caught
        left = _ours()
        leaks = False
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            leaks = True
        result.append(Ended(error, task.cancelling(), leaks, left))

    async with asyncio.timeout(WITHIN_S):
        task = asyncio.create_task(run())
        if meanwhile:
            await meanwhile()
        await task
    return result[0]


def _ours() -> list[str]:
    names = [getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()]
    return [name for name in names if name.startswith(OURS)]


def running(name: str) -> "asyncio.Task[Any]":
    found = [t for t in asyncio.all_tasks() if name in getattr(t.get_coro(), "__qualname__", "")]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(("body", "event", "outcome"), MATRIX)
async def test_what_happens_to_the_body(
    setup: Setup, body: Body, event: Event, outcome: type[BaseException] | None
) -> None:
    entered = asyncio.Event()

    async def work() -> None:
        async with setup.guard(also_cancelled=event is Event.BOTH):
            entered.set()
            await body(asyncio.Event())

    async def when_entered() -> None:
        await entered.wait()
        setup.happen(event)

    end = await ended(work, when_entered)
    assert type(end.error) is (outcome or type(None))
    assert end.cancelling == (0 if event is Event.LOSS else 1)
    assert not end.leaks
    assert end.left == []
    if isinstance(end.error, AgreementLost):
        is_failure = body in {fails, fails_in_a_group, fails_and_cancels_once_more}
        assert isinstance(end.error.__cause__, Exception) is is_failure


@pytest.mark.parametrize("event", list(Event))
async def test_what_happens_during_the_last_reading(setup: Setup, event: Event) -> None:
    async def work() -> None:
        async with setup.guard(also_cancelled=event is Event.BOTH):
            setup.service.answers.clear()

    async def when_asked() -> None:
        await setup.service.asked.wait()
        setup.happen(event)

    end = await ended(work, when_asked)
    assert type(end.error) is (AgreementLost if event is Event.LOSS else asyncio.CancelledError)
    assert end.cancelling == (0 if event is Event.LOSS else 1)
    assert not end.leaks
    assert end.left == []


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [(ValueError, asyncio.CancelledError), (Rude, Rude), (KeyboardInterrupt, KeyboardInterrupt)],
)
async def test_a_cancellation_that_comes_when_the_body_has_failed(
    setup: Setup, raised: type[BaseException], outcome: type[BaseException]
) -> None:
    """It is not swallowed by an error that a caller may handle."""

    async def work() -> None:
        async with setup.guard():
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
            raise raised

    end = await ended(work)
    assert type(end.error) is outcome
    assert (end.cancelling, end.leaks, end.left) == (1, False, [])


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, Rude])
async def test_what_ends_the_process_is_not_replaced(
    setup: Setup, raised: type[BaseException]
) -> None:
    async def work() -> None:
        async with setup.guard():
            setup.service.differ()
            await suppresses(asyncio.Event())
            raise raised

    end = await ended(work)
    assert type(end.error) is raised
    assert (end.cancelling, end.leaks, end.left) == (0, False, [])


async def test_a_timeout_outside_stays_a_timeout_together_with_the_loss(setup: Setup) -> None:
    async def work() -> None:
        async with asyncio.timeout(None) as limit:
            async with setup.guard():
                setup.service.differ()
                # Expires while the body holds back the interruption.
                await suppresses(asyncio.Event())
                limit.reschedule(0)
                await asyncio.Event().wait()

    end = await ended(work)
    assert type(end.error) is TimeoutError
    assert (end.cancelling, end.leaks, end.left) == (0, False, [])


async def test_within_a_group_whose_other_task_fails(setup: Setup) -> None:
    """The group cancels the task in which the guard is, and takes that back itself."""

    async def fail() -> None:
        raise ValueError("beside it")

    async def work() -> None:
        async with asyncio.TaskGroup() as tasks, setup.guard():
            tasks.create_task(fail())
            await asyncio.Event().wait()

    end = await ended(work)
    assert isinstance(end.error, ExceptionGroup)
    assert (end.cancelling, end.leaks, end.left) == (0, False, [])


async def test_a_task_that_was_cancelled_before_keeps_its_count(setup: Setup) -> None:
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await suppresses(asyncio.Event())
        async with setup.guard():
            setup.service.differ()
            await asyncio.Event().wait()

    end = await ended(work)
    assert type(end.error) is AgreementLost
    assert (end.cancelling, end.leaks, end.left) == (1, False, [])


@pytest.mark.parametrize("turns", range(12))
async def test_a_loss_at_any_moment_while_the_body_ends(setup: Setup, turns: int) -> None:
    """The interruption falls before, into, or after the end: no cancellation survives it."""

    async def work() -> None:
        async with setup.guard():
            setup.service.differ()
            for _ in itertools.repeat(None, turns * 10):
                await asyncio.sleep(0)

    end = await ended(work)
    assert type(end.error) is AgreementLost
    assert (end.cancelling, end.leaks, end.left) == (0, False, [])


async def test_cancelled_while_it_waits_it_leaves_nothing(setup: Setup) -> None:
    setup.service.answers.clear()

    async def work() -> None:
        async with setup.guard():
            raise AssertionError("nothing has been proved")

    async def when_asked() -> None:
        await setup.service.asked.wait()
        setup.happen(Event.OTHERS)

    end = await ended(work, when_asked)
    assert type(end.error) is asyncio.CancelledError
    assert (end.cancelling, end.leaks, end.left) == (1, False, [])


async def test_a_stale_agreement_is_waited_for_again(setup: Setup) -> None:
    setup.service.stale = 2
    setup.service.failing = [grpc.StatusCode.UNAVAILABLE]
    async with setup.guard(timeout_s=WITHIN_S) as agreement:
        assert agreement.uid == AGREED.metadata.uid
    assert setup.service.stale == 0


async def test_an_agreement_that_the_store_never_has_is_no_agreement(setup: Setup) -> None:
    setup.service.stale = 10**6
    with pytest.raises(NoAgreement):
        async with setup.guard(timeout_s=0.3):
            raise AssertionError("it is over")
