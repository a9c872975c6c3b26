"""The v2 document of a cluster: fetched when v3 documents change, as it is, and never lost."""

import json
import time
from dataclasses import replace

import pytest
from apidiscovery_service.openapi import body
from apidiscovery_service.openapi.making import DocumentUnavailable
from apidiscovery_service.sources.upstreams.openapi import record, v2
from apidiscovery_service.sources.upstreams.openapi.cluster_documents import (
    ClusterDocuments,
    OfCluster,
)
from apidiscovery_service.sources.upstreams.openapi.record import OwnV2, UpstreamForm
from apidiscovery_service.sources.upstreams.record_store import BadRecord
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits, VersionFilter
from apidiscovery_service.store import Store
from fake_api_server import DOWN, NOT_FOUND, Answer, Request, aggregated, document, sha512
from upstream_setup import (
    QUICK,
    Publisher,
    Running,
    item,
    openapi_document,
    polled,
    published,
    publishing,
    running,
)
from waiting import until

A = "apis/a.test/v1"
V3, V2 = "/openapi/v3", "/openapi/v2"


def v2_document(title: str) -> bytes:
    """Return a v2 document with an unusual layout."""
    info = {"title": title, "version": "v1"}
    return json.dumps({"swagger": "2.0", "info": info, "paths": {}}, indent=3).encode()


def documents(run: Running) -> OfCluster:
    found = ClusterDocuments(run.upstreams.documents, lambda _what, _seconds: None).of("east")
    assert found is not None
    return found


def state(run: Running) -> OwnV2:
    known = run.upstreams.documents.published("upstream:east")
    return known.v2_state if known else OwnV2.UNKNOWN


async def whole(run: Running) -> bytes:
    """Return the v2 document of the cluster; empty for none."""
    found = await documents(run).merged_v2(body.DocumentForm.JSON, "identity")
    if found is None:
        return b""
    assert isinstance(found.data, bytes)
    return found.data


async def has(run: Running, wanted: bytes) -> bool:
    known = run.upstreams.documents.published("upstream:east")
    return known is not None and known.v2 is not None and await whole(run) == wanted


class Conditional:
    """A server whose v2 document has an ETag.

    Attributes:
        text: The document.
        sent: How often it was sent, and how often it was not modified.
    """

    def __init__(self, publisher: Publisher, text: bytes) -> None:
        self._publisher = publisher
        self.text = text
        self.sent = [0, 0]

    def __call__(self, seen: Request) -> Answer:
        if seen.path != V2:
            return self._publisher(seen)
        etag = f'"{len(self.text)}"'
        is_known = seen.headers.get("if-none-match") == etag
        self.sent[is_known] += 1
        if is_known:
            return Answer(b"", "", 304, {"ETag": etag})
        return Answer(self.text, headers={"ETag": etag})


async def test_the_v2_document_is_served_as_it_is_and_follows_v3_documents(store: Store) -> None:
    publisher = Publisher(A)
    server_of = Conditional(publisher, v2_document("one"))
    async with published(store, server_of) as (server, run):
        await until(lambda: has(run, server_of.text), "it is there")
        await until(lambda: server_of.sent[1], "it is asked for once more")
        await polled(server)
        assert server_of.sent == [1, 1]
        server_of.text = v2_document("other and longer")
        publisher.documents[A] = openapi_document("changed")
        await until(lambda: has(run, server_of.text), "it has followed")
        await until(lambda: server_of.sent[1] == 2, "it is asked for once more")
        await polled(server)
        assert server_of.sent == [2, 2]


async def test_a_v2_document_that_follows_late_is_read(store: Store) -> None:
    """kube-apiserver makes it some seconds later."""
    publisher = Publisher(A)
    server_of = Conditional(publisher, v2_document("before"))
    later = v2_document("a moment later")

    def answer(seen: Request) -> Answer:
        told = server_of(seen)
        server_of.text = later if server_of.sent[0] else server_of.text
        return told

    async with published(store, answer) as (_, run):
        await until(lambda: has(run, later), "the second request has it")


async def test_the_v2_document_is_requested_from_time_to_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(v2, "_EVERY_S", 0.01)
    server_of = Conditional(Publisher(A), v2_document("one"))
    async with published(store, server_of) as (_, run):
        await until(lambda: server_of.sent[1] > 2, "it is asked for again")
        server_of.text = v2_document("one that no v3 document tells of")
        await until(lambda: has(run, server_of.text), "it is seen")


@pytest.mark.parametrize(
    "failed",
    [
        DOWN,
        NOT_FOUND,
        Answer(b"{}"),
        Answer(b'{"swagger": "2.0"'),
        Answer(b"<html>", "text/html"),
    ],
    ids=["down", "404-once", "other", "half", "html"],
)
async def test_a_failure_keeps_the_v2_document(store: Store, failed: Answer) -> None:
    publisher = Publisher(A)
    wanted = v2_document("one")
    publisher.replies[V2] = Answer(wanted)
    async with published(store, publisher) as (server, run):
        await until(lambda: has(run, wanted), "it is there")
        await until(lambda: server.paths.count(V2) >= 2, "it has settled")
        asked, is_seen = server.paths.count(V2), list[bool]()

        def once(seen: Request) -> Answer:
            is_failing = seen.path == V2 and not is_seen
            is_seen.extend([True] if is_failing else [])
            return failed if is_failing else publisher(seen)

        server.answers = once
        publisher.documents[A] = openapi_document("changed")
        await until(lambda: server.paths.count(V2) > asked, "it is asked for, in vain")
        await until(lambda: run.hash("a.test"), "documents are concerned in no way")
        assert await whole(run) == wanted
        assert run.state() == "Current"
        await until(lambda: server.paths.count(V2) > asked + 1, "it is asked for again")
        assert await whole(run) == wanted
        await until(lambda: not run.upstreams.warnings(), "all is well")


async def test_the_reason_is_shown_while_the_v2_document_fails(store: Store) -> None:
    publisher = Publisher(A)
    publisher.replies[V2] = Answer(b'{"swagger": "3.0"}')
    async with published(store, publisher) as (_, run):
        wanted = "GET /openapi/v2: swagger: want '2.0', got another or nothing"
        told = [f"upstream east: OpenAPI: {wanted}"]
        await until(lambda: list(run.upstreams.warnings()) == told, "it is told of")
        assert run.hash("a.test")
        with pytest.raises(DocumentUnavailable, match=r"/openapi/v2 is not available: .* '2\.0'"):
            await whole(run)


async def test_a_cluster_may_lack_a_v2_document(store: Store) -> None:
    async with published(store, Publisher(A)) as (_, run):
        await until(lambda: state(run) is OwnV2.NONE, "it is known")
        assert await whole(run) == b""


async def test_two_answers_remove_the_v2_document(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "_SWEPT_AFTER_S", 0.0)
    publisher = Publisher(A)
    publisher.replies[V2] = Answer(v2_document("one"))
    async with published(store, publisher) as (server, run):
        await until(lambda: server.paths.count(V2) >= 2, "it has settled")
        publisher.replies[V2] = NOT_FOUND
        publisher.documents[A] = openapi_document("changed")
        await until(lambda: state(run) is OwnV2.NONE, "it is believed")
        await until(lambda: _documents_in(store, 1), "it is removed from the store")


async def _documents_in(store: Store, number: int) -> bool:
    return len((await store.list("upstream-openapi/documents/")).entries) == number


async def test_one_empty_index_removes_nothing(store: Store) -> None:
    """A server that has just started, or a proxy, may answer so."""
    publisher = Publisher(A)
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        publisher.replies[V3] = document({"paths": {}})
        await until(run.upstreams.warnings, "it is told of")
        words = "without documents of the served group-versions; accepted after 2 such answers"
        assert words in next(iter(run.upstreams.warnings()))
        assert run.hash("a.test")
        await until(lambda: not run.hash("a.test"), "it is believed the second time")
        await polled(server)


@pytest.mark.parametrize(
    ("path", "failed", "told"),
    [
        (V3, Answer(b"", status=500), "got status 500"),
        (V3, document({"paths": {}}), "an index without documents"),
        (f"{V3}/{A}", Answer(b"", status=500), "got status 500"),
    ],
    ids=["index", "empty", "document"],
)
async def test_no_documents_are_listed_after_failures_alone(
    store: Store, path: str, failed: Answer, told: str
) -> None:
    """Clients would trust an empty index."""
    publisher = Publisher(A)
    publisher.replies[path] = failed
    # The second time, that there is nothing would be believed.
    timing = replace(QUICK, openapi_s=60.0)
    async with published(store, publisher, timing=timing) as (_, run):
        await until(lambda: told in str(list(run.upstreams.warnings())), "it has failed")
        clusters = ClusterDocuments(run.upstreams.documents, lambda _what, _seconds: None)
        assert clusters.of("east") is None


async def test_the_v2_document_of_an_old_server_is_served(store: Store) -> None:
    publisher = Publisher()
    publisher.discovery = aggregated(item("a.test"))
    wanted = v2_document("old")
    publisher.replies |= {V3: NOT_FOUND, V2: Answer(wanted, "text/plain; charset=utf-8")}
    async with published(store, publisher) as (_, run):
        await until(lambda: has(run, wanted), "it is there")
        known = run.upstreams.documents.published("upstream:east")
        assert known is not None
        assert (known.form, documents(run).is_untyped) == (UpstreamForm.V2, True)


async def test_the_v2_document_survives_a_restart(store: Store) -> None:
    publisher = Publisher(A)
    wanted = v2_document("x" * 3_000_000)
    publisher.replies[V2] = Answer(wanted)
    async with published(store, publisher) as (server, run):
        await until(lambda: state(run) is OwnV2.KEPT, "it is there")
        url = server.url
    async with running(store, publishing(url)) as run:
        found = await documents(run).merged_v2(body.DocumentForm.JSON, "identity")
        assert isinstance(found, body.PackedBody)
        assert found.data.unpacked().text == wanted
        assert found.hash == documents(run).published.v2.hash  # type: ignore[union-attr] # it is kept


async def test_no_document_has_what_a_filter_hides(store: Store) -> None:
    publisher = Publisher(A, "apis/hidden.test/v1")
    publisher.replies[V2] = document({"swagger": "2.0", "paths": {"/apis/hidden.test/": {}}})
    async with published(store, publisher, filter=VersionFilter(deny=("hidden.*",))) as (
        server,
        run,
    ):
        await until(lambda: state(run) is OwnV2.PARTLY, "it is known")
        made = json.loads(await whole(run))
        assert f"/{A}/" in made["paths"]
        assert "hidden" not in json.dumps(made)
    assert V2 not in server.paths


async def test_a_v2_document_above_the_limit_is_refused(store: Store) -> None:
    publisher = Publisher(A)
    title = "".join(sha512(bytes([number])) for number in range(9))  # hardly to be compressed
    publisher.replies[V2] = Answer(v2_document(title))
    limits = UpstreamLimits(openapi_kept_bytes=500)
    async with published(store, publisher, limits=limits) as (_, run):
        words = "GET /openapi/v2: all documents together exceed 500 bytes"
        await until(lambda: words in str(list(run.upstreams.warnings())), "it is told of")
        assert state(run) is OwnV2.UNKNOWN


async def test_a_damaged_v2_document_is_an_error(store: Store) -> None:
    publisher = Publisher(A)
    publisher.replies[V2] = Answer(v2_document("one"))
    async with published(store, publisher) as (server, run):
        await until(lambda: state(run) is OwnV2.KEPT, "it is there")
        url = server.url
    ref = documents(run).published.v2
    assert ref is not None
    (entry,) = [
        entry
        for entry in (await store.list("upstream-openapi/documents/")).entries
        if ref.hash[:16].lower() in entry.key
    ]
    await store.put(entry.key, entry.value[:-1] + b"?")
    async with running(store, publishing(url)) as again:
        with pytest.raises(BadRecord):
            await whole(again)


async def test_failures_of_the_v2_document_do_not_slow_down_v3_documents(store: Store) -> None:
    publisher = Publisher(A)
    publisher.replies[V2] = Answer(b"", status=403)
    async with published(store, publisher) as (server, run):
        await until(lambda: server.paths.count(V2) > 1, "it fails")
        began = time.monotonic()
        await polled(server, V3, 3)
        assert time.monotonic() - began < 20
        text = run.metrics.text().decode()
    assert 'openapi_polls_total{result="Success"' in text
    assert 'openapi_polls_total{result="Status"' not in text
