"""Work that concurrent callers share."""

import asyncio
from functools import partial

import pytest
from apidiscovery_service.once import Once


async def test_concurrent_callers_share_the_work_of_their_key() -> None:
    once: Once[str, int] = Once()
    started: list[str] = []

    async def work(key: str) -> int:
        started.append(key)
        await asyncio.sleep(0)
        return len(started)

    keys = ["a", "a", "b"]
    found = await asyncio.gather(*(once.run(key, partial(work, key)) for key in keys))
    assert (found, started) == ([2, 2, 2], ["a", "b"])
    assert not once.is_running("a")
    assert await once.run("a", lambda: work("a")) == 3


async def test_a_cancelled_caller_does_not_end_the_work() -> None:
    once: Once[str, str] = Once()
    may_end = asyncio.Event()

    async def work() -> str:
        await may_end.wait()
        return "done"

    first, second = (asyncio.create_task(once.run("a", work)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    may_end.set()
    assert await second == "done"


async def test_an_error_reaches_all_callers_and_is_not_kept() -> None:
    once: Once[str, str] = Once()

    async def fail() -> str:
        raise ValueError("once")

    async def work() -> str:
        return "done"

    errors = await asyncio.gather(*(once.run("a", fail) for _ in range(2)), return_exceptions=True)
    assert list(map(str, errors)) == ["once", "once"]
    assert await once.run("a", work) == "done"
