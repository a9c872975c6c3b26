"""The budget of unread answers."""

import asyncio
from collections.abc import Collection

import pytest
from apidiscovery_service.serving.unread import UnreadBudget, UnreadLimits, end_name
from waiting import until

LIMITS = UnreadLimits(caller_bytes=100, total_bytes=150, stalled_s=30.0)


class Setup:
    """A budget, the time, and the connections that were cut."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cut: set[str] = set()
        self.unread = UnreadBudget(LIMITS, clock=lambda: self.now, cut_all=self._cut)

    def _cut(self, names: Collection[str]) -> None:
        self.cut.update(names)


@pytest.fixture
async def setup() -> Setup:
    return Setup()


async def test_a_caller_reserves_up_to_its_limit(setup: Setup) -> None:
    reservation = setup.unread.reserve("c1", "a", 60)
    assert reservation is not None
    assert setup.unread.reserve("c1", "a", 60) is None
    assert setup.unread.reserve("c2", "b", 60) is not None
    setup.unread.release(reservation)
    setup.unread.release(reservation)
    assert (setup.unread.of("a"), setup.unread.total) == (0, 60)
    assert setup.unread.reserve("c1", "a", 60) is not None


async def test_empty_messages_are_released_in_any_order(setup: Setup) -> None:
    reservations = [setup.unread.reserve("c1", "a", size) for size in (60, 0, 0)]
    for reservation in reservations:
        assert reservation is not None
        setup.unread.release(reservation)
    assert (setup.unread.of("a"), setup.unread.total) == (0, 0)


async def test_one_answer_may_exceed_the_limit_alone(setup: Setup) -> None:
    assert setup.unread.reserve("c1", "a", 1000) is not None
    assert setup.unread.reserve("c2", "b", 1) is None


async def test_without_room_the_largest_idle_connection_is_cut(setup: Setup) -> None:
    hog = setup.unread.reserve("c1", "a", 90)
    other = setup.unread.reserve("c2", "b", 50)
    assert hog is not None
    assert other is not None
    assert setup.unread.reserve("c3", "b", 20) is None  # both may be reading
    setup.now = 2.0
    setup.unread.touch(other)
    assert setup.unread.reserve("c3", "b", 20) is not None
    assert (hog.is_cut, other.is_cut) == (True, False)
    assert setup.unread.of("a") == 0


async def test_callers_without_unread_answers_have_extra_room(setup: Setup) -> None:
    assert [setup.unread.reserve("c1", caller, 75) is None for caller in "ab"] == [False] * 2
    assert setup.unread.reserve("c1", "a", 1) is None
    assert setup.unread.reserve("c2", "c", 75) is not None
    assert setup.unread.reserve("c3", "d", 75) is not None
    assert setup.unread.reserve("c4", "e", 1) is None


async def test_no_connection_is_cut_for_a_caller_at_its_own_limit(setup: Setup) -> None:
    setup.unread.reserve("c1", "a", 90)
    setup.unread.reserve("c2", "b", 50)
    setup.now = 2.0
    assert setup.unread.reserve("c3", "b", 60) is None
    assert setup.unread.of("a") == 90


async def test_a_connection_that_reads_nothing_for_long_is_cut(setup: Setup) -> None:
    reservation = setup.unread.reserve("c1", "a", 10)
    assert reservation is not None
    setup.now = 31.0
    await until(lambda: setup.cut, "a connection is cut")
    assert (setup.cut, reservation.is_cut, setup.unread.total) == ({"c1"}, True, 0)


async def test_calls_wait_for_room_in_their_order(setup: Setup) -> None:
    first = await setup.unread.wait("c1", "a", 100)
    second = asyncio.ensure_future(setup.unread.wait("c2", "a", 60))
    third = asyncio.ensure_future(setup.unread.wait("c3", "a", 60))
    other = await setup.unread.wait("c4", "b", 40)  # another caller does not wait for them
    await asyncio.sleep(0)
    assert not second.done()
    setup.unread.release(first)
    reservation = await second
    await asyncio.sleep(0)
    assert not third.done()
    third.cancel()
    await asyncio.wait([third])
    setup.unread.release(reservation)
    setup.unread.release(other)
    assert setup.unread.total == 0


async def test_a_smaller_reservation_admits_the_next_one(setup: Setup) -> None:
    reservation = await setup.unread.wait("c1", "a", 100)
    waiting = asyncio.ensure_future(setup.unread.wait("c2", "a", 60))
    await asyncio.sleep(0)
    setup.unread.resize(reservation, 5)
    assert (await waiting).size == 60
    assert setup.unread.of("a") == 65


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (("127.0.0.1", 80), "127.0.0.1 80"),
        (("127.0.0.1", "80"), "127.0.0.1 80"),
        (("::ffff:127.0.0.1", 80, 0, 0), "127.0.0.1 80"),
        (("::1", 80, 0, 0), "::1 80"),
        ("/run/a", "/run/a"),
        (b"\0a", "\0a"),
        (None, ""),
    ],
)
def test_a_connection_is_named_by_its_other_end(peer: object, name: str) -> None:
    assert end_name(peer) == name


async def test_no_connection_is_cut_for_an_answer_that_is_not_made_yet(setup: Setup) -> None:
    reservation = await setup.unread.wait("c1", "a", 100, is_made=False)
    setup.now = 31.0
    setup.unread.reserve("c2", "b", 50)
    assert setup.unread.reserve("c3", "b", 10) is None
    setup.unread.resize(reservation, 90)
    setup.now = 32.5
    assert setup.unread.reserve("c3", "b", 20) is not None
    assert reservation.is_cut
