"""What tests of registrations share."""

from collections.abc import AsyncIterator

import pytest
from registry_server import Replica, following


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    """Return a replica that follows a store in memory."""
    async with following(Replica()) as (started,):
        yield started
