"""Calls in worker processes: their results, their limits, and the end of a worker."""

import asyncio
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from apidiscovery_service import workers
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from repository import ROOT
from waiting import eventually, until

pytestmark = pytest.mark.process


@pytest.fixture(autouse=True, scope="module")
def _own_workers() -> Iterator[None]:
    """Start workers that can import this module, and share them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}")
        workers.close()
        yield
        workers.close()


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Start workers with the limits that the test sets."""
    workers.close()
    yield monkeypatch
    workers.close()


async def test_a_call_returns_what_its_function_returns_in_another_process() -> None:
    assert await workers.run(os.getpid) != os.getpid()
    large = os.urandom(1 << 20)
    assert await workers.run(bytes.__add__, large, large) == large + large


@pytest.mark.parametrize(
    "error",
    [
        InvalidOpenAPI(("paths", 0), "want an object"),
        UpstreamFailed(Reason.TOO_LARGE, "too much"),
        ValueError("odd"),
    ],
)
async def test_a_call_raises_what_its_function_raises(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        await workers.run(_raise, error)
    assert raised.value.args == error.args
    assert raised.value.__dict__ == error.__dict__


async def test_calls_wait_for_a_worker_and_share_two() -> None:
    ids = await asyncio.gather(*(workers.run(_busy) for _ in range(8)))
    assert len(set(ids)) == workers.COUNT


async def test_printed_text_of_a_call_is_no_result() -> None:
    assert await workers.run(_say) == "said"


async def test_a_call_that_takes_too_much_memory_fails_and_the_worker_goes_on() -> None:
    pid = await workers.run(os.getpid)
    with pytest.raises(workers.WorkerFailed, match="it takes more than 1024 MiB of memory"):
        await workers.run(bytes, workers.MEMORY_BYTES)
    assert await workers.run(os.getpid) == pid


async def test_a_call_that_takes_too_long_ends_alone(limits: pytest.MonkeyPatch) -> None:
    limits.setattr(workers, "WITHIN_S", 3.0)
    slow, quick = await asyncio.gather(
        workers.run(time.sleep, 60), workers.run(_busy), return_exceptions=True
    )
    assert isinstance(slow, workers.WorkerFailed)
    assert str(slow) == "it takes more than 3 s"
    assert isinstance(quick, int)
    assert isinstance(await workers.run(_busy), int)


async def test_a_worker_that_dies_fails_its_own_call_alone() -> None:
    killed, other = await asyncio.gather(
        workers.run(_die), workers.run(_busy), return_exceptions=True
    )
    assert isinstance(killed, workers.WorkerFailed)
    assert str(killed) == "the worker process ended with signal SIGKILL"
    assert isinstance(other, int)
    assert isinstance(await workers.run(_busy), int)


async def test_closing_cancels_calls_that_wait_for_a_worker(tmp_path: Path) -> None:
    """Otherwise each would start another worker, because Python waits for all calls at its end."""
    calls = [
        asyncio.ensure_future(workers.run(_began, str(tmp_path), number)) for number in range(6)
    ]
    await asyncio.to_thread(_close_once_busy, tmp_path)
    ended = await asyncio.gather(*calls, return_exceptions=True)
    killed = [one for one in ended if isinstance(one, workers.WorkerFailed)]
    cancelled = [one for one in ended if isinstance(one, asyncio.CancelledError)]
    assert (len(killed), len(cancelled)) == (workers.COUNT, len(calls) - workers.COUNT)
    assert _begun(tmp_path) == workers.COUNT


async def test_a_worker_that_ended_while_idle_is_replaced(limits: pytest.MonkeyPatch) -> None:
    limits.setattr(workers, "IDLE_S", 0.2)
    first = await workers.run(os.getpid)
    over = os.WEXITED | os.WNOHANG | os.WNOWAIT
    await until(lambda: os.waitid(os.P_PID, first, over), "it has ended")
    assert await workers.run(os.getpid) != first


def _raise(error: Exception) -> None:
    raise error


def _busy() -> int:
    time.sleep(0.1)
    return os.getpid()


def _began(folder: str, number: int) -> None:
    (Path(folder) / str(number)).touch()
    time.sleep(60)


def _begun(folder: Path) -> int:
    return len(list(folder.iterdir()))


def _close_once_busy(folder: Path) -> None:
    eventually(lambda: _begun(folder) >= workers.COUNT, "all workers are busy")
    workers.close()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _say() -> str:
    print("hello")  # noqa: T201
    return "said"


@pytest.mark.parametrize("is_whole", [True, False], ids=["result", "call"])
def test_a_worker_whose_server_was_killed_ends_quietly(*, is_whole: bool) -> None:
    """Nobody reads its result, or it has received half a call."""
    program = "from apidiscovery_service.workers import serve; serve(60, 1 << 30, 60)"
    call = pickle.dumps((bytes, (1 << 20,), {}))
    process = subprocess.Popen(  # noqa: S603 - our own program
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    process.stdin.write(call if is_whole else call[:-5])
    process.stdin.close()
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait(30) == 0
