"""The account of what is unread, by a clock of the test's own."""

import asyncio
from collections.abc import Collection

import pytest
from apidiscovery_service.serving.unread import UnreadBudget, UnreadLimits, end_name

LIMITS = UnreadLimits(caller_bytes=100, total_bytes=150, stalled_s=30.0)


class Setup:
    """An account, the time, and the connections that were cut."""

    def __init__(self) -> None:
        self.now = 0.0
        self.cut: set[str] = set()
        self.unread = UnreadBudget(LIMITS, clock=lambda: self.now, cut_all=self._cut)

    def _cut(self, names: Collection[str]) -> None:
        self.cut.update(names)


@pytest.fixture
async def setup() -> Setup:
    return Setup()


async def test_a_caller_gets_places_up_to_its_limit(setup: Setup) -> None:
    place = setup.unread.reserve("c1", "a", 60)
    assert place is not None
    assert setup.unread.reserve("c1", "a", 60) is None
    assert setup.unread.reserve("c2", "b", 60) is not None
    setup.unread.release(place)
    setup.unread.release(place)
    assert (setup.unread.of("a"), setup.unread.total) == (0, 60)
    assert setup.unread.reserve("c1", "a", 60) is not None


async def test_empty_messages_are_given_back_in_any_order(setup: Setup) -> None:
    places = [setup.unread.reserve("c1", "a", size) for size in (60, 0, 0)]
    for place in places:
        assert place is not None
        setup.unread.release(place)
    assert (setup.unread.of("a"), setup.unread.total) == (0, 0)


async def test_one_answer_may_be_larger_than_all_of_the_room(setup: Setup) -> None:
    assert setup.unread.reserve("c1", "a", 1000) is not None
    assert setup.unread.reserve("c2", "b", 1) is None


async def test_when_all_room_is_taken_who_takes_nothing_makes_room(setup: Setup) -> None:
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


async def test_who_leaves_nothing_unread_has_room_that_others_cannot_take(setup: Setup) -> None:
    assert [setup.unread.reserve("c1", caller, 75) is None for caller in "ab"] == [False] * 2
    assert setup.unread.reserve("c1", "a", 1) is None
    assert setup.unread.reserve("c2", "c", 75) is not None
    assert setup.unread.reserve("c3", "d", 75) is not None
    assert setup.unread.reserve("c4", "e", 1) is None


async def test_nobody_makes_room_for_a_caller_at_its_own_limit(setup: Setup) -> None:
    setup.unread.reserve("c1", "a", 90)
    setup.unread.reserve("c2", "b", 50)
    setup.now = 2.0
    assert setup.unread.reserve("c3", "b", 60) is None
    assert setup.unread.of("a") == 90


async def test_who_takes_nothing_for_long_is_cut(setup: Setup) -> None:
    place = setup.unread.reserve("c1", "a", 10)
    assert place is not None
    setup.now = 31.0
    async with asyncio.timeout(10):
        while not setup.cut:  # noqa: ASYNC110 - it is called in a thread
            await asyncio.sleep(0.01)
    assert (setup.cut, place.is_cut, setup.unread.total) == ({"c1"}, True, 0)


async def test_calls_wait_for_room_in_their_order(setup: Setup) -> None:
    first = await setup.unread.wait("c1", "a", 100)
    second = asyncio.ensure_future(setup.unread.wait("c2", "a", 60))
    third = asyncio.ensure_future(setup.unread.wait("c3", "a", 60))
    other = await setup.unread.wait("c4", "b", 40)  # another caller does not wait for them
    await asyncio.sleep(0)
    assert not second.done()
    setup.unread.release(first)
    place = await second
    await asyncio.sleep(0)
    assert not third.done()
    third.cancel()
    await asyncio.wait([third])
    setup.unread.release(place)
    setup.unread.release(other)
    assert setup.unread.total == 0


async def test_a_place_that_shrinks_lets_the_next_one_in(setup: Setup) -> None:
    place = await setup.unread.wait("c1", "a", 100)
    waiting = asyncio.ensure_future(setup.unread.wait("c2", "a", 60))
    await asyncio.sleep(0)
    setup.unread.resize(place, 5)
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
def test_a_connection_goes_by_its_other_end(peer: object, name: str) -> None:
    assert end_name(peer) == name


async def test_nobody_is_cut_for_what_is_not_made_yet(setup: Setup) -> None:
    place = await setup.unread.wait("c1", "a", 100, is_made=False)
    setup.now = 31.0
    setup.unread.reserve("c2", "b", 50)
    assert setup.unread.reserve("c3", "b", 10) is None
    setup.unread.resize(place, 90)
    setup.now = 32.5
    assert setup.unread.reserve("c3", "b", 20) is not None
    assert place.is_cut
