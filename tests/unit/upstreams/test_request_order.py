"""The order of requests for discovery and details with many servers."""

import asyncio
from contextlib import AsyncExitStack

from apidiscovery_service.sources.upstreams.request_order import (
    DETAILS_AT_ONCE,
    FIRST_ROUNDS_AT_ONCE,
    RequestOrder,
)

LONG_S = 20.0


async def test_details_wait_for_the_first_round_of_every_server() -> None:
    order = RequestOrder()
    for server in ("a", "b"):
        order.begin(server)
    async with order.discovery("a"):
        pass
    async with order.details(0.0) as is_its_turn:
        assert not is_its_turn
    async with order.discovery("b"):
        pass
    async with order.details(LONG_S) as is_its_turn:
        assert is_its_turn


async def test_details_do_not_wait_for_a_dropped_server() -> None:
    order = RequestOrder()
    order.begin("a")
    order.end("a")
    async with order.details(LONG_S) as is_its_turn:
        assert is_its_turn


async def test_few_servers_get_requests_for_details_at_once() -> None:
    order = RequestOrder()
    async with AsyncExitStack() as stack:
        for _ in range(DETAILS_AT_ONCE):
            assert await stack.enter_async_context(order.details(LONG_S))
        async with order.details(0.0) as is_its_turn:
            assert not is_its_turn
    async with order.details(LONG_S) as is_its_turn:
        assert is_its_turn


async def test_only_first_rounds_wait_for_others() -> None:
    order = RequestOrder()
    servers = [f"s{number}" for number in range(FIRST_ROUNDS_AT_ONCE + 1)]
    for server in servers:
        order.begin(server)
    async with AsyncExitStack() as stack:
        for server in servers[:-1]:
            await stack.enter_async_context(order.discovery(server))
        last = asyncio.create_task(stack.enter_async_context(order.discovery(servers[-1])))
        async with order.discovery("one that was asked before"):
            await asyncio.sleep(0)  # the other begins to wait
        assert not last.done()
        last.cancel()
