"""The cache of what was used last."""

import asyncio

import pytest
from apidiscovery_service.recent import Recent


def test_the_least_recently_used_value_is_evicted() -> None:
    kept: Recent[str, int] = Recent(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    assert "b" in kept  # which does not use it
    kept.put("c", 3)
    assert [*kept.values()] == [1, 3]
    assert kept.get("b") is None


def test_a_value_takes_the_place_of_the_one_with_its_key() -> None:
    kept: Recent[str, bytes] = Recent(10, weigh=len)
    for size in (9, 2, 8):
        kept.put("a", bytes(size))
    kept.put("b", bytes(2))
    assert [*kept.values()] == [bytes(8), bytes(2)]
    kept.put("a", bytes(11))
    assert "a" not in kept


def test_it_never_weighs_more_than_it_may() -> None:
    kept: Recent[int, bytes] = Recent(10_000, weigh=len)
    for number in range(100):
        kept.put(number, bytes(1000), first=number % 3 == 0)
        assert sum(map(len, kept.values())) <= 10_000
    assert len(kept.values()) == 10
    kept.put(100, bytes(10_001))
    assert 100 not in kept
    assert kept.get(98) == bytes(1000)
    for number in range(200, 209):
        kept.put(number, bytes(1000))
    assert kept.get(98) == bytes(1000)
    assert kept.get(97) is None


def test_a_dropped_value_leaves_its_room() -> None:
    kept: Recent[str, int] = Recent(2)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.drop("a")
    kept.drop("unknown")
    kept.put("c", 3)
    assert [*kept.values()] == [2, 3]


async def test_a_value_is_made_once_for_concurrent_callers_and_kept() -> None:
    kept: Recent[str, int] = Recent(2)
    made: list[str] = []

    async def make() -> int:
        made.append("a")
        await asyncio.sleep(0)
        return len(made)

    assert await asyncio.gather(*(kept.get_or_make("a", make) for _ in range(3))) == [1, 1, 1]
    assert (await kept.get_or_make("a", make), kept.get("a"), made) == (1, 1, ["a"])


async def test_a_value_that_could_not_be_made_is_made_again() -> None:
    kept: Recent[str, int] = Recent(2)

    async def fail() -> int:
        raise ValueError("once")

    async def make() -> int:
        return 1

    with pytest.raises(ValueError, match="once"):
        await kept.get_or_make("a", fail)
    assert await kept.get_or_make("a", make) == 1
