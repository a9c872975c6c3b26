"""Derives the markers of a test from its code and that of its fixtures."""

import inspect
import os
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import cast

import pytest

IS_LONG = bool(os.environ.get("APIDISCOVERY_LONG_TESTS"))
"""Whether tests marked `long` run, and property tests try ten times as many examples."""

_TESTS = Path(__file__).parent.parent
_ROOT = str(_TESTS)
_FOLDERS = {
    **dict.fromkeys(("e2e", "guides", "hostile", "real"), "process"),
    **dict.fromkeys(("adapters", "conformance", "grpc", "store"), "waiting"),
    **dict.fromkeys(("transports", "upstreams"), "waiting"),
}
_NAMES = {
    "subprocess": "process",
    "create_subprocess_exec": "process",
    "pytester": "process",
    "write_plugin": "process",
    "sleep": "waiting",
}


def markers_of(item: pytest.Function) -> frozenset[str]:
    """Return the markers of a test.

    `process`: it starts processes. `waiting`: it sleeps, or is in a folder of tests that wait for
    connections and deadlines. `property`: it uses hypothesis. A test that starts processes only
    through the tested code needs its marker by hand.
    """
    folders = item.path.relative_to(_TESTS).parts
    found = {_FOLDERS[folder] for folder in folders if folder in _FOLDERS}
    found |= {_NAMES[name] for name in item.fixturenames if name in _NAMES}
    test = cast("object", item.function)  # pyright: ignore[reportUnknownMemberType]
    fixtures = item._fixtureinfo.name2fixturedefs  # noqa: SLF001 # pyright: ignore[reportPrivateUsage] - nothing else has them
    values: list[object] = [test, *(one.func for some in fixtures.values() for one in some)]
    if hasattr(item, "callspec"):
        values += filter(callable, item.callspec.params.values())
    # A state machine is run by a function of hypothesis.
    if item.name == "runTest" or hasattr(test, "hypothesis"):
        found.add("property")
    return frozenset(found).union(*(_reached(one) for value in values for one in _ours(value)))


@cache
def _reached(start: FunctionType) -> frozenset[str]:
    """Return the markers for the names in a function, and in the functions that it calls."""
    found, seen, left = set[str](), set[FunctionType](), [start]
    while left:
        function = left.pop()
        if function not in seen:
            seen.add(function)
            names = set(_names(function.__code__))
            found |= {_NAMES[name] for name in names & _NAMES.keys()}
            for name in names & function.__globals__.keys():
                left += _ours(function.__globals__[name], names)
    return frozenset(found)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _ours(value: object, names: frozenset[str] | set[str] = frozenset()) -> Iterator[FunctionType]:
    """Yield functions of the tests: the value, all of a class, or those of a module by name."""
    value = inspect.unwrap(value) if callable(value) else value
    if isinstance(value, FunctionType):
        if value.__code__.co_filename.startswith(_ROOT):
            yield value
    elif isinstance(value, type) and _is_ours(sys.modules.get(value.__module__)):
        yield from (one for one in vars(value).values() if isinstance(one, FunctionType))
    elif isinstance(value, ModuleType) and _is_ours(value):
        for name in names & vars(value).keys():
            if isinstance(vars(value)[name], FunctionType):
                yield vars(value)[name]


def _is_ours(module: ModuleType | None) -> bool:
    return (getattr(module, "__file__", None) or "").startswith(_ROOT)
