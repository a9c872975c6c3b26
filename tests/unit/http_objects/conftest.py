"""These tests run on the loop that the server runs on."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop
from object_server import ObjectServer, object_server


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture
async def served() -> AsyncIterator[ObjectServer]:
    """Return a server without objects."""
    async with object_server() as server:
        yield server
