"""Several calls at once, by threads that are gone when they are done."""

from collections.abc import Callable, Sequence
from itertools import count
from threading import Thread
from typing import Generic, TypeVar

_END_S = 5.0  # how long to wait for threads that were told to end; a name look-up goes on longer

T = TypeVar("T")


def side_by_side(
    calls: Sequence[Callable[[], T]], at_once: int, end: Callable[[], object]
) -> list[T]:
    """Return what the calls return, in their order; the caller's thread does its part.

    Args:
        calls: What to call.
        at_once: How many at most at the same time.
        end: Has the calls that are under way fail soon.

    Raises:
        BaseException: What a call raised first, or what interrupted the caller; `end` was called
            then, and no other call is begun.
    """
    work = _Work(calls, end)
    threads = [
        Thread(target=work.help, name="apidiscovery-http", daemon=True)
        for _ in range(min(at_once, len(calls)) - 1)
    ]
    try:
        for thread in threads:
            thread.start()
        work.do()
        for thread in threads:
            thread.join()
    except BaseException as problem:  # noqa: BLE001 - raised below, unless another came first
        work.fail(problem)
        for thread in threads:
            if thread.ident is not None:
                thread.join(_END_S)
    return work.results()


class _Work(Generic[T]):
    def __init__(self, calls: Sequence[Callable[[], T]], end: Callable[[], object]) -> None:
        self._calls = calls
        self._end = end
        self._places = count()  # its `next` is atomic
        self._results: dict[int, T] = {}
        self._problems: list[BaseException] = []

    def do(self) -> None:
        while (place := next(self._places)) < len(self._calls) and not self._problems:
            self._results[place] = self._calls[place]()

    def help(self) -> None:
        try:
            self.do()
        except BaseException as problem:  # noqa: BLE001 - it is raised in the caller's thread
            self.fail(problem)

    def fail(self, problem: BaseException) -> None:
        self._problems.append(problem)
        self._end()

    def results(self) -> list[T]:
        if self._problems:
            raise self._problems[0]
        return [self._results[place] for place in range(len(self._calls))]
