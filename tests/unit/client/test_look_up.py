"""`look_up`: a custom look-up in what is known, repeated once after a refresh."""

import pytest
from apidiscovery_client import (
    AsyncDiscoveryClient,
    ClientOptions,
    DiscoveryClient,
    NotServed,
)
from apidiscovery_client.resolving import Resolver
from apidiscovery_client.testing import FakeApiServer, group, resource

OPTIONS = ClientOptions(miss_recheck_s=0.0)
WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])


def plural_of_widgets(known: Resolver) -> str:
    for found in known.snapshot.resources:
        if found.kind == "Widget":
            return found.name
    raise NotServed("widgets", checked_at=known.snapshot.checked_at)


def test_a_miss_is_asked_for_once_and_remembered_for_a_while() -> None:
    with (
        FakeApiServer([]) as server,
        DiscoveryClient(server.url, options=OPTIONS) as client,
    ):
        for _ in range(3):
            with pytest.raises(NotServed):
                client.look_up("widgets", plural_of_widgets)
        assert len(server.requests) == 4
        server.add(WIDGETS)
        assert client.look_up("the same in other words", plural_of_widgets) == "widgets"
        assert client.look_up("widgets", plural_of_widgets) == "widgets"
        assert len(server.requests) == 6


async def test_it_is_the_same_with_asyncio() -> None:
    with FakeApiServer([]) as server:
        async with AsyncDiscoveryClient(server.url, options=OPTIONS) as client:
            for _ in range(2):
                with pytest.raises(NotServed):
                    await client.look_up("widgets", plural_of_widgets)
            server.add(WIDGETS)
            assert await client.look_up("in other words", plural_of_widgets) == "widgets"
            assert len(server.requests) == 6
