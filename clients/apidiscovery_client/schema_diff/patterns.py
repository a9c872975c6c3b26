"""Strings that some regular expressions match and others do not.

The server's expressions are those of Go (RE2). Where Python reads the same text otherwise, or an
expression is more than a finite automaton of reasonable size, nothing is decided.
"""

import importlib
import re
import warnings
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias, cast

# The only reader of expressions that Python has; sre_parse is its deprecated public name.
parser: Any = importlib.import_module("re._parser")
sre: Any = importlib.import_module("re._constants")

_MAX_STATES = 3_000
_MAX_SEEN = 20_000
_MAX_LENGTH = 300
_MAX_CODE = 0x10FFFF

_Ranges: TypeAlias = tuple[tuple[int, int], ...]

_CATEGORIES: dict[object, _Ranges] = {
    sre.CATEGORY_DIGIT: ((48, 57),),
    sre.CATEGORY_SPACE: ((9, 10), (12, 13), (32, 32)),
    sre.CATEGORY_WORD: ((48, 57), (65, 90), (95, 95), (97, 122)),
}
_NEGATED: dict[object, object] = {
    sre.CATEGORY_NOT_DIGIT: sre.CATEGORY_DIGIT,
    sre.CATEGORY_NOT_SPACE: sre.CATEGORY_SPACE,
    sre.CATEGORY_NOT_WORD: sre.CATEGORY_WORD,
}
_START = {sre.AT_BEGINNING, sre.AT_BEGINNING_STRING}
_END = {sre.AT_END, sre.AT_END_STRING}
_ANY: _Ranges = ((0, _MAX_CODE),)
# Python reads these otherwise than Go, or not at all.
_NOT_SHARED = re.compile(r"\\[pPQEzZCbBA]|\(\?|\[\[:|\\x\{|\\[1-9]")


class UndecidableError(Exception):
    """An expression, or the search, is more than this module does."""


def _complement(ranges: _Ranges) -> _Ranges:
    found = list[tuple[int, int]]()
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    if start <= _MAX_CODE:
        found.append((start, _MAX_CODE))
    return tuple(found)


@dataclass(slots=True)
class _Automaton:
    """States by number; 0 is the first and 1 the last, which is final at the end of the text."""

    steps: list[list[tuple[_Ranges, int]]] = field(default_factory=lambda: [[], []])
    free: list[list[tuple[object, int]]] = field(default_factory=lambda: [[], []])
    known: dict[tuple[frozenset[int], int], frozenset[int]] = field(
        default_factory=dict[tuple[frozenset[int], int], frozenset[int]]
    )

    def state(self) -> int:
        if len(self.steps) > _MAX_STATES:
            raise UndecidableError("it is too large")
        self.steps.append([])
        self.free.append([])
        return len(self.steps) - 1

    def closure(self, states: Iterable[int], *, at_start: bool, at_end: bool) -> frozenset[int]:
        found = set(states)
        todo = list(found)
        while todo:
            for condition, target in self.free[todo.pop()]:
                if target in found or (condition == "start" and not at_start):
                    continue
                if condition == "end" and not at_end:
                    continue
                found.add(target)
                todo.append(target)
        return frozenset(found)

    def step(self, states: frozenset[int], code: int) -> frozenset[int]:
        known = self.known.get((states, code))
        if known is None:
            known = self.known[states, code] = self._step(states, code)
        return known

    def _step(self, states: frozenset[int], code: int) -> frozenset[int]:
        if len(self.known) > _MAX_SEEN:
            self.known.clear()
        return frozenset(
            target
            for state in states
            for ranges, target in self.steps[state]
            if any(low <= code <= high for low, high in ranges)
        )


def _class(items: Sequence[tuple[object, object]]) -> _Ranges:
    found = list[tuple[int, int]]()
    negate = False
    for op, value in items:
        if op is sre.NEGATE:
            negate = True
        elif op is sre.LITERAL:
            found.append((cast("int", value), cast("int", value)))
        elif op is sre.RANGE:
            found.append(cast("tuple[int, int]", value))
        elif op is sre.CATEGORY and value in _CATEGORIES:
            found.extend(_CATEGORIES[value])
        elif op is sre.CATEGORY and value in _NEGATED:
            found.extend(_complement(_CATEGORIES[_NEGATED[value]]))
        else:
            raise UndecidableError("it has a class that is not read")
    return _complement(tuple(found)) if negate else tuple(found)


def _add(machine: _Automaton, items: Iterable[tuple[object, object]], start: int) -> int:
    """Add a sequence behind a state; return the state behind it."""
    for op, value in items:
        start = _add_one(machine, op, value, start)
    return start


def _add_one(machine: _Automaton, op: object, value: object, start: int) -> int:
    end = machine.state()
    if op in (sre.LITERAL, sre.NOT_LITERAL):
        ranges: _Ranges = ((cast("int", value), cast("int", value)),)
        machine.steps[start].append((ranges if op is sre.LITERAL else _complement(ranges), end))
    elif op is sre.ANY:
        machine.steps[start].append((_complement(((10, 10),)), end))
    elif op is sre.IN:
        machine.steps[start].append((_class(cast("list[tuple[object, object]]", value)), end))
    elif op is sre.AT and (value in _START or value in _END):
        machine.free[start].append(("start" if value in _START else "end", end))
    elif op is sre.BRANCH:
        for branch in cast("tuple[object, list[list[tuple[object, object]]]]", value)[1]:
            machine.free[_add(machine, branch, start)].append((None, end))
    elif op is sre.SUBPATTERN:
        inner = cast("tuple[object, int, int, list[tuple[object, object]]]", value)[3]
        machine.free[_add(machine, inner, start)].append((None, end))
    elif op in (sre.MAX_REPEAT, sre.MIN_REPEAT):
        _add_repeat(machine, value, start, end)
    else:
        raise UndecidableError(f"{str(op).lower()} is not read")
    return end


def _add_repeat(machine: _Automaton, value: object, start: int, end: int) -> None:
    least, most, inner = cast("tuple[int, object, list[tuple[object, object]]]", value)
    for _ in range(least):
        start = _add(machine, inner, start)
    if most is sre.MAXREPEAT:
        loop = machine.state()
        machine.free[start].append((None, loop))
        machine.free[_add(machine, inner, loop)].append((None, loop))
        machine.free[loop].append((None, end))
        return
    for _ in range(cast("int", most) - least):
        machine.free[start].append((None, end))
        start = _add(machine, inner, start)
    machine.free[start].append((None, end))


@lru_cache(maxsize=1024)
def _automaton(pattern: str) -> _Automaton:
    if _NOT_SHARED.search(pattern) or len(pattern) > _MAX_STATES:
        raise UndecidableError("it has what Go and Python read differently")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = parser.parse(pattern)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise UndecidableError(f"Python does not read it: {error}") from error
    machine = _Automaton()
    # An expression matches anywhere in the text: it may begin late and end early.
    machine.steps[0].append((_ANY, 0))
    first = machine.state()
    machine.free[0].append((None, first))
    last = _add(machine, cast("list[tuple[object, object]]", tree), first)
    machine.free[last].append((None, 1))
    machine.steps[1].append((_ANY, 1))
    return machine


def matches(pattern: str, text: str) -> bool | None:
    """Tell whether a text has a match; None where the expression cannot be decided."""
    try:
        machine = _automaton(pattern)
    except UndecidableError:
        return None
    states = machine.closure({0}, at_start=True, at_end=not text)
    for at, char in enumerate(text, start=1):
        reached = machine.step(states, ord(char))
        states = machine.closure(reached, at_start=False, at_end=at == len(text))
    return 1 in states


def _letters(machines: Sequence[_Automaton]) -> list[int]:
    """Return one code of each class of codes that no automaton tells apart; readable ones first."""
    starts = {0}
    for machine in machines:
        for steps in machine.steps:
            for ranges, _ in steps:
                starts.update(edge for low, high in ranges for edge in (low, high + 1))
    edges = sorted(edge for edge in starts if edge <= _MAX_CODE)
    found = list[int]()
    for low, after in zip(edges, [*edges[1:], _MAX_CODE + 1], strict=True):
        if after <= 0xD800 or low > 0xDFFF:  # noqa: PLR2004 - surrogates are not text
            found.append(next((code for code in (97, 65, 48) if low <= code < after), low))
        elif low < 0xD800:  # noqa: PLR2004 - as above
            found.append(low)
    return sorted(found, key=lambda code: (not 33 <= code < 127, code))  # noqa: PLR2004 - ASCII


def find_string(
    matched: Sequence[str], unmatched: str | None = None, *, least: int = 0, most: int | None = None
) -> str | None:
    """Return a shortest string that all of some expressions match and another does not.

    Args:
        matched: Expressions, all of which match.
        unmatched: An expression that does not match; None for no such.
        least: The least number of characters.
        most: The greatest.

    Returns:
        The string; None where there is none.

    Raises:
        UndecidableError: An expression is not read, or the search is too long.
    """
    if unmatched in matched or (most is not None and most < least):
        return None
    found = _search(tuple(matched), unmatched, least, most)
    if isinstance(found, UndecidableError):
        raise found
    return found


@lru_cache(maxsize=4096)
def _search(
    matched: tuple[str, ...], unmatched: str | None, least: int, most: int | None
) -> str | UndecidableError | None:
    """Return what `find_string` returns or raises; definitions repeat the same few patterns."""
    try:
        return _shortest(matched, unmatched, least, most)
    except UndecidableError as error:
        return error


def _shortest(
    matched: tuple[str, ...], unmatched: str | None, least: int, most: int | None
) -> str | None:
    machines = [_automaton(pattern) for pattern in matched]
    if unmatched is not None:
        machines.append(_automaton(unmatched))
    positive = len(matched)
    if least > _MAX_LENGTH:
        raise UndecidableError(f"strings of {least} characters are not searched")
    counted = least if most is None else most + 1
    cut = min(counted, _MAX_LENGTH)  # the search ends before a greater number matters
    letters = _letters(machines)
    first = tuple(frozenset({0}) for _ in machines)
    todo = deque([(first, "", True)])
    seen = {(first, 0)}
    while todo:
        raw, text, at_start = todo.popleft()
        final = [
            1 in machine.closure(states, at_start=at_start, at_end=True)
            for machine, states in zip(machines, raw, strict=True)
        ]
        if len(text) >= least and all(final[:positive]) and not any(final[positive:]):
            return text
        if most is not None and len(text) >= most:
            continue
        moving = [
            machine.closure(states, at_start=at_start, at_end=False)
            for machine, states in zip(machines, raw, strict=True)
        ]
        for code in letters:
            reached = tuple(
                machine.step(states, code) for machine, states in zip(machines, moving, strict=True)
            )
            key = (reached, min(len(text) + 1, cut))
            if key in seen or not all(reached[:positive]):
                continue
            seen.add(key)
            if len(seen) > _MAX_SEEN or len(text) > _MAX_LENGTH:
                raise UndecidableError("the search for a string is too long")
            todo.append((reached, text + chr(code), False))
    return None
