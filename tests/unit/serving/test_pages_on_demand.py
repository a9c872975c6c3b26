"""Pages are made for the first browser, once, and not before."""

import asyncio
import threading
from typing import cast

import pytest
from apidiscovery_service.serving.http.pages_interface import PageExchange, PagesOnDemand


class _Pages:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.served: list[object] = []
        self.stops = 0

    def takes(self, path: str, accept: bytes | None) -> bool:
        raise NotImplementedError

    def stop(self) -> None:
        self.stops += 1

    async def serve(self, exchange: PageExchange) -> None:
        self.served.append(exchange)


class _Making:
    """Makes pages as slowly as a test wants."""

    def __init__(self) -> None:
        self.may_load = threading.Event()
        self.loads = 0
        self.made: list[_Pages] = []
        self.pages = PagesOnDemand(self._load, self._make)

    def _load(self) -> None:
        self.loads += 1
        assert self.may_load.wait(10)

    def _make(self) -> _Pages:
        self.made.append(_Pages())
        return self.made[-1]


def _exchange(name: str) -> PageExchange:
    return cast("PageExchange", name)


@pytest.mark.parametrize(
    ("path", "accept", "is_taken"),
    [
        ("/ui", None, True),
        ("/ui/kinds", b"*/*", True),
        ("/uid", b"text/html", False),
        ("/", b"text/html,application/xhtml+xml", True),
        ("/", b"application/json,text/html", False),
        ("/", None, False),
        ("/apis", b"text/html", False),
    ],
)
def test_the_path_decides_before_there_are_pages(
    path: str, accept: bytes | None, *, is_taken: bool
) -> None:
    making = _Making()
    assert making.pages.takes(path, accept) is is_taken
    assert making.loads == 0


async def test_concurrent_first_requests_share_the_pages() -> None:
    making = _Making()
    requests = [asyncio.create_task(making.pages.serve(_exchange(name))) for name in "ab"]
    await asyncio.sleep(0)
    making.may_load.set()
    await asyncio.gather(*requests)
    await making.pages.serve(_exchange("c"))
    assert making.loads == 1
    (made,) = making.made
    assert made.served == ["a", "b", "c"]
    making.pages.stop()
    assert made.stops == 1


async def test_pages_that_are_made_while_the_server_stops_are_stopped() -> None:
    making = _Making()
    request = asyncio.create_task(making.pages.serve(_exchange("a")))
    await asyncio.sleep(0)
    making.pages.stop()
    making.may_load.set()
    await request
    assert making.made[0].stops == 1


async def test_a_failure_to_load_is_tried_again() -> None:
    failures = [OSError("no file")]

    def load() -> None:
        if failures:
            raise failures.pop()

    made = _Pages()
    pages = PagesOnDemand(load, lambda: made)
    with pytest.raises(OSError, match="no file"):
        await pages.serve(_exchange("a"))
    await pages.serve(_exchange("b"))
    assert made.served == ["b"]
