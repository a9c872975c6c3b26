"""What tests of storage versions share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from apidiscovery_service.store import Store
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.sqlite import SqliteStore


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Return an empty store of each kind that needs no server."""
    opened: Store = (
        MemoryStore()
        if request.param == "memory"
        else await SqliteStore.open(tmp_path / "store.sqlite")
    )
    yield opened
    await opened.close()
