"""Contributions of other API servers: merging, failures, restarts, replicas, removal."""

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from apidiscovery_service.core.model import Contribution, Freshness, Group, Precedence, Version
from apidiscovery_service.sources.upstreams.openapi.record import INDEX_RECORDS
from apidiscovery_service.sources.upstreams.record_store import RecordFormat
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS, Known, Root
from apidiscovery_service.store import Store
from apidiscovery_service.store.sqlite import SqliteStore
from fake_api_server import (
    DOWN,
    Answer,
    FakeApiServer,
    aggregated,
    conditional,
)
from groups import offer
from store_wrapper import RestorableStore
from upstream_setup import (
    Publisher,
    api_service,
    item,
    mirrored,
    published,
    running,
    service_settings,
    spec_of,
)
from waiting import until

REMOTE = "remote.example.com"
_A_TEST = Group("a.test", (Version("v1"),))
SOURCE = f"apiservice:v1.{REMOTE}"


async def test_a_service_that_was_never_reached_is_stale_without_resources(store: Store) -> None:
    settings = service_settings("http://127.0.0.1:1")
    async with running(store, services=[api_service()], settings=settings) as run:
        # At once, before the first request.
        group = run.group(REMOTE)
        assert group is not None
        published = run.registry.snapshot.named.by_name[REMOTE]
        assert b'"versions":[{"version":"v1","freshness":"Stale"}]' in published.json
        assert run.state(SOURCE) == "Stale"
        await until(lambda: "GET /apis" in run.error(SOURCE), "the failure shows")
        assert run.freshness(REMOTE) == "Stale"
        text = run.metrics.text().decode()
        assert f'aggregator_unavailable_apiservice{{name="v1.{REMOTE}"}} 1.0' in text
        assert f'name="v1.{REMOTE}",reason=' in text
        assert f'apidiscovery_upstream_state{{source="{SOURCE}",state="Stale"}} 1.0' in text
    assert published.key[0] == -2000


async def test_after_a_failure_the_last_known_resources_are_stale(store: Store) -> None:
    async with FakeApiServer(conditional(aggregated(item(REMOTE), etag='"A"'))) as server:
        settings = service_settings(server.url)
        async with running(store, services=[api_service()], settings=settings) as run:
            await until(lambda: run.freshness(REMOTE) == "Current", "it is current")
            assert run.error(SOURCE) == ""
            server.answers = {"/apis": DOWN}
            await until(lambda: run.freshness(REMOTE) == "Stale", "it is stale")
            version = run.version(REMOTE)
            assert version is not None
            assert [r.resource for r in version.resources] == ["widgets"]
            (warning,) = run.upstreams.warnings()
            assert warning.startswith(f"{SOURCE} is Stale since 20")
            assert warning.endswith("GET /apis: got status 503, want 200 or 304")
            server.answers = conditional(aggregated(item(REMOTE), etag='"A"'))
            await until(lambda: run.freshness(REMOTE) == "Current", "it is current again")
            assert run.upstreams.warnings() == []
            text = run.metrics.text().decode()
            assert f'aggregator_unavailable_apiservice{{name="v1.{REMOTE}"}} 0.0' in text


@pytest.mark.parametrize("kind", [KNOWN_RECORDS, INDEX_RECORDS], ids=["discovery", "openapi"])
async def test_a_record_that_a_restored_store_lacks_is_written_again(
    kind: RecordFormat[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("apidiscovery_service.store.following.PAUSE_S", 0.02)
    store = RestorableStore()
    async with published(store, Publisher("apis/a.test/v1")) as (_, run):
        await until(lambda: run.hash("a.test") and run.state() == "Current", "it is known")
        (entry,) = (await store.list(kind.prefix)).entries
        await store.lose(entry.key)

        async def is_back() -> bool:
            return await store.get(entry.key) is not None

        await until(is_back, "it is written again")
        assert run.freshness("a.test") == "Current"
        await until(lambda: run.hash("a.test"), "documents are served")


async def test_only_versions_with_an_apiservice_are_served_from_one_fetch(store: Store) -> None:
    other = item("other.example.com")
    stale = {**item(REMOTE, "v1", "v2")}
    for version in stale["versions"]:  # type: ignore[attr-defined] # it is a list
        version["freshness"] = "Stale"
    async with FakeApiServer({"/apis": aggregated(stale, other)}) as server:
        settings = service_settings(server.url)
        services = [api_service(), api_service(version="v3"), api_service("none.example.com")]
        async with running(store, services=services, settings=settings) as run:
            await until(lambda: run.freshness(REMOTE) == "Current", "it is current")
            # A version that the document lacks is current without resources.
            assert run.freshness(REMOTE, "v3") == "Current"
            assert run.freshness("none.example.com") == "Current"
            assert run.group("other.example.com") is None
            assert run.version(REMOTE, "v2") is None
            polls = server.paths.count("/apis")
            run.declarations.set(*services, api_service(version="v2"))
            await until(lambda: run.freshness(REMOTE, "v2") == "Current", "v2 is current")
    # Only lists with an APIService are requested.
    assert set(server.paths) <= {"/apis", f"/apis/{REMOTE}/v1", f"/apis/{REMOTE}/v2"}
    assert server.paths.count("/apis") <= polls + 3


async def test_removal_needs_no_answer_and_uncovers_other_sources(store: Store) -> None:
    async with FakeApiServer({"/apis": aggregated(item(REMOTE))}) as server:
        settings = service_settings(server.url)
        async with running(store, services=[api_service()], settings=settings) as run:
            crd = offer(f"{REMOTE}/v1", priority=1000)
            run.registry.publish(Contribution("crds:x", Precedence.CRD, (crd,)))
            await until(lambda: run.freshness(REMOTE) == "Current", "it is current")
            version = run.version(REMOTE)
            assert version is not None
            assert version.resources
            server.answers = {"/apis": Answer(stalls=True)}
            run.declarations.set()
            uncovered = run.version(REMOTE)
            assert uncovered == crd.version
            assert run.upstreams.states() == []
            assert REMOTE not in run.metrics.text().decode()
            await _until_no_keys(store)


async def _until_no_keys(store: Store) -> None:
    """Wait until the records of a removed upstream are gone."""

    async def is_empty() -> bool:
        return not (await store.list("upstreams/")).entries

    await until(is_empty, "the record is removed")


async def test_a_server_is_mirrored_in_its_own_order(store: Store) -> None:
    stale = item("c.test")
    stale["versions"] = [{"version": "v1", "freshness": "Stale"}]
    answers = {
        "/api": aggregated(item("")),
        "/apis": aggregated(item("z.test", "v1", "v2"), item("apps"), stale),
    }
    async with mirrored(store, answers, core_paths=("/api",)) as (_, run):
        assert run.state() == "Pending"
        await until(lambda: run.state() == "Current", "it is current")
        names = [g.group.name for g in run.registry.snapshot.named.groups]
        assert names == ["z.test", "apps", "c.test"]
        assert [v.version for v in run.group("z.test").versions] == ["v1", "v2"]  # type: ignore[union-attr] # it is there
        assert run.freshness("") == "Current"
        # The freshness of the server itself is served.
        assert run.freshness("c.test") == "Stale"


async def test_nothing_is_known_of_a_server_that_was_never_reached(store: Store) -> None:
    async with running(store, spec_of("http://127.0.0.1:1")) as run:
        assert (run.state(), run.upstreams.warnings()) == ("Pending", ["upstream:east is Pending"])
        await until(lambda: run.state() == "Stale", "the failure shows")
        assert run.registry.snapshot.named.size == 0
        assert "GET /apis" in run.error()


async def test_after_a_restart_the_last_known_is_served_at_once_as_stale(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    async with FakeApiServer(conditional(aggregated(item("a.test"), etag='"A"'))) as server:
        spec = spec_of(server.url)
        first = await SqliteStore.open(path)
        async with running(first, spec) as run:
            await until(lambda: run.state() == "Current", "it is current")
        await first.close()
        again = await SqliteStore.open(path)
        server.requests.clear()
        async with running(again, spec_of(server.url), polls=False) as run:
            version = run.version("a.test")
            assert version is not None
            assert (version.freshness, len(version.resources)) == (Freshness.STALE, 1)
            assert run.error() == "last known; no process has polled it since"
            assert run.state() == "Stale"
        assert server.requests == []
        async with running(again, spec_of(server.url)) as run:
            await until(lambda: run.state() == "Current", "a 304 is enough")
        assert server.requests[0].headers["if-none-match"] == '"A"'
        await again.close()


async def test_a_new_replica_trusts_the_poller_and_another_takes_over(store: Store) -> None:
    async with (
        FakeApiServer(conditional(aggregated(item("a.test"), etag='"A"'))) as server,
        AsyncExitStack() as leader_life,
        AsyncExitStack() as stack,
    ):
        leader = await leader_life.enter_async_context(running(store, spec_of(server.url)))
        await until(lambda: leader.state() == "Current", "the leader knows")
        watcher = await stack.enter_async_context(
            running(store, spec_of(server.url), polls=False, grace_s=30.0)
        )
        assert watcher.state() == "Current"
        other = await stack.enter_async_context(running(store, spec_of(server.url), grace_s=30.0))
        assert other.state() == "Current"
        assert other.registry.snapshot.named.etag == leader.registry.snapshot.named.etag
        states: set[str] = set()
        watcher.registry.subscribe(lambda _: states.add(watcher.freshness("a.test")))
        await leader_life.aclose()
        server.answers = {"/apis": aggregated(item("b.test"))}
        await until(lambda: watcher.group("b.test") is not None, "another polls")
        assert other.group("b.test") is not None
        # In between nothing was stale, empty or gone.
        assert states <= {"Current", ""}


async def record(store: Store, spec: UpstreamSpec, claim: int) -> str:
    """Write a record as the holder of a claim of this revision; return its key."""
    root = Root("/apis", core=False, state=Freshness.CURRENT, groups=(_A_TEST,))
    key = KNOWN_RECORDS.key(spec.id)
    await store.put(key, KNOWN_RECORDS.seal(Known(claim, (root,)))[0])
    return key


async def test_a_record_is_trusted_once_its_writer_is_known_to_be_alive(store: Store) -> None:
    """News of a record may come before news of the claim under which it was written."""
    spec = spec_of("http://127.0.0.1:1")
    claimed = (await store.put("elsewhere", b"")).revision + 2
    key = await record(store, spec, claimed)
    async with running(store, spec, polls=False, grace_s=0.05) as run:
        assert run.freshness("a.test") == "Stale"
        claim = await store.put(f"claims/{key}", b"")
        assert claim.created == claimed
        await until(lambda: run.freshness("a.test") == "Current", "it is believed")
        await store.delete(claim.key)
        await until(lambda: run.freshness("a.test") == "Stale", "it is not believed any more")


async def test_the_claim_of_another_process_makes_no_record_trusted(store: Store) -> None:
    spec = spec_of("http://127.0.0.1:1")
    key = await record(store, spec, 1_000)
    await store.put(f"claims/{key}", b"")
    async with running(store, spec, polls=False) as run:
        assert run.freshness("a.test") == "Stale"
        await asyncio.sleep(0.05)
        assert run.freshness("a.test") == "Stale"


async def test_trust_ends_when_no_process_polls(store: Store) -> None:
    async with (
        FakeApiServer(conditional(aggregated(item("a.test"), etag='"A"'))) as server,
        AsyncExitStack() as leader_life,
    ):
        leader = await leader_life.enter_async_context(running(store, spec_of(server.url)))
        await until(lambda: leader.state() == "Current", "the leader knows")
        async with running(store, spec_of(server.url), polls=False, grace_s=0.2) as watcher:
            assert watcher.state() == "Current"
            begun = time.monotonic()
            await leader_life.aclose()
            await until(lambda: watcher.freshness("a.test") == "Stale", "trust ends")
            assert time.monotonic() - begun >= 0.2
            version = watcher.version("a.test")
            assert version is not None
            assert version.resources


async def test_a_new_apiservice_is_served_from_the_record_of_another_process(store: Store) -> None:
    async with FakeApiServer({"/apis": aggregated(item(REMOTE))}) as server:
        settings = service_settings(server.url)
        async with running(store, services=[api_service()], settings=settings) as leader:
            await until(lambda: leader.freshness(REMOTE) == "Current", "the leader knows")
            async with running(store, settings=settings, polls=False) as late:
                late.declarations.set(api_service())
                assert late.freshness(REMOTE) == "Current"


async def test_a_damaged_or_newer_record_is_ignored(store: Store) -> None:
    spec = spec_of("http://127.0.0.1:1")
    await store.put(KNOWN_RECORDS.key(spec.id), b'{"format":99,"sha256":""}\nwhatever')
    await store.put("upstreams/somebody-elses", b"whatever")
    async with running(store, spec, polls=False) as run:
        assert run.state() == "Pending"
        await store.put(KNOWN_RECORDS.key(spec.id), b"\x00")
        await asyncio.sleep(0.05)
        assert run.state() == "Pending"


async def test_warnings_are_bounded_and_of_plain_characters(store: Store) -> None:
    specs = [spec_of("http://127.0.0.1:1", f"s{i}\n\x1b") for i in range(60)]
    async with running(store, *specs, polls=False) as run:
        warnings = run.upstreams.warnings()
    assert len(warnings) == 51
    assert warnings[-1] == "upstreams: 10 more such lines"
    assert all(line.isprintable() and line.isascii() for line in warnings)
