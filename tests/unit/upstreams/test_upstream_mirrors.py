"""Mirrored servers that are replaced at run time: what stays, and what goes."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from apidiscovery_kubeconfig.credentials import StaticToken
from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from apidiscovery_service.sources.upstreams.spec import UpstreamSpec
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS
from apidiscovery_service.store import Store
from apidiscovery_service.store.claims import PREFIX as CLAIMS
from fake_api_server import Answer, FakeApiServer, Request, Respond, aggregated
from metrics_text import sample_sum
from upstream_setup import Running, item, running, spec_of
from waiting import until

_MANY = 12
DENIED = Answer(b"", "", 401)


class Seen:
    """The clusters as listeners get them."""

    def __init__(self, run: Running) -> None:
        self.clusters: dict[str, Cluster] = {}
        self.history: list[tuple[str, str]] = []
        run.upstreams.on_clusters(self._take)

    def _take(self, changed: Sequence[Cluster], gone: Sequence[str]) -> None:
        for name in gone:
            del self.clusters[name]
            self.history.append((name, "gone"))
        for cluster in changed:
            self.clusters[cluster.name] = cluster
            self.history.append((cluster.name, str(cluster.status.state)))

    def groups(self, name: str) -> list[str] | None:
        named = self.clusters[name].named
        return None if named is None else [group.name for group in named]


def with_token(url: str, token: str) -> UpstreamSpec:
    """Return the specification of a server with a token."""
    return replace(spec_of(url), endpoint=Endpoint(url, credentials=StaticToken(token, "token")))


async def settled(server: FakeApiServer) -> None:
    """Wait until no new connection is made: asyncio leaks connections that are cancelled."""
    before = len(server.paths)
    await until(lambda: server.paths[before:].count("/apis") > _MANY, "it is polled")


def allowing(tokens: set[str]) -> Respond:
    """Return what answers only requests with one of these tokens."""
    answer = aggregated(item("a.test"), etag='"A"')

    def respond(request: Request) -> Answer:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        return answer if token in tokens else DENIED

    return respond


async def test_new_credentials_are_used_at_once_and_nothing_is_lost(store: Store) -> None:
    tokens = {"old"}
    async with (
        FakeApiServer(allowing(tokens)) as server,
        running(store, with_token(server.url, "old")) as run,
    ):
        seen = Seen(run)
        await until(lambda: run.state() == "Current", "it is known")
        (claim,) = (await store.list(CLAIMS)).entries
        tokens.clear()
        await until(lambda: run.state() == "Stale", "it is denied")
        tokens.add("new")
        run.upstreams.update_mirrors([with_token(server.url, "new")])
        await until(lambda: run.state() == "Current", "it is known again")
        assert run.freshness("a.test") == "Current"
        # The record and the claim are the same, and nothing was ever empty.
        assert len((await store.list(KNOWN_RECORDS.prefix)).entries) == 1
        assert (await store.list(CLAIMS)).entries == (claim,)
        assert {state for _, state in seen.history} == {"Current", "Stale"}
        assert server.requests[-1].headers["authorization"] == "Bearer new"


async def test_a_process_that_polls_later_uses_the_new_credentials(store: Store) -> None:
    tokens = {"old"}
    async with (
        FakeApiServer(allowing(tokens)) as server,
        running(store, with_token(server.url, "old")) as leader,
    ):
        await until(lambda: leader.state() == "Current", "it is known")
        async with running(store, with_token(server.url, "old")) as other:
            other.upstreams.update_mirrors([with_token(server.url, "new")])
            tokens.clear()
            tokens.add("new")
            await until(lambda: leader.state() == "Stale", "the leader is denied")
            await until(lambda: other.state() == "Stale", "the other hears of it")
            leader.upstreams.update_mirrors([], ["east"])
            await until(lambda: other.state() == "Current", "the other polls")


async def test_labels_change_without_a_poll(store: Store) -> None:
    async with (
        FakeApiServer(aggregated(item("a.test"), etag='"A"')) as server,
        running(store, spec := spec_of(server.url)) as run,
    ):
        seen = Seen(run)
        await until(lambda: run.state() == "Current", "it is known")
        changed = spec_of(server.url, labels={"region": "eu"})
        run.upstreams.update_mirrors([changed])
        assert seen.clusters["east"].labels == {"region": "eu"}
        assert seen.groups("east") == ["a.test"]
        assert changed.id == spec.id


async def test_a_cluster_leaves_and_enters_the_merged_surface(store: Store) -> None:
    async with (
        FakeApiServer(aggregated(item("a.test"), etag='"A"')) as server,
        running(store, spec_of(server.url)) as run,
    ):
        seen = Seen(run)
        await until(lambda: run.group("a.test") is not None, "it is merged")
        run.upstreams.update_mirrors([spec_of(server.url, merge=False)])
        assert run.group("a.test") is None
        assert seen.groups("east") == ["a.test"]
        assert run.state() == "Current"
        assert run.upstreams.awaited() == ""
        metrics = run.metrics.text().decode()
        assert sample_sum(metrics, "apidiscovery_upstream_state", source="upstream:east") == 1
        run.upstreams.update_mirrors([spec_of(server.url)])
        assert run.group("a.test") is not None


async def test_a_server_that_was_never_merged_is_not_waited_for(store: Store) -> None:
    async with running(store, spec_of("http://127.0.0.1:1", merge=False)) as run:
        assert run.upstreams.awaited() == ""
        run.upstreams.update_mirrors([spec_of("http://127.0.0.1:1", "west")])
        assert "upstream:west" in run.upstreams.awaited()


async def test_a_removed_server_leaves_nothing_behind(store: Store) -> None:
    async with (
        FakeApiServer(aggregated(item("a.test"), etag='"A"')) as server,
        running(store) as run,
    ):
        seen = Seen(run)
        run.upstreams.update_mirrors([spec_of(server.url), spec_of(server.url, "west")])
        await until(lambda: run.state("upstream:west") == "Current", "it is known")
        await settled(server)
        run.upstreams.update_mirrors([], ["west"])
        assert ("west", "gone") in seen.history
        assert set(seen.clusters) == {"east"}
        assert run.state("upstream:west") == ""
        metrics = run.metrics.text().decode()
        assert "west" not in metrics
        assert "east" in metrics

        async def is_clean() -> bool:
            records = (await store.list(KNOWN_RECORDS.prefix)).entries
            claims = (await store.list(CLAIMS)).entries
            return not [e for e in (*records, *claims) if "west" in e.key]

        await until(is_clean, "its record and its claim go")
        await until(lambda: run.state() == "Current", "the other stays")
        assert "west" not in run.metrics.text().decode()


async def test_another_address_is_another_server(store: Store) -> None:
    async with (
        FakeApiServer(aggregated(item("a.test"), etag='"A"')) as one,
        FakeApiServer(aggregated(item("b.test"), etag='"B"')) as two,
        running(store, spec_of(one.url)) as run,
    ):
        seen = Seen(run)
        await until(lambda: run.state() == "Current", "it is known")
        await settled(one)
        run.upstreams.update_mirrors([spec_of(two.url)])
        assert seen.groups("east") is None  # nothing is known of that server
        await until(lambda: run.group("b.test") is not None, "the other is known")
        assert run.group("a.test") is None
        assert seen.groups("east") == ["b.test"]
        assert ("east", "gone") not in seen.history

        async def has_one_record() -> bool:
            return len((await store.list(KNOWN_RECORDS.prefix)).entries) == 1

        await until(has_one_record, "the record of the former goes")


@pytest.mark.parametrize("merge", [True, False])
async def test_replicas_with_other_clusters_share_a_store(store: Store, merge: bool) -> None:  # noqa: FBT001
    async with (
        FakeApiServer(aggregated(item("a.test"), etag='"A"')) as server,
        running(store, spec_of(server.url, merge=merge)) as run,
        running(store, spec_of(server.url, "west")) as other,
    ):
        await until(lambda: run.state() == "Current", "it is known here")
        await until(lambda: other.state("upstream:west") == "Current", "and there")
        other.upstreams.update_mirrors([spec_of(server.url)])
        await until(lambda: other.state() == "Current", "both have it")
        await settled(server)
        other.upstreams.update_mirrors([], ["east", "west"])
        await until(lambda: other.upstreams.states() == [], "it has none")
        assert run.state() in ("Current", "Stale")
        await until(lambda: run.state() == "Current", "the first still has it")
