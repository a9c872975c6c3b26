"""Work away from the event loop: in worker processes, or in a thread by its size.

Worker processes read and make large and foreign documents. A call names a function of a module; the
function, its arguments and its result or exception are pickled. A worker that takes too long or too
much memory fails that call alone.

The standard library's ProcessPoolExecutor is not used: one dead process fails the calls of all
others, a slow call cannot be ended, and each process imports the program that started it.
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
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Final, NoReturn, ParamSpec, TypeVar, cast

from apidiscovery_service.errors import DiscoveryError

_P = ParamSpec("_P")
_T = TypeVar("_T")

COUNT: Final = 2
"""Number of workers; each starts with its first call and ends when it is idle."""

MEMORY_BYTES: Final = 1 << 30
"""Address space of a worker."""

WITHIN_S: Final = 60.0
"""Seconds for one call; the largest documents take ten."""

IDLE_S: Final = 60.0
"""Seconds that a worker waits for a call before it ends."""

INLINE_BYTES: Final = 32 * 1024
"""Reading, checking and writing a smaller object takes a few milliseconds: it runs inline."""


class WorkerFailed(DiscoveryError):
    """A call took too long or too much memory, or its worker died; another call may work."""


async def run(function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Call a function of a module in a worker; return its result or raise its exception.

    Arguments and result should be bytes, or small: pickling them blocks the event loop.

    Raises:
        WorkerFailed: The call took more than `WITHIN_S` or `MEMORY_BYTES`, or its worker died.
    """
    waiting = _threads.submit(_run, (function, args, kwargs))
    _waiting.add(waiting)
    waiting.add_done_callback(_waiting.discard)
    return cast("_T", await asyncio.wrap_future(waiting))


async def run_sized(size: int, work: Callable[[], _T]) -> _T:
    """Return the result of some work, done in a thread if its input is large.

    Args:
        size: Bytes of its input.
        work: Shares no changing state with the event loop.
    """
    return work() if size <= INLINE_BYTES else await asyncio.to_thread(work)


def _run(call: object) -> object:
    worker = _idle.get_nowait()
    try:
        return worker.run(pickle.dumps(call, protocol=pickle.HIGHEST_PROTOCOL))
    finally:
        _idle.put(worker)


def close() -> None:
    """Kill the workers, and cancel the calls that wait for them; a later call starts new ones."""
    # At its end Python would wait until all of these were made, by new workers.
    for waiting in tuple(_waiting):
        waiting.cancel()
    for worker in _workers:
        worker.close()


class _Worker:
    """A process, started by the first call and again after it has ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self, call: bytes) -> object:
        """Make a pickled call; return its result or raise its exception.

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
        """Kill the process, and with it the call under way."""
        process = self._process
        if process:
            process.kill()
            with self._lock:
                self._end()

    def _exchange(self, call: bytes) -> tuple[bool, object]:
        """Return whether a call returned, and its result or exception."""
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
            # The worker ended as idle just when the call came: start another one.

    def _end(self) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        with contextlib.suppress(OSError):  # bytes that it did not read are still buffered
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
    ending = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    return f"the worker process ended with {ending}"


def serve(within_s: float, memory_bytes: int, idle_s: float) -> None:
    """Make the calls that arrive on standard input until it ends, or none arrives for long.

    Args:
        within_s: Time limit of a call.
        memory_bytes: Address space of this process.
        idle_s: Time to wait for a call.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server ends its workers itself
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    with contextlib.suppress(OSError):  # the kernel kills a worker before the server
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    calls, results = os.fdopen(0, "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # printed text is not a result
    while calls.peek(1) if select.select([calls], [], [], idle_s)[0] else b"":
        try:
            function, args, kwargs = pickle.load(calls)  # noqa: S301 - from our own server
        except (EOFError, pickle.UnpicklingError):
            return  # the server was killed while it wrote
        signal.setitimer(signal.ITIMER_REAL, within_s)
        outcome = _outcome(function, args, kwargs)
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            results.write(outcome)
            results.flush()
        except BrokenPipeError:
            os._exit(0)  # the server was killed; at a usual exit Python would write again


def _outcome(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> bytes:
    """Return whether a call returned, and its result or exception, pickled."""
    try:
        outcome = (True, function(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - raised again in the caller
        outcome = (False, error)
    return pickle.dumps(outcome, protocol=pickle.HIGHEST_PROTOCOL)


# Each call under way has a thread that waits for its worker.
_workers: Final = tuple(_Worker() for _ in range(COUNT))
_threads: Final = ThreadPoolExecutor(COUNT, "worker")
_waiting: Final[set[Future[object]]] = set()
_idle: Final[queue.LifoQueue[_Worker]] = queue.LifoQueue()
for _worker in _workers:
    _idle.put(_worker)
atexit.register(close)


def leave(code: int) -> NoReturn:
    """End the process without finalizing the interpreter.

    Before Python 3.14 a thread that wants the interpreter while it is finalized is ended by
    unwinding its stack. Threads of Granian cannot be unwound, and would abort the process.

    Source: python/cpython#87135.
    """
    close()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
