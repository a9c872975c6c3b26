"""Both clients answer from their snapshot, and ask the server only when they must."""

from dataclasses import replace

import pytest
from apidiscovery_client._errors import (
    AmbiguousResource,
    ClientClosed,
    NotServed,
    RequestRefused,
    ServerUnreachable,
    StaleGroup,
)
from apidiscovery_client._interfaces import FetchedSnapshot
from apidiscovery_client._sans_io.options import ClientOptions
from apidiscovery_client.model import CURRENT, Group, Snapshot, Stale, Unknown, Version
from scripted_client import MemoryCache, Scene
from scripted_transport import NAME, SetClock, group

WIDGETS = group("example.com", "v1")
GADGETS = group("gadgets.example.com", "v1", kinds=("Gadget",))


def fetched(clock: SetClock, *groups: Group, age_s: float, etag: str = "e") -> FetchedSnapshot:
    checked_at = clock.now().fromtimestamp(clock.now().timestamp() - age_s, clock.now().tzinfo)
    snapshot = Snapshot(groups=groups, server=NAME, checked_at=checked_at)
    return FetchedSnapshot(snapshot=snapshot, etags={"": etag} if etag else {})


# --------------------------------------------------------------------------------------------------
# Age.


async def test_a_snapshot_is_asked_for_once_and_then_remembered(at: Scene) -> None:
    async with at.client() as client:
        first = await client.snapshot()
        assert first.groups == (WIDGETS,)
        assert await client.snapshot() is first
        assert (client.traffic.requests, client.server) == (1, NAME)


async def test_it_is_asked_again_when_it_is_older_than_allowed(at: Scene) -> None:
    async with at.client() as client:
        first = await client.snapshot()
        at.clock.seconds += 59.9
        await client.snapshot()
        assert at.script.asked == 1
        at.clock.seconds += 0.1
        again = await client.snapshot()
        assert at.script.asked == 2
        assert client.traffic.not_modified == 1
        assert again.groups is first.groups
        assert again.checked_at > first.checked_at


async def test_an_age_of_zero_always_asks(at: Scene) -> None:
    async with at.client() as client:
        for _ in range(3):
            await client.snapshot(max_age_s=0)
        assert at.script.asked == 3


async def test_an_age_may_be_shorter_or_longer_than_usual(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 100
        await client.snapshot(max_age_s=1000)
        assert at.script.asked == 1
        at.clock.seconds -= 95
        await client.snapshot(max_age_s=4)
        assert at.script.asked == 2


async def test_without_aggregated_discovery_the_longer_age_counts(at: Scene) -> None:
    version = replace(WIDGETS.versions[0], stated_freshness="")
    at.script.serve(replace(WIDGETS, versions=(version,)))
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 599
        await client.snapshot()
        assert at.script.asked == 1
        at.clock.seconds += 1
        await client.snapshot()
        assert at.script.asked == 2


async def test_refresh_asks_always(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.script.serve(WIDGETS, GADGETS)
        assert (await client.refresh()).groups == (WIDGETS, GADGETS)


# --------------------------------------------------------------------------------------------------
# Names.


async def test_names_are_resolved_without_asking_again(at: Scene) -> None:
    async with at.client() as client:
        assert (await client.resolve("widgets")).resource.name == "widgets"
        assert (await client.resolve_kind("Widget")).resource.name == "widgets"
        explanation = await client.explain_resolution("widget")
        assert "widgets" in str(explanation)
        assert at.script.asked == 1


async def test_a_typo_costs_one_question_and_then_none_for_a_while(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 10
        for _ in range(3):
            with pytest.raises(NotServed, match="widgits") as caught:
                await client.resolve("widgits")
            assert caught.value.suggestions == ("widgets",)
            assert not caught.value.unsure
            at.clock.seconds += 1
        assert at.script.asked == 2
        assert client.traffic.not_modified == 1
        at.clock.seconds += 2
        with pytest.raises(NotServed):
            await client.resolve("widgits")
        assert at.script.asked == 3


async def test_a_typo_right_after_the_server_spoke_costs_nothing(at: Scene) -> None:
    async with at.client() as client:
        with pytest.raises(NotServed):
            await client.resolve("widgits")
        assert at.script.asked == 1
        # No request confirmed that it is missing, so it was not remembered.
        at.clock.seconds += 0.5
        with pytest.raises(NotServed):
            await client.resolve("widgits")
        assert at.script.asked == 2


async def test_what_was_created_a_second_ago_is_found(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 1
        at.script.serve(WIDGETS, GADGETS)
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"
        assert (await client.resolve_kind("Gadget")).resource.name == "gadgets"


async def test_missing_kinds_and_categories_are_remembered_as_names_are(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 1
        for _ in range(2):
            with pytest.raises(NotServed):
                await client.resolve_kind("Gadget", "example.com")
            with pytest.raises(NotServed):
                await client.category("all")
        assert at.script.asked == 2


async def test_a_change_clears_the_missing_names(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 1
        with pytest.raises(NotServed):
            await client.resolve("gadgets")
        at.script.serve(WIDGETS, GADGETS)
        with pytest.raises(NotServed):
            await client.resolve("gadgets")
        await client.refresh()
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"


async def test_only_the_latest_names_are_remembered_as_missed(at: Scene) -> None:
    options = ClientOptions(negative_names=2, miss_recheck_s=0, negative_ttl_s=100)
    async with at.client(options=options) as client:
        await client.snapshot()
        for name in ("first", "second", "third", "third", "second"):
            with pytest.raises(NotServed):
                await client.resolve(name)
        assert at.script.asked == 4
        with pytest.raises(NotServed):
            await client.resolve("first")
        assert at.script.asked == 5


async def test_an_ambiguous_name_is_not_asked_for_again(at: Scene) -> None:
    at.script.serve(WIDGETS, group("other.example.com", "v1"))
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 1
        with pytest.raises(AmbiguousResource):
            await client.resolve("widgets", strict=True)
        assert at.script.asked == 1


# --------------------------------------------------------------------------------------------------
# The cache.


async def test_a_cached_snapshot_is_used_like_a_fetched_one(at: Scene) -> None:
    cache = MemoryCache(fetched(at.clock, WIDGETS, age_s=50))
    async with at.client(cache=cache) as client:
        assert (await client.snapshot()).groups == (WIDGETS,)
        assert (at.script.asked, cache.reads) == (0, 1)
        at.clock.seconds += 10
        await client.snapshot()
        assert (at.script.asked, cache.reads) == (1, 1)
        assert client.traffic.not_modified == 1


@pytest.mark.parametrize("age_s", [61, -1])
async def test_a_cached_snapshot_that_is_too_old_or_from_the_future_is_not_used(
    at: Scene, age_s: float
) -> None:
    async with at.client(cache=MemoryCache(fetched(at.clock, WIDGETS, age_s=age_s))) as client:
        await client.snapshot()
        assert at.script.asked == 1


async def test_a_cached_snapshot_without_an_etag_is_not_used(at: Scene) -> None:
    async with at.client(cache=MemoryCache(fetched(at.clock, WIDGETS, age_s=1, etag=""))) as client:
        await client.snapshot()
        assert at.script.asked == 1


async def test_the_cache_is_written_after_changes_and_when_the_check_is_much_newer(
    at: Scene,
) -> None:
    cache = MemoryCache()
    async with at.client(cache=cache) as client:
        await client.snapshot()
        at.clock.seconds += 30
        await client.refresh()
        assert len(cache.puts) == 1
        at.clock.seconds += 31
        await client.refresh()
        assert len(cache.puts) == 2
        at.script.serve(GADGETS)
        await client.refresh()
        assert [one.snapshot.groups for one in cache.puts] == [(WIDGETS,)] * 2 + [(GADGETS,)]


async def test_an_incomplete_snapshot_is_not_cached(at: Scene) -> None:
    cache = MemoryCache()
    at.script.failures = {"/api": "500"}
    async with at.client(cache=cache) as client:
        await client.snapshot()
    assert not cache.puts


@pytest.mark.parametrize("problem", [OSError, LookupError, RuntimeError])
async def test_a_cache_that_breaks_does_no_harm(
    at: Scene, problem: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    class Broken:
        def get(self, key: str) -> FetchedSnapshot | None:
            raise problem(f"cannot read {key}")

        def put(self, key: str, fetched: FetchedSnapshot) -> None:
            raise problem(f"cannot write {key} {fetched.etags}")

    async with at.client(cache=Broken()) as client:
        assert (await client.snapshot()).groups == (WIDGETS,)
    assert "cannot read" in caplog.text
    assert "cannot write" in caplog.text
    assert "does not answer" not in caplog.text


async def test_an_old_cached_snapshot_is_used_when_the_server_is_unreachable(at: Scene) -> None:
    at.script.fail(ServerUnreachable("away", url=NAME))
    async with at.client(cache=MemoryCache(fetched(at.clock, WIDGETS, age_s=9999))) as client:
        snapshot = await client.snapshot()
        assert snapshot.groups == (WIDGETS,)
        assert snapshot.freshness == Stale(at.clock.now(), "away", retained=True)


# --------------------------------------------------------------------------------------------------
# Outages.


async def test_no_answer_is_an_error_without_a_snapshot(at: Scene) -> None:
    at.script.fail(ServerUnreachable("away", url=NAME))
    async with at.client() as client:
        for _ in range(2):
            with pytest.raises(ServerUnreachable, match="away"):
                await client.snapshot()
        with pytest.raises(ServerUnreachable, match="away"):
            await client.resolve("widgets")
        assert at.script.asked == 3


async def test_during_an_outage_the_snapshot_is_used_and_marked_stale(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 60
        began = at.clock.now()
        at.script.fail(ServerUnreachable("connection\nrefused", url=NAME))
        for _ in range(100):
            snapshot = await client.snapshot()
            assert snapshot.freshness == Stale(began, "connection refused", retained=True)
            at.clock.seconds += 0.5
        found = await client.resolve("widgets")
        assert isinstance(found.freshness, Stale)
        assert [r.levelname for r in caplog.records] == ["WARNING"]
        with pytest.raises(ServerUnreachable, match="refused"):
            await client.refresh()


async def test_during_an_outage_the_pauses_double_up_to_a_limit(at: Scene) -> None:
    options = ClientOptions(first_retry_s=1, longest_retry_s=8)
    async with at.client(options=options) as client:
        await client.snapshot()
        at.clock.seconds += 60
        at.script.fail(ServerUnreachable("away", url=NAME))
        asked_after: list[int] = []
        for second in range(40):
            before = at.script.asked
            await client.snapshot()
            if at.script.asked > before:
                asked_after.append(second)
            at.clock.seconds += 1
        assert asked_after == [0, 1, 3, 7, 15, 23, 31, 39]


async def test_the_end_of_an_outage_is_noticed_and_told(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "apidiscovery_client")
    async with at.client() as client:
        await client.snapshot()
        for _ in range(2):
            at.clock.seconds += 60
            at.script.fail(ServerUnreachable("away", url=NAME))
            await client.snapshot()
            at.clock.seconds += 1
            at.script.fail(None)
            assert not isinstance((await client.snapshot()).freshness, Stale)
    told = [(record.levelname, "again" in record.message) for record in caplog.records]
    assert told == [("WARNING", False), ("INFO", True)] * 2


async def test_an_old_answer_is_used_and_marked_from_the_first_on(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    """The server answers, so this is no outage: it is asked as often as usual."""
    caplog.set_level("INFO", "apidiscovery_client")
    cache = MemoryCache()
    at.script.freshness = old = Stale(at.clock.now(), "the cluster is away")
    async with at.client(cache=cache) as client:
        assert (await client.refresh()).freshness == old
        assert (await client.resolve("widgets")).freshness == old
        with pytest.raises(StaleGroup, match="the cluster is away"):
            await client.resolve("widgets", strict=True)
        assert at.script.asked == 1
        at.script.freshness = CURRENT
        assert (await client.refresh()).freshness == CURRENT
        assert (await client.resolve("widgets", strict=True)).freshness == CURRENT
    assert [one.snapshot.freshness for one in cache.puts] == [old, CURRENT]
    told = [(record.levelname, record.message.partition(" ")[2]) for record in caplog.records]
    assert told == [
        ("WARNING", "answers with an old state: the cluster is away"),
        ("INFO", "is current again"),
    ]


async def test_a_miss_during_an_outage_says_that_it_is_unsure(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 1
        at.script.fail(ServerUnreachable("away", url=NAME))
        for _ in range(2):
            with pytest.raises(NotServed) as caught:
                await client.resolve("gadgets")
            assert caught.value.unsure == {NAME: "away"}
        assert at.script.asked == 2
        at.clock.seconds += 1
        at.script.fail(None)
        at.script.serve(WIDGETS, GADGETS)
        assert (await client.resolve("gadgets")).resource.kind == "Gadget"


@pytest.mark.parametrize("status", [401, 403])
async def test_401_and_403_are_raised_though_there_is_a_snapshot(at: Scene, status: int) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 60
        at.script.fail(RequestRefused("go away", url=NAME, status=status))
        for _ in range(3):
            with pytest.raises(RequestRefused):
                await client.snapshot()
        assert at.script.asked == 2


@pytest.mark.parametrize("status", [404, 429, 500, 503])
async def test_a_server_in_trouble_is_an_outage(at: Scene, status: int) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.clock.seconds += 60
        at.script.fail(RequestRefused("not now", url=NAME, status=status))
        assert isinstance((await client.snapshot()).freshness, Stale)


async def test_a_programming_error_is_no_outage(at: Scene) -> None:
    async with at.client() as client:
        await client.snapshot()
        at.script.fail(ZeroDivisionError("a mistake"))
        with pytest.raises(ZeroDivisionError):
            await client.snapshot(max_age_s=0)
        at.script.fail(None)
        await client.snapshot(max_age_s=0)


# --------------------------------------------------------------------------------------------------
# Group-versions that are not current.


async def test_versions_that_are_not_current_are_logged_once(
    at: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "apidiscovery_client")
    [version] = WIDGETS.versions
    stale = replace(version, freshness=Stale(at.clock.now(), "503", retained=True))
    unknown = Version(GADGETS.versions[0].gv, freshness=Unknown(at.clock.now(), "timeout"))
    async with at.client() as client:
        await client.snapshot()
        at.script.serve(replace(WIDGETS, versions=(stale,)), replace(GADGETS, versions=(unknown,)))
        for _ in range(3):
            await client.refresh()
        assert len(caplog.records) == 2
        at.script.serve(WIDGETS, GADGETS)
        await client.refresh()
    assert [(r.levelname, r.getMessage().removeprefix(f"{NAME}: ")) for r in caplog.records] == [
        ("WARNING", "example.com/v1 is stale, what was known of it last is used: 503"),
        ("WARNING", "the resources of gadgets.example.com/v1 are unknown: timeout"),
        ("INFO", "example.com/v1 is current again"),
        ("INFO", "gadgets.example.com/v1 is current again"),
    ]


# --------------------------------------------------------------------------------------------------
# Closing.


async def test_a_closed_client_says_so(at: Scene) -> None:
    client = at.client()
    await client.snapshot()
    await client.close()
    await client.close()
    for call in (
        client.snapshot,
        client.refresh,
        lambda: client.resolve("widgets"),
        lambda: client.resolve_kind("Widget"),
        lambda: client.category("all"),
        lambda: client.explain_resolution("widgets"),
        lambda: client.wait_for("widgets"),
        lambda: anext(client.watch()),
    ):
        with pytest.raises(ClientClosed, match=f"the client of {NAME} is closed"):
            await call()
