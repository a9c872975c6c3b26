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
from either_client import Either, InThreads

OPTIONS = ClientOptions(miss_recheck_s=0.0)
WIDGETS = group("example.com", v1=[resource("widgets", "Widget")])


def plural_of_widgets(known: Resolver) -> str:
    for found in known.snapshot.resources:
        if found.kind == "Widget":
            return found.name
    raise NotServed("widgets", checked_at=known.snapshot.checked_at)


@pytest.mark.parametrize("is_async", [True, False], ids=["async", "sync"])
async def test_a_miss_is_asked_for_once_and_remembered_for_a_while(*, is_async: bool) -> None:
    with FakeApiServer([]) as server:
        client: Either = (
            AsyncDiscoveryClient(server.url, options=OPTIONS)
            if is_async
            else InThreads(DiscoveryClient(server.url, options=OPTIONS))
        )
        async with client:
            for _ in range(3):
                with pytest.raises(NotServed):
                    await client.look_up("widgets", plural_of_widgets)
            assert len(server.requests) == 4
            server.add(WIDGETS)
            assert await client.look_up("in other words", plural_of_widgets) == "widgets"
            assert await client.look_up("widgets", plural_of_widgets) == "widgets"
            assert len(server.requests) == 6
