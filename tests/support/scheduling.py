"""Which tests run together, and in which order, when several run at once."""

from collections.abc import Iterable
from itertools import chain

import pytest
from xdist.remote import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] - as below
    Producer,
)
from xdist.scheduler import (  # type: ignore[import-untyped] # pyright: ignore[reportMissingTypeStubs] - typed, without py.typed
    LoadFileScheduling,
)

# Each of these tests takes long and is independent of the others.
_SPLIT = ("tests/e2e/guides/test_pages.py",)


def unit_of(nodeid: str) -> str:
    """Return the unit of a test: its file, or the test itself. A unit runs on one worker."""
    file = nodeid.partition("::")[0]
    return nodeid if file in _SPLIT else file


def mixed(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in an order that spreads those with processes evenly among the others.

    Together they would overload the machine, and at the end few workers would have work. Tests of
    split files come first.
    """
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(unit_of(item.nodeid), []).append(item)
    split = [unit for name, unit in units.items() if "::" in name]
    files = [unit for name, unit in units.items() if "::" not in name]
    heavy = [unit for unit in files if _starts_processes(unit)]
    light = [unit for unit in files if not _starts_processes(unit)]
    placed = [
        (place / len(of_kind), unit)
        for of_kind in ([*split, *heavy], light)
        for place, unit in enumerate(of_kind)
    ]
    return list(chain.from_iterable(unit for _, unit in sorted(placed, key=lambda each: each[0])))


def _starts_processes(unit: Iterable[pytest.Item]) -> bool:
    return any(item.get_closest_marker("process") for item in unit)


class UnitScheduling(LoadFileScheduling):  # type: ignore[misc] # see the import
    """Assigns the units to workers one after the other, in the order of collection."""

    def __init__(self, config: pytest.Config) -> None:
        config.option.loadscopereorder = False
        super().__init__(config, Producer("units", enabled=config.option.debug))

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
