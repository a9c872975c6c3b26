"""Both clients report changes, and wait for resources."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from apidiscovery_client._errors import (
    ClientClosed,
    NotServed,
    NotYetServed,
    RequestRefused,
    ServerUnreachable,
)
from apidiscovery_client.changes import Change
from apidiscovery_client.model import (
    CURRENT,
    GroupVersion,
    GroupVersionKind,
    Stale,
    Version,
)
from either_client import Either, Wanted, waited
from scripted_client import MemoryCache, Scene
from scripted_transport import NAME, ScriptedServer, group

WIDGETS = group("example.com", "v1")
BETTER_WIDGETS = group("example.com", "v2", "v1")
GADGETS = group("gadgets.example.com", "v1", kinds=("Gadget",))

AWAY = ServerUnreachable("away", url=NAME)


@pytest.fixture(params=[False, True], ids=["polled", "pushed"])
def can_listen(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


async def some(changes: AsyncGenerator[Change], count: int) -> list[str]:
    return [str(await anext(changes)) for _ in range(count)]


# --------------------------------------------------------------------------------------------------
# Watching.


async def test_a_watch_begins_with_everything_when_that_is_asked_for(
    at: Scene, *, can_listen: bool
) -> None:
    async with (
        at.client(can_listen=can_listen) as client,
        aclosing(client.watch(initial=True)) as changes,
    ):
        assert await some(changes, 1) == ["group example.com added: v1"]
        at.script.serve(BETTER_WIDGETS)
        assert await some(changes, 2) == [
            "group example.com prefers v2, before: v1",
            "version example.com/v2 added: 1 resource",
        ]


async def test_a_watch_reports_only_changes_by_default(at: Scene, *, can_listen: bool) -> None:
    async with at.client(can_listen=can_listen) as client:
        await client.snapshot()
        at.script.serve(WIDGETS, GADGETS)
        async with aclosing(client.watch()) as changes:
            assert await some(changes, 1) == ["group gadgets.example.com added: v1"]
            at.script.serve(GADGETS)
            assert await some(changes, 1) == ["group example.com removed"]
            assert (await client.snapshot()).groups == (GADGETS,)


async def test_changes_since_the_cache_was_written_are_reported(
    at: Scene, *, can_listen: bool
) -> None:
    cache = MemoryCache()
    async with at.client(cache=cache) as client:
        await client.snapshot()
    at.script.serve(GADGETS)
    async with at.client(cache=cache, can_listen=can_listen) as client:
        async with aclosing(client.watch()) as changes:
            assert await some(changes, 2) == [
                "group example.com removed",
                "group gadgets.example.com added: v1",
            ]
        assert cache.puts[-1].snapshot.groups == (GADGETS,)


async def test_a_watch_saves_other_requests(at: Scene, *, can_listen: bool) -> None:
    async with at.client(can_listen=can_listen) as client:
        async with aclosing(client.watch(initial=True, interval_s=100)) as changes:
            await some(changes, 1)
            at.reset()
            at.clock.seconds += 80
            await client.snapshot()
            for _ in range(2):
                with pytest.raises(NotServed):
                    await client.resolve("widgits")
            assert at.script.asked == 0
            await client.refresh()
            await client.snapshot(max_age_s=0)
            assert at.script.asked == 2
        at.clock.seconds += 60
        await client.snapshot()
        assert at.script.asked == 3


async def test_a_watch_that_nobody_reads_soon_saves_no_requests(
    at: Scene, *, can_listen: bool
) -> None:
    async with (
        at.client(can_listen=can_listen) as client,
        aclosing(client.watch(initial=True)) as changes,
    ):
        await some(changes, 1)
        at.reset()
        at.clock.seconds += 91
        await client.snapshot()
        assert at.script.asked == 1


async def test_polls_are_conditional_and_nearly_regular(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()

        async with aclosing(client.watch(interval_s=10)) as changes:
            for number in range(20):
                at.script.serve(*([WIDGETS, GADGETS][: number % 2 + 1]))
                if number:
                    await anext(changes)
        assert len(at.clock.waits) >= 18
        assert all(9 <= wait <= 11 for wait in at.clock.waits)
        assert len(set(at.clock.waits)) > 1


async def test_two_watches_report_the_same(at: Scene, *, can_listen: bool) -> None:
    async with (
        at.client(can_listen=can_listen) as client,
        aclosing(client.watch(initial=True)) as first,
        aclosing(client.watch(initial=True)) as second,
    ):
        assert await some(first, 1) == await some(second, 1)
        at.script.serve(WIDGETS, GADGETS)
        assert await some(first, 1) == await some(second, 1)


async def test_an_outage_is_a_change_and_the_watch_goes_on(at: Scene, *, can_listen: bool) -> None:
    async with (
        at.client(can_listen=can_listen) as client,
        aclosing(client.watch(initial=True)) as changes,
    ):
        await some(changes, 1)
        at.script.fail(AWAY)
        assert await some(changes, 1) == [f"server {NAME} is stale: away"]
        assert isinstance((await client.snapshot()).freshness, Stale)
        at.script.fail(None)
        assert await some(changes, 1) == [f"server {NAME} is current again"]
        at.script.serve()
        assert await some(changes, 1) == ["group example.com removed"]


async def test_a_transport_may_report_an_outage_itself(at: Scene) -> None:
    async with (
        at.client(can_listen=True) as client,
        aclosing(client.watch(initial=True)) as changes,
    ):
        await some(changes, 1)
        at.script.freshness = Stale(at.clock.now(), "silent", retained=True)
        at.script.tell()
        assert await some(changes, 1) == [f"server {NAME} is stale: silent"]
        at.script.freshness = CURRENT
        at.script.tell()
        assert await some(changes, 1) == [f"server {NAME} is current again"]


async def test_being_refused_does_not_end_a_watch_that_has_begun(
    at: Scene, *, can_listen: bool
) -> None:
    async with (
        at.client(can_listen=can_listen) as client,
        aclosing(client.watch(initial=True)) as changes,
    ):
        await some(changes, 1)
        at.script.fail(RequestRefused("who are you", url=NAME, status=401))
        [told] = await some(changes, 1)
        assert "who are you" in told
        at.script.fail(None)
        assert "again" in (await some(changes, 1))[0]


async def test_a_watch_without_a_first_answer_is_an_error(at: Scene, *, can_listen: bool) -> None:
    at.script.fail(AWAY)
    async with at.client(can_listen=can_listen) as client:
        with pytest.raises(ServerUnreachable, match="away"):
            await anext(client.watch())


async def test_a_watch_leaves_nobody_listening(at: Scene) -> None:
    async with at.client(can_listen=True) as client:
        await client.snapshot()
        async with aclosing(client.watch(initial=True)) as changes:
            await some(changes, 1)
            assert at.script.listeners == 1
        assert at.script.listeners == 0


# --------------------------------------------------------------------------------------------------
# Waiting.


WANTED = [
    "widgets",
    "widgets.example.com",
    GroupVersion("example.com", "v1"),
    GroupVersionKind("example.com", "v1", "Widget"),
]


@pytest.mark.parametrize("wanted", WANTED, ids=str)
async def test_a_served_resource_is_not_waited_for(at: Scene, wanted: Wanted) -> None:
    async with at.client() as client:
        found = await waited(client, wanted)
        served = found if isinstance(found, Version) else found.resource
        assert served.gv == WIDGETS.versions[0].gv
        assert at.clock.waits == []


async def test_a_version_of_the_core_group_is_waited_for(at: Scene) -> None:
    at.script.serve(group("", "v1", kinds=("Pod",)))
    async with at.client() as client:
        found = await waited(client, GroupVersion("", "v1"))
        assert isinstance(found, Version)
        assert found.gv == GroupVersion("", "v1")
        with pytest.raises(NotYetServed):
            await waited(client, GroupVersion("", "v2beta1"), timeout_s=0)


async def test_waiting_asks_with_growing_pauses_until_the_timeout(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.reset()
        with pytest.raises(NotYetServed) as caught:
            await waited(client, GroupVersion("example.com", "v2"), timeout_s=9)
        pauses = pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 2, 2, 1.9], rel=0.01)
        assert at.clock.waits == pauses
        assert at.script.asked == len(at.clock.waits) + 1
        assert client.traffic.not_modified == at.script.asked
        assert caught.value.missing == {NAME: "the group is served in v1"}
        assert "example.com/v2 was not served within 9 s" in str(caught.value)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        ("nothing", "the server doesn't have a resource type"),
        (GroupVersion("other.com", "v1"), "the group is not served"),
        (GroupVersionKind("example.com", "v1", "Gadget"), "is served without that kind"),
    ],
    ids=str,
)
async def test_a_timeout_tells_what_is_missing(at: Scene, wanted: Wanted, why: str) -> None:
    async with at.client() as client:
        with pytest.raises(NotYetServed) as caught:
            await waited(client, wanted, timeout_s=1)
        assert why in caught.value.missing[NAME]


async def test_a_stale_version_is_waited_for(at: Scene) -> None:
    stale = Stale(at.clock.now(), "no endpoints", retained=True)
    version = WIDGETS.versions[0].__class__(WIDGETS.versions[0].gv, (), stale, "Stale")
    at.script.serve(WIDGETS.__class__("example.com", (version,)))
    async with at.client() as client:
        with pytest.raises(NotYetServed, match="not current: no endpoints"):
            await waited(client, GroupVersion("example.com", "v1"), timeout_s=1)


async def test_a_server_that_is_away_is_waited_for(at: Scene) -> None:
    at.script.fail(AWAY)
    async with at.client() as client:
        with pytest.raises(NotYetServed, match=f"{NAME}: away"):
            await client.wait_for("widgets", timeout_s=1)
        at.script.fail(None)
        await client.wait_for("widgets", timeout_s=1)


async def test_all_replicas_must_serve_it(at: Scene) -> None:
    other = ScriptedServer(at.clock, GADGETS)
    async with at.client() as client:
        replica = at.replica(other)
        with pytest.raises(NotYetServed):
            await waited(client, "widgets", timeout_s=1, replicas=[replica])
        other.serve(WIDGETS)
        await waited(client, "widgets", timeout_s=1, replicas=[replica])
        assert replica.closes == 0


async def test_a_closed_client_is_not_waited_for(at: Scene) -> None:
    async with at.client() as client:
        other: Either = at.client()
        await other.close()
        with pytest.raises(ClientClosed):
            await waited(client, "widgets", timeout_s=1, replicas=[other])
