"""What tests of storage versions share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from apidiscovery_service.store import Store
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.sqlite import SqliteStore


@pytest.fixture
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Return an empty store, in memory unless the parameter is `sqlite`."""
    opened: Store = (
        await SqliteStore.open(tmp_path / "store.sqlite")
        if getattr(request, "param", "") == "sqlite"
        else MemoryStore()
    )
    yield opened
    await opened.close()
