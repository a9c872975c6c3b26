"""Fixtures of tests of upstreams."""

from collections.abc import AsyncIterator

import pytest
from apidiscovery_service.sources.upstreams.list_reader import GroupVersion
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.store import Store
from apidiscovery_service.store.memory import MemoryStore
from upstream_setup import Ask, Asking


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    """Return an empty store."""
    made = MemoryStore()
    yield made
    await made.close()


@pytest.fixture
async def ask() -> AsyncIterator[Ask]:
    """Return what makes rounds with an upstream, ended with the test."""
    made: list[Asking] = []

    def begin(spec: UpstreamSpec, wanted: frozenset[GroupVersion] = frozenset()) -> Asking:
        made.append(Asking(spec, wanted))
        return made[-1]

    yield begin
    for one in made:
        await one.close()
