"""Threads for what strangers sent."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError

import pytest
from apidiscovery_service.sources.upstreams.threads import ReadingThreads

PROGRAM = """
import time
from apidiscovery_service.sources.upstreams.threads import ReadingThreads
threads = ReadingThreads(1, "t")
threads.submit(time.sleep, 60)
waiting = threads.submit(print, "never")
threads.shutdown(wait=False, cancel_futures=True)
print(waiting.cancelled())
"""


@pytest.fixture(name="threads")
def fixture_threads() -> Iterator[ReadingThreads]:
    threads = ReadingThreads(1, "reading")
    yield threads
    threads.shutdown()


def test_work_is_done_in_order_and_its_results_and_errors_come_back(
    threads: ReadingThreads,
) -> None:
    done: list[int] = []
    for number in range(5):
        threads.submit(done.append, number)
    failed = threads.submit(int, "x")
    name = threads.submit(lambda: threading.current_thread().name)
    assert name.result(5.0) == "reading_0"
    assert done == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result(5.0)


def test_what_was_given_up_is_not_done(threads: ReadingThreads) -> None:
    begun, go = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        go.wait(5.0)

    threads.submit(hold)
    assert begun.wait(5.0)
    done: list[int] = []
    waiting = threads.submit(done.append, 1)
    assert waiting.cancel()
    go.set()
    threads.submit(done.append, 2).result(5.0)
    assert done == [2]
    with pytest.raises(CancelledError):
        waiting.result(5.0)


def test_after_the_end_nothing_is_taken(threads: ReadingThreads) -> None:
    last = threads.submit(int, "1")
    threads.shutdown()
    assert last.result(0) == 1
    with pytest.raises(RuntimeError, match="shut down"):
        threads.submit(int, "2")


def test_a_process_ends_while_something_is_read() -> None:
    ended = subprocess.run(  # noqa: S603
        [sys.executable, "-c", PROGRAM], check=True, capture_output=True, timeout=20
    )
    assert ended.stdout == b"True\n"
