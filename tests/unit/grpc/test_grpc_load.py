"""The service under load: slow readers, many watches, large documents, many calls at once."""

import asyncio
import contextlib
import gc
import random
import weakref
from collections import Counter
from dataclasses import dataclass, field

import grpc
from apidiscovery.service.v1 import discovery_pb2, discovery_pb2_grpc
from grpc_contributions import APPS, CORE, EXAMPLES, large, one_group, random_step, resource
from grpc_holding import Holding
from grpc_server import (
    SERVICE,
    Served,
    WatchCall,
    next_bytes,
    next_changes,
    next_message,
    raw_get,
    raw_watch,
    serving,
)
from waiting import WITHIN_S, until

SCOPES = (
    discovery_pb2.DISCOVERY_SCOPE_CORE,
    discovery_pb2.DISCOVERY_SCOPE_GROUPS,
    discovery_pb2.DISCOVERY_SCOPE_ALL,
)
MIB = 1024 * 1024
LARGE_BYTES = 5 * MIB  # more than gRPC takes by default


def bulky(number: int, size: int) -> str:
    """Return text of that size, not the same for any two numbers."""
    return f"{number}-".ljust(size, "x")


async def test_a_slow_reader_gets_few_messages_and_the_right_state() -> None:
    """500 changes of 100 KB each go by; what is not read is neither sent nor queued."""
    changes, size = 500, 100_000
    async with serving(CORE, APPS) as served, served.channel() as channel:
        call = raw_watch(channel, discovery_pb2.WatchDiscoveryRequest())
        held = Holding()
        first = discovery_pb2.WatchDiscoveryResponse.FromString(await next_bytes(call))
        held.apply(first.changes.delta)
        async with served.stub() as stub:
            for number in range(changes):
                served.registry.publish(one_group("apps", resource("r", bulky(number, size))))
                if number % 10 == 0:
                    # Over a connection of its own: the server is not kept from sending.
                    await stub.GetDiscovery(
                        discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_CORE),
                        timeout=WITHIN_S,
                    )
                else:
                    await asyncio.sleep(0)
            served.registry.publish(*EXAMPLES[:2])
            final = await stub.GetDiscovery(discovery_pb2.GetDiscoveryRequest(), timeout=WITHIN_S)
        received: list[int] = []
        while held.etag(discovery_pb2.DISCOVERY_SCOPE_ALL) != final.etag:
            message = await next_bytes(call)
            received.append(len(message))
            response = discovery_pb2.WatchDiscoveryResponse.FromString(message)
            held.apply(response.changes.delta)
            assert response.changes.etag == held.etag(discovery_pb2.DISCOVERY_SCOPE_ALL)
        call.cancel()
        assert held == Holding.of(final)
        # HTTP/2's windows may hold some messages; beyond those there is one at most.
        assert len(received) < changes // 5
        assert sum(received) < changes * size // 5


async def stall(served: Served, call: WatchCall) -> None:
    """Publish large changes until the watch, which is not read, hears of no more of them."""
    await next_changes(call)
    for number in range(40):
        served.registry.publish(one_group("apps", resource("r", bulky(number, MIB))))
        for _ in range(20):
            await asyncio.sleep(0)


async def test_a_slow_reader_keeps_nothing_that_is_not_served_any_more() -> None:
    """However long it does not read, the documents of the past go once others have read them."""
    async with serving(CORE, one_group("old.example.com")) as served, served.stub() as stub:
        (old,) = served.registry.snapshot.named.groups
        withdrawn = weakref.ref(old)
        del old
        call = stub.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest())
        await stall(served, call)
        served.registry.withdraw("source of old.example.com")
        served.registry.publish(APPS)

        def is_gone() -> bool:
            gc.collect()
            return withdrawn() is None

        await until(is_gone, "the documents of the past are gone", within_s=10)
        call.cancel()


async def test_a_slow_reader_does_not_hold_up_the_others() -> None:
    async with serving(CORE) as served, served.stub() as slow, served.stub() as quick:
        stalled = slow.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest())
        await stall(served, stalled)
        call = quick.WatchDiscovery(discovery_pb2.WatchDiscoveryRequest())
        await next_changes(call)
        served.registry.publish(EXAMPLES[0])
        changes = await next_changes(call)
        assert [group.name for group in changes.delta.changed] == ["a.example.com"]
        assert served.watchers == 2
        stalled.cancel()
        await until(lambda: served.watchers == 1, within_s=10)
        call.cancel()


@dataclass
class Watcher:
    """A client that keeps up with a watch, more or less.

    Attributes:
        rng: Says how long it does something else between two messages.
    """

    scope: discovery_pb2.DiscoveryScope.ValueType
    rng: random.Random
    held: Holding = field(default_factory=Holding)
    messages: int = 0

    async def run(self, stub: "discovery_pb2_grpc.DiscoveryServiceAsyncStub") -> None:
        """Follow until cancelled; now and then, begin a new watch with the groups held."""
        while True:
            call = stub.WatchDiscovery(
                discovery_pb2.WatchDiscoveryRequest(scope=self.scope, known_groups=self.held.known)
            )
            try:
                await self._follow(call)
            finally:
                call.cancel()

    async def _follow(self, call: WatchCall) -> None:
        for _ in range(self.rng.randint(5, 40)):
            changes = (await next_message(call)).changes
            self.held.apply(changes.delta)
            assert self.held.etag(self.scope) == changes.etag
            self.messages += 1
            for _ in range(self.rng.choice((0, 0, 1, 50))):
                await asyncio.sleep(0)


async def test_fifty_watches_all_arrive_at_the_same_state() -> None:
    rng = random.Random(20)  # noqa: S311 - seeded on purpose
    watchers = [Watcher(SCOPES[n % 3], random.Random(n)) for n in range(50)]  # noqa: S311
    async with serving(CORE, APPS, *EXAMPLES) as served, served.stub() as stub:
        tasks = [asyncio.create_task(watcher.run(stub)) for watcher in watchers]
        await until(lambda: all(watcher.messages for watcher in watchers))
        for _ in range(200):
            random_step(served.registry, rng)
            for _ in range(rng.choice((0, 1, 20))):
                await asyncio.sleep(0)
        expected: dict[discovery_pb2.DiscoveryScope.ValueType, Holding] = {}
        for scope in SCOPES:
            request = discovery_pb2.GetDiscoveryRequest(scope=scope)
            expected[scope] = Holding.of(await stub.GetDiscovery(request, timeout=WITHIN_S))
        await until(
            lambda: (
                any(task.done() for task in tasks)
                or all(watcher.held == expected[watcher.scope] for watcher in watchers)
            )
        )
        for task in tasks:
            assert task.cancel(), task.exception()
        await asyncio.gather(*tasks, return_exceptions=True)
        await until(lambda: served.watchers == 0, within_s=10)
    assert all(watcher.held == expected[watcher.scope] for watcher in watchers)


async def test_a_document_above_the_default_limit_passes_in_every_way() -> None:
    async with (
        asyncio.timeout(WITHIN_S),
        serving(large(LARGE_BYTES), CORE) as served,
        served.channel() as channel,
    ):
        message = await served.encoding.current.list_message(core=False)
        assert len(message) > LARGE_BYTES
        tag = served.registry.snapshot.named.etag

        request = discovery_pb2.GetDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS)
        whole = await raw_get(channel, request)
        response = discovery_pb2.GetDiscoveryResponse.FromString(whole)
        assert response.etag == tag
        assert response.v2.groups.SerializeToString() == message

        request.known_groups.SetInParent()
        delta = discovery_pb2.GetDiscoveryResponse.FromString(await raw_get(channel, request))
        assert list(map(_item, delta.delta.changed)) == _items(response)

        watch = raw_watch(
            channel,
            discovery_pb2.WatchDiscoveryRequest(scope=discovery_pb2.DISCOVERY_SCOPE_GROUPS),
        )
        first = discovery_pb2.WatchDiscoveryResponse.FromString(await next_bytes(watch))
        assert first.changes.delta == delta.delta
        assert first.changes.etag == tag
        served.registry.publish(APPS)
        second = await next_bytes(watch)
        assert len(second) < 1000
        watch.cancel()


def _item(changed: discovery_pb2.ChangedGroup) -> bytes:
    return changed.v2.SerializeToString()


def _items(response: discovery_pb2.GetDiscoveryResponse) -> list[bytes]:
    return [item.SerializeToString() for item in response.v2.groups.items]


# By default, gRPC drops some of the calls above 1000 that wait.
_CONNECTIONS, _EACH = 2, 750


async def test_no_call_of_a_burst_is_dropped() -> None:
    request = discovery_pb2.ListSourcesRequest().SerializeToString()
    async with serving() as served, contextlib.AsyncExitStack() as stack:
        # Blocking clients: while they begin their calls, the server takes none of them.
        channels = [
            stack.enter_context(grpc.insecure_channel(served.target, [("connection", number)]))
            for number in range(_CONNECTIONS)
        ]
        for channel in channels:
            grpc.channel_ready_future(channel).result(WITHIN_S)
        calls: list[grpc.Call] = []
        for channel in channels:
            method: grpc.UnaryUnaryMultiCallable[bytes, bytes]
            method = channel.unary_unary(f"/{SERVICE}/ListSources")
            calls += [method.future(request, timeout=60) for _ in range(_EACH)]
        ended = await asyncio.to_thread(lambda: Counter(call.code() for call in calls))
    assert ended == {grpc.StatusCode.OK: _CONNECTIONS * _EACH}
