"""Worker processes: large and foreign documents are read and made away from the event loop.

A call names a function of a module. It and its arguments go to a worker pickled, and so does what
it returns or raises. A worker that takes too long or too much memory ends with that call alone.

The standard library's ProcessPoolExecutor is not used: there one dead process fails the calls of
all others, a call that takes too long cannot be ended, and each process imports the program that
started it.
"""

import asyncio
import atexit
import contextlib
import os
import pickle
import queue
import resource
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, ParamSpec, TypeVar, cast

from apidiscovery_service.errors import DiscoveryError

_P = ParamSpec("_P")
_T = TypeVar("_T")

COUNT: Final = 2
"""Workers at most; each starts when it is needed and ends when it is idle."""

MEMORY_BYTES: Final = 1 << 30
"""Address space that a worker may have."""

WITHIN_S: Final = 60.0
"""Seconds that a call may take: the largest documents take ten."""

IDLE_S: Final = 60.0
"""Seconds that a worker waits for a call before it ends."""


class WorkerFailed(DiscoveryError):
    """A call took too long or too much memory, or its worker died; another call may work."""


async def run(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Return what a function of a module returns that a worker calls; raise what it raises.

    Arguments and result should be bytes, or little: reading them holds the event loop.

    Raises:
        WorkerFailed: The call took more than `WITHIN_S` or `MEMORY_BYTES`, or its worker died.
    """
    call = (function, args, kwargs)
    return cast("_T", await asyncio.get_running_loop().run_in_executor(_threads, _run, call))


def _run(call: object) -> object:
    worker = _idle.get_nowait()
    try:
        return worker.run(pickle.dumps(call, protocol=pickle.HIGHEST_PROTOCOL))
    finally:
        _idle.put(worker)


def close() -> None:
    """End the workers at once; a later call starts others."""
    for worker in _workers:
        worker.close()


class _Worker:
    """A process, which is started by the first call and again when it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self, call: bytes) -> object:
        """Return what a pickled call returns, or raise what it raises.

        Raises:
            WorkerFailed: The call took too much, or the process died.
        """
        with self._lock:
            has_returned, result = self._exchange(call)
        if has_returned:
            return result
        if isinstance(result, MemoryError):
            raise WorkerFailed(f"it takes more than {MEMORY_BYTES >> 20} MiB of memory")
        raise cast("BaseException", result)

    def close(self) -> None:
        """End the process, and with it the call that it makes."""
        process = self._process
        if process:
            process.kill()
            with self._lock:
                self._end()

    def _exchange(self, call: bytes) -> tuple[bool, object]:
        """Return whether a call returned or raised, and what."""
        while True:
            if self._process is None or self._process.poll() is not None:
                self._end()
                self._process = _started()
            calls, results = self._process.stdin, self._process.stdout
            if calls is None or results is None:
                raise RuntimeError("a worker has no pipes")
            try:
                calls.write(call)
                calls.flush()
                return cast("tuple[bool, object]", pickle.load(results))  # noqa: S301 - our own
            except (OSError, EOFError, pickle.UnpicklingError):
                code = self._end()
            if code:
                raise WorkerFailed(_why(code))
            # It had been idle for so long that it ended just when the call came.

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(OSError):  # what it did not take is left in a buffer
            process.communicate()
        return process.wait()


def _started() -> "subprocess.Popen[bytes]":
    limits = f"{WITHIN_S}, {MEMORY_BYTES}, {IDLE_S}"
    program = f"from apidiscovery_service.workers import serve; serve({limits})"
    arguments = [sys.executable, "-P", "-c", program]
    return subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours


def _why(code: int) -> str:
    if code == -signal.SIGALRM:
        return f"it takes more than {WITHIN_S:g} s"
    return f"the worker process ended with {_ending(code)}"


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def serve(within_s: float, memory_bytes: int, idle_s: float) -> None:
    """Make the calls that come on standard input until there are no more or none for long.

    Args:
        within_s: That a call may take.
        memory_bytes: Address space that this process may have.
        idle_s: How long it waits for a call.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers itself
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with contextlib.suppress(OSError):  # where memory runs out, a worker goes before the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    calls, results = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what is printed is no result
    while calls.peek(1) if select.select([calls], [], [], idle_s)[0] else b"":
        function, args, kwargs = pickle.load(calls)  # noqa: S301 - from our own server
        signal.setitimer(signal.ITIMER_REAL, within_s)
        outcome = _outcome(function, args, kwargs)
        signal.setitimer(signal.ITIMER_REAL, 0)
        results.write(outcome)
        results.flush()


def _outcome(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes:
    """Return whether a call returned, and what it returned or raised, pickled."""
    try:
        outcome = (True, function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - for whoever waits
        outcome = (False, error)
    return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)


# A thread waits for each worker that makes a call.
_workers: Final = tuple(_Worker() for _ in range(COUNT))
_threads: Final = ThreadPoolExecutor(COUNT, "worker")
_idle: Final[queue.LifoQueue[_Worker]] = queue.LifoQueue()
for _worker in _workers:
    _idle.put(_worker)
atexit.register(close)
