"""A browser for each module; each test opens a context of its own."""

from collections.abc import Iterator

import pytest
from browsing import chromium
from playwright.sync_api import Browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running
