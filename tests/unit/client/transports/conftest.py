"""Servers that the tests of transports share."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from garbage import freeze_heap
from server import serving


@pytest.fixture(scope="module", autouse=True)
def _what_other_tests_keep() -> None:
    """Spare the collections of these tests, of which `fetching` alone makes hundreds, all that."""
    freeze_heap()


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("server")
    with serving(folder) as server:
        yield server.url
