"""OpenAPI documents of old servers, and documents in the store: restarts, replicas."""

import asyncio
import json
import os
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi import record, rounds
from apidiscovery_service.sources.upstreams.openapi.answers import split_document
from apidiscovery_service.sources.upstreams.poller import Poller
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits
from apidiscovery_service.store import Fenced, Guard, Store
from apidiscovery_service.store.sqlite import SqliteStore
from fake_api_server import (
    DOWN,
    NOT_FOUND,
    Answer,
    FakeApiServer,
    Request,
    aggregated,
    document,
    sha512,
)
from upstream_setup import (
    QUICK,
    Publisher,
    api_service,
    fetched,
    item,
    openapi_document,
    polled,
    published,
    publishing,
    running,
    service_settings,
)
from waiting import until

A, B = "apis/a.test/v1", "apis/b.test/v1"
V3, V2 = "/openapi/v3", "/openapi/v2"


def _v2(*paths: str) -> dict[str, object]:
    schema = {"$ref": "#/definitions/Widget"}
    responses = {"200": {"description": "OK", "schema": schema}}
    get = {"produces": ["application/json"], "responses": responses}
    return {
        "swagger": "2.0",
        "info": {"title": "Old", "version": "v1"},
        "paths": {path: {"get": get} for path in paths},
        "definitions": {"Widget": {"type": "object"}},
    }


async def test_the_v2_document_of_an_old_server_is_split(store: Store) -> None:
    publisher = Publisher(A, B)
    publisher.replies[V3] = NOT_FOUND
    publisher.replies[V2] = document(_v2("/apis/a.test/v1/widgets", "/apis/x.test/v1/"), etag='"1"')
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        found = await run.document("a.test")
        assert sha512(found) == run.hash("a.test")
        content = json.loads(found)
        assert content["openapi"].startswith("3.")
        assert list(content["paths"]) == ["/apis/a.test/v1/widgets"]
        assert list(content["components"]["schemas"]) == ["Widget"]
        assert (run.hash("b.test"), run.hash("x.test")) == ("", "")
        await polled(server, V2)
        # The new form is asked for again only when discovery has changed.
        assert server.paths.count(V3) == 1
        last = next(seen for seen in reversed(server.requests) if seen.path == V2)
        assert last.headers["if-none-match"] == '"1"'
        publisher.replies[V2] = document(_v2("/apis/a.test/v1/gadgets"), etag='"2"')
        await until(lambda: run.hash("a.test") != sha512(found), "it changes")
        del publisher.replies[V3]
        publisher.discovery = aggregated(item("a.test"), item("b.test"), item("c.test"))
        await until(lambda: run.hash("b.test"), "it has been upgraded")
        assert await run.document("a.test") == publisher.documents[A]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"swagger": "3.0"}, "swagger: want '2.0'"),
        ({**_v2("/apis/a.test/v1/"), "definitions": {"A": {"$ref": 1}}}, "must be a string"),
        ({**_v2(), "info": json.loads("[" * 250 + "]" * 250)}, "nest more than 200"),
    ],
)
def test_a_malformed_v2_document_is_refused(content: dict[str, object], reason: str) -> None:
    with pytest.raises(UpstreamFailed, match=reason):
        split_document(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Answer(b"garbage"), "GET /openapi/v2: want JSON: character 0"),
        (Answer(b"{}", "text/html"), "got Content-Type 'text/html'"),
        (DOWN, "GET /openapi/v2: got status 503"),
        (Answer(b'{"swagger":"2.0"' + b" " * 40_000), "more than 32000 bytes"),
    ],
)
async def test_a_refused_v2_document_leaves_the_last_one(
    store: Store, reply: Answer, reason: str
) -> None:
    publisher = Publisher(A)
    publisher.replies |= {
        V3: NOT_FOUND,
        V2: replace(document(_v2("/apis/a.test/v1/")), content_type="text/plain"),
    }
    limits = UpstreamLimits(openapi_v2_bytes=32_000)
    async with published(store, publisher, limits=limits) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        before = run.hash("a.test")
        publisher.replies[V2] = reply
        await until(run.upstreams.warnings, "it is told of")
        assert reason in run.upstreams.warnings()[0]
        assert run.hash("a.test") == before
        assert run.state() == "Current"


async def test_a_server_without_documents_is_tried_again_when_discovery_changes(
    store: Store,
) -> None:
    publisher = Publisher(A)
    publisher.replies |= {V3: NOT_FOUND, V2: NOT_FOUND}
    async with published(store, publisher) as (server, run):
        await until(lambda: V2 in server.paths, "it is asked")
        await polled(server, "/apis")
        assert (server.paths.count(V3), server.paths.count(V2)) == (1, 1)
        assert run.upstreams.warnings() == []
        publisher.replies.clear()
        publisher.discovery = aggregated(item("a.test"), item("c.test"))
        await until(lambda: run.hash("a.test"), "it is there")


async def test_the_second_answer_removes_all_documents(store: Store) -> None:
    publisher = Publisher(A)
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        publisher.replies |= {V3: NOT_FOUND, V2: NOT_FOUND}
        await until(lambda: not run.hash("a.test"), "it is gone")
        assert server.paths.count(V2) >= 2


@pytest.mark.parametrize("etag", ["", '"1"'])
@pytest.mark.parametrize("reply", [NOT_FOUND, document({"paths": {}})])
async def test_a_doubt_ends_when_the_documents_are_back(
    store: Store, reply: Answer, etag: str
) -> None:
    publisher = Publisher(A)
    publisher.etag = etag
    slow = replace(QUICK, poll_s=0.01, openapi_s=0.1)
    async with published(store, publisher, timing=slow) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        for _ in range(3):
            publisher.replies[V3] = reply
            await until(run.upstreams.warnings, "it is doubted")
            del publisher.replies[V3]
            await until(lambda: not run.upstreams.warnings(), "it is back")
            assert run.hash("a.test") == sha512(publisher.documents[A])


async def test_404_of_a_proxy_removes_no_document(store: Store) -> None:
    publisher = Publisher(A)
    seldom = replace(QUICK, poll_s=60.0, empty_answers=1)
    async with published(store, publisher, timing=seldom) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        server.answers = NOT_FOUND
        await until(run.upstreams.warnings, "it is told of")
        assert "GET /apis: got status 404, want 200" in run.upstreams.warnings()[0]
        await polled(server, V3, 3)
        assert run.hash("a.test") == sha512(publisher.documents[A])


async def test_a_doubt_ends_when_the_server_fails(store: Store) -> None:
    publisher = Publisher(A)
    slow = replace(QUICK, poll_s=0.01, openapi_s=0.1)
    async with published(store, publisher, timing=slow) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        publisher.replies |= {V3: document({"paths": {}})}
        for _ in range(3):
            await until(run.upstreams.warnings, "it is doubted")
            publisher.replies["/apis"] = DOWN
            await until(lambda: run.state() == "Stale", "it fails")
            del publisher.replies["/apis"]
            await until(lambda: run.state() == "Current", "it is back")
        assert run.hash("a.test") == sha512(publisher.documents[A])


async def test_a_server_without_documents_is_tried_again_after_a_while(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds, "_NEWER_FORM_AFTER_S", 0.2)
    publisher = Publisher(A)
    publisher.replies |= {V3: NOT_FOUND, V2: NOT_FOUND}
    async with published(store, publisher) as (server, run):
        await polled(server, V2, 1)
        publisher.replies[V2] = document(_v2("/apis/a.test/v1/widgets"), etag='"1"')
        await until(lambda: run.hash("a.test"), "the old form is there")
        await polled(server, V3, 2)
        last = next(seen for seen in reversed(server.requests) if seen.path == V2)
        assert last.headers["if-none-match"] == '"1"'
        publisher.replies.clear()
        wanted = sha512(publisher.documents[A])
        await until(lambda: run.hash("a.test") == wanted, "the new form is there")


async def test_one_missing_index_does_not_make_an_old_server(store: Store) -> None:
    publisher = Publisher(A)
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        await until(lambda: server.paths.count(V2) == 2, "it is known that it has no v2 document")
        wanted, asked = run.hash("a.test"), server.paths.count(V3)
        publisher.replies[V2] = document(_v2("/apis/a.test/v1/widgets"))

        def once(seen: Request) -> Answer:
            is_first = server.paths.count(V3) == asked + 1
            return NOT_FOUND if seen.path == V3 and is_first else publisher(seen)

        asked, server.answers = server.paths.count(V3), once
        await polled(server, V2, 1)
        await polled(server, V3, 2)
        assert run.hash("a.test") == wanted
        assert server.paths.count(V2) == 3
        publisher.replies[V3] = NOT_FOUND
        await until(lambda: run.hash("a.test") not in ("", wanted), "it is one now")


async def test_a_server_that_is_back_gets_requests_for_documents_at_once(store: Store) -> None:
    publisher = Publisher(A)
    timing = replace(QUICK, openapi_s=60.0)
    async with published(store, publisher, timing=timing) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        server.answers = DOWN
        await until(lambda: run.state() == "Stale", "it is away")
        publisher.documents[A] = openapi_document("newer")
        server.answers = publisher
        await until(lambda: run.hash("a.test") == sha512(publisher.documents[A]), "it is back")


async def test_documents_are_not_requested_where_switched_off(store: Store) -> None:
    publisher = Publisher(A)
    async with published(store, publisher, openapi=False) as (server, _):
        await polled(server, "/apis", 5)
    assert not [path for path in server.paths if path.startswith("/openapi")]


# --------------------------------------------------------------------------------------------------
# Restarts, replicas, removal.


async def test_after_a_restart_the_last_known_are_served_while_the_server_is_down(
    tmp_path: Path,
) -> None:
    publisher, path = Publisher(A), tmp_path / "store.sqlite"
    async with FakeApiServer(publisher) as server:
        url, first = server.url, await SqliteStore.open(path)
        async with running(first, publishing(url)) as run:
            await until(lambda: run.hash("a.test"), "it is there")
        await first.close()
    again = await SqliteStore.open(path)
    async with running(again, publishing(url)) as run:
        assert await run.document("a.test") == publisher.documents[A]
        await until(lambda: run.state() == "Stale" and "GET /apis" in run.error(), "it is down")
        assert run.hash("a.test") == sha512(publisher.documents[A])
    await again.close()


async def test_after_a_restart_known_documents_are_not_requested(store: Store) -> None:
    publisher = Publisher(A)
    publisher.etag = '"1"'
    async with FakeApiServer(publisher) as server:
        async with running(store, publishing(server.url)) as run:
            await until(lambda: run.hash("a.test"), "it is there")
            await polled(server, times=1)
        server.requests.clear()
        async with running(store, publishing(server.url)):
            await polled(server)
        assert fetched(server) == []
        asked = next(seen for seen in server.requests if seen.path == V3)
        assert asked.headers["if-none-match"] == '"1"'


async def test_replicas_serve_the_same_documents_and_another_takes_over(store: Store) -> None:
    publisher = Publisher(A)
    async with (
        FakeApiServer(publisher) as server,
        AsyncExitStack() as leader_life,
        AsyncExitStack() as stack,
    ):
        leader = await leader_life.enter_async_context(running(store, publishing(server.url)))
        other = await stack.enter_async_context(running(store, publishing(server.url)))
        await until(lambda: leader.hash("a.test") and other.hash("a.test"), "both know")
        assert leader.hash("a.test") == other.hash("a.test")
        assert await other.document("a.test") == publisher.documents[A]
        assert fetched(server) == [A]
        await leader_life.aclose()
        publisher.documents[A] = openapi_document("new")
        await until(lambda: other.hash("a.test") == sha512(publisher.documents[A]), "it changes")
    assert fetched(server) == [A, A]


async def test_a_poller_without_its_claim_writes_no_document(store: Store) -> None:
    publisher = Publisher(A)
    async with (
        FakeApiServer(publisher) as server,
        running(store, publishing(server.url), polls=False) as run,
    ):
        spec = publishing(server.url)
        claim = await store.put("claims/upstreams/x", b"")
        poller = Poller(spec, store, run.metrics, documents=asyncio.Semaphore(1))
        work = asyncio.create_task(poller.work(Guard(claim.key, claim.created)))
        await until(lambda: run.hash("a.test"), "it is there")
        await polled(server, "/apis")  # the discovery record is written, so documents are fenced
        await store.delete(claim.key)
        before = (await store.list("upstream-openapi/")).entries
        publisher.documents[A] = openapi_document("new")
        with pytest.raises(Fenced):
            await work
        assert (await store.list("upstream-openapi/")).entries == before


async def test_a_large_document_is_cut_and_read_whole(store: Store) -> None:
    publisher, random = Publisher(A), os.urandom(1_500_000)  # it can hardly be compressed
    publisher.documents[A] = json.dumps({"openapi": "3.0.0", "x": random.hex()}).encode()
    async with published(store, publisher, limits=UpstreamLimits()) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        assert len((await store.list(record.DOCUMENTS)).entries) > 1
        assert await run.document("a.test") == publisher.documents[A]


async def test_a_document_that_is_missing_or_damaged_is_an_error(store: Store) -> None:
    publisher = Publisher(A)
    async with FakeApiServer(publisher) as server:
        async with running(store, publishing(server.url)) as run:
            await until(lambda: run.hash("a.test"), "it is there")
        async with running(store, publishing(server.url), polls=False) as run:
            (entry,) = (await store.list(record.DOCUMENTS)).entries
            await store.put(entry.key, entry.value[:-3] + b"xyz")
            with pytest.raises(DiscoveryError):
                await run.document("a.test")
            await store.put(entry.key, record.pack(b"{}").pieces[0])
            with pytest.raises(DiscoveryError, match="do not have the hash"):
                await run.document("a.test")
            await store.delete(entry.key)
            with pytest.raises(DiscoveryError, match="is not in the store"):
                await run.document("a.test")


async def test_documents_go_with_an_upstream_that_is_not_polled_for_them(store: Store) -> None:
    key, source = "apis/remote.example.com/v1", "apiservice:v1.remote.example.com"
    async with FakeApiServer(Publisher(key)) as server:
        asked = service_settings(server.url, openapi=True)
        async with running(store, services=[api_service()], settings=asked) as run:
            await until(lambda: run.hash("remote.example.com", source=source), "it is there")
        async with running(
            store, services=[api_service()], settings=service_settings(server.url)
        ) as run:
            await until(lambda: run.freshness("remote.example.com") == "Current", "it is polled")
            run.declarations.set()
            await until(lambda: _is_empty(store), "all is removed")


async def _is_empty(store: Store) -> bool:
    return not (await store.list("upstream-openapi/")).entries


async def test_the_successor_of_a_removed_document_is_read(store: Store) -> None:
    publisher = Publisher(A)
    async with FakeApiServer(publisher) as server:
        spec = publishing(server.url)
        async with running(store, spec) as run:
            await until(lambda: run.hash("a.test"), "it is there")
            recipe = run.upstreams.documents.recipe("upstream:east", A)
            old = (await store.list(record.DOCUMENTS)).entries
            publisher.documents[A] = openapi_document("new")
            await until(lambda: run.hash("a.test") == sha512(publisher.documents[A]), "the new")
            for entry in old:
                await store.delete(entry.key)
            assert recipe is not None
            assert await recipe.make() == publisher.documents[A]
            await store.delete(record.INDEX_RECORDS.key(spec.id))
            with pytest.raises(DiscoveryError, match="is not in the store"):
                await recipe.make()


async def test_a_damaged_index_in_the_store_is_replaced(store: Store) -> None:
    publisher = Publisher(A)
    async with FakeApiServer(publisher) as server:
        spec = publishing(server.url)
        await store.put(record.INDEX_RECORDS.key(spec.id), b'{"format":99}\n')
        async with running(store, spec) as run:
            await until(lambda: run.hash("a.test"), "it is replaced")
    assert fetched(server) == [A]
