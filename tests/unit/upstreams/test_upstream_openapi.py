"""OpenAPI documents of other API servers: requested once, served unchanged, never lost."""

import json
from dataclasses import replace

import pytest
from apidiscovery_service.sources.upstreams.failure import UpstreamFailed
from apidiscovery_service.sources.upstreams.openapi import answers, record
from apidiscovery_service.sources.upstreams.openapi.answers import check, listed
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits, VersionFilter
from apidiscovery_service.store import Store
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
    Running,
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
EAST = "upstream:east"
V3, V2 = "/openapi/v3", "/openapi/v2"


async def _is_empty(store: Store) -> bool:
    return not (await store.list("upstream-openapi/")).entries


# --------------------------------------------------------------------------------------------------
# Documents of group-versions.


async def test_documents_are_served_byte_for_byte(store: Store) -> None:
    publisher = Publisher(A, B, "apis/unoffered.test/v1", "apis/unoffered.test", "api/v9")
    publisher.discovery = aggregated(item("a.test"), item("b.test"), item("c.test"))
    changed: list[frozenset[str]] = []
    async with published(store, publisher) as (server, run):
        run.upstreams.documents.on_change(changed.append)
        await until(lambda: run.hash("b.test"), "both are there")
        assert await run.document("a.test") == publisher.documents[A]
        assert run.hash("a.test") == sha512(publisher.documents[A])
        assert run.hash("c.test") == ""
        assert run.hash("a.test", "v2") == ""
        assert run.hash("unoffered.test") == ""
        recipe = run.upstreams.documents.recipe("upstream:west", A)
        assert recipe is None
        counter = 'apidiscovery_upstream_openapi_polls_total{result="Success",upstream="east"}'
        await until(lambda: counter in run.metrics.text().decode(), "the poll is counted")
    assert fetched(server) == [A, B]
    assert frozenset().union(*changed) == {"a.test", "b.test"}
    asked = next(seen for seen in server.requests if seen.path == V3)
    assert asked.headers["accept"] == "application/json"
    assert asked.headers["accept-encoding"] == "gzip"
    assert asked.headers["x-remote-user"] == "system:aggregator"
    assert "x-remote-group" not in asked.headers


async def test_documents_with_the_type_of_plain_text_are_read(store: Store) -> None:
    publisher = Publisher(A)
    place = publisher.url(A)
    publisher.replies[place] = Answer(publisher.documents[A], "text/plain; charset=utf-8")
    async with published(store, publisher) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        assert await run.document("a.test") == publisher.documents[A]


@pytest.mark.parametrize("etag", ["", '"1"'])
async def test_unchanged_documents_are_not_requested_again(store: Store, etag: str) -> None:
    publisher = Publisher(A, B)
    publisher.etag = etag
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("b.test"), "both are there")
        await polled(server)
        before = (await store.list(record.INDEX_RECORDS.prefix)).revision
        await polled(server)
        assert (await store.list(record.INDEX_RECORDS.prefix)).revision == before
        assert fetched(server) == [A, B]
        assert server.requests[-1].headers.get("if-none-match", "") in ("", etag)
        publisher.documents[B], publisher.etag = openapi_document("other"), etag and '"2"'
        await until(lambda: run.hash("b.test") == sha512(publisher.documents[B]), "it changes")
        await polled(server)
        assert await run.document("b.test") == publisher.documents[B]
    assert fetched(server) == [A, B, B]


async def test_a_document_is_named_by_its_own_hash_whatever_the_index_says(store: Store) -> None:
    publisher = Publisher(A)
    publisher.hashes[A] = "anything-else"
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        await polled(server)
        assert run.hash("a.test") == sha512(publisher.documents[A])
        assert fetched(server) == [A]
        publisher.hashes[A] = "yet-another"
        await until(lambda: fetched(server) == [A, A], "it is asked for again")


async def test_without_hashes_each_document_is_requested_conditionally(store: Store) -> None:
    publisher = Publisher(A)
    publisher.hashes[A] = ""
    publisher.replies[f"{V3}/{A}"] = replace(
        Answer(publisher.documents[A]), headers={"ETag": '"d"'}
    )
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        publisher.replies[f"{V3}/{A}"] = Answer(b"", "", 304)
        await polled(server)
        assert run.hash("a.test") == sha512(publisher.documents[A])
        last = next(seen for seen in reversed(server.requests) if seen.path == f"{V3}/{A}")
        assert last.headers["if-none-match"] == '"d"'
        publisher.documents[A] = openapi_document("new")
        del publisher.replies[f"{V3}/{A}"]
        await until(lambda: run.hash("a.test") == sha512(publisher.documents[A]), "it changes")


async def test_the_document_of_a_group_comes_and_goes_with_it(store: Store) -> None:
    publisher = Publisher(A, B)
    publisher.discovery = aggregated(item("a.test"))
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        assert run.hash("b.test") == ""
        publisher.discovery = aggregated(item("a.test"), item("b.test"))
        await until(lambda: run.hash("b.test"), "it comes")
        publisher.discovery = aggregated(item("b.test"))
        await until(lambda: not run.hash("a.test"), "it goes")
        assert run.hash("b.test")
    assert fetched(server) == [A, B]


async def test_documents_of_denied_groups_are_not_requested(store: Store) -> None:
    publisher = Publisher(A, B)
    async with published(store, publisher, filter=VersionFilter(deny=("a.test",))) as (server, run):
        await until(lambda: run.hash("b.test"), "it is there")
        await polled(server)
        assert run.hash("a.test") == ""
    assert fetched(server) == [B]


async def test_documents_of_a_service_are_those_with_an_apiservice(store: Store) -> None:
    key, other = "apis/remote.example.com/v1", "apis/remote.example.com/v2"
    publisher = Publisher(key, other)
    source = "apiservice:v1.remote.example.com"
    async with FakeApiServer(publisher) as server:
        settings = service_settings(server.url, openapi=True)
        async with running(store, services=[api_service()], settings=settings) as run:
            await until(lambda: run.hash("remote.example.com", source=source), "it is there")
            found = await run.document("remote.example.com", source=source)
            assert found == publisher.documents[key]
            await polled(server)
            assert fetched(server) == [key]
            run.declarations.set(api_service(), api_service(version="v2"))
            second = "apiservice:v2.remote.example.com"
            await until(lambda: run.hash("remote.example.com", "v2", second), "the other, too")
            run.declarations.set()
            assert run.hash("remote.example.com", source=source) == ""
            await until(lambda: _is_empty(store), "all is removed")


async def test_documents_below_a_path_prefix_are_found(store: Store) -> None:
    """Both as Kubernetes lists them, and as a proxy does that adds its prefix."""
    publisher = Publisher(A, B, "apis/c.test/v1")
    publisher.urls[B] = f"/clusters/x{V3}/{B}?hash=1"
    publisher.urls["apis/c.test/v1"] = "/elsewhere?hash=2"

    def answer(seen: Request) -> Answer:
        if not seen.path.startswith("/clusters/x/"):
            return NOT_FOUND
        return publisher(replace(seen, path=seen.path.removeprefix("/clusters/x")))

    async with (
        FakeApiServer(answer) as server,
        running(store, publishing(f"{server.url}/clusters/x")) as run,
    ):
        await until(lambda: run.hash("b.test"), "both are there")
        assert run.hash("a.test")
        await until(run.upstreams.warnings, "the third is told of")
        assert "want a path below /openapi/v3 or /clusters/x" in run.upstreams.warnings()[0]
    assert all(path.startswith("/clusters/x/") for path in server.paths)


# --------------------------------------------------------------------------------------------------
# Servers that are hostile, broken or down.


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:1/openapi/v3/x",
        "//127.0.0.1:1/openapi/v3/x",
        "/\\127.0.0.1:1/x",
        "\\\\127.0.0.1/x",
        "@127.0.0.1:1/x",
        "/openapi/v3/../../secret",
        "/openapi/v3/%2e%2E/secret",
        "/openapi/v3/x\r\nX-Evil: 1",
        "/openapi/v3/x y",
        "/openapi/v3/x#y",
        "/openapi/v3/\u00e4",
        "",
        "/" + "x" * 3000,
    ],
)
def test_urls_that_lead_elsewhere_are_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"^want "):
        listed(url, "")


async def test_a_document_with_a_url_that_leads_elsewhere_is_not_requested(store: Store) -> None:
    publisher = Publisher(A, B)
    async with published(store, publisher) as (server, run):
        await until(lambda: run.hash("b.test"), "both are there")
        before = run.hash("a.test")
        publisher.urls[A] = "http://127.0.0.1:1/openapi/v3/x"
        await until(run.upstreams.warnings, "it is told of")
        await polled(server)
        (line,) = run.upstreams.warnings()
        assert line.startswith("upstream east: OpenAPI: GET /openapi/v3: apis/a.test/v1: serverRel")
        # The former document stays, and discovery goes on.
        assert run.hash("a.test") == before
        assert run.state() == "Current"
    assert {path for path in server.paths if not path.startswith("/apis")} == {
        V2,
        V3,
        f"{V3}/{A}",
        f"{V3}/{B}",
        "/version",
    }


_ABOVE = (".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version")


async def test_documents_above_group_versions_are_served(store: Store) -> None:
    publisher = Publisher(A, "apis/a.test", *_ABOVE)
    async with published(store, publisher) as (_, run):
        documents = run.upstreams.documents
        await until(lambda: len(documents.common()) == len(_ABOVE), "all are there")
        recipes = {**documents.common(), "apis/a.test": documents.recipe(EAST, "apis/a.test")}
        for key, recipe in recipes.items():
            assert recipe
            assert (await recipe.make(), recipe.hash) == (
                publisher.documents[key],
                sha512(publisher.documents[key]),
            )
        publisher.documents["version"] = openapi_document("another")
        publisher.etag = ""
        await until(
            lambda: documents.common()["version"].hash == sha512(publisher.documents["version"]),
            "another has taken its place",
        )


async def test_services_get_requests_for_group_versions_only(store: Store) -> None:
    publisher = Publisher("apis/remote.example.com/v1", "apis/remote.example.com", *_ABOVE)
    async with FakeApiServer(publisher) as server:
        settings = service_settings(server.url, openapi=True)
        async with running(store, services=[api_service()], settings=settings) as run:
            source = "apiservice:v1.remote.example.com"
            await until(lambda: run.hash("remote.example.com", source=source), "it is there")
    assert fetched(server) == ["apis/remote.example.com/v1"]


_SOUND = openapi_document("x")


def _with(**fields: object) -> bytes:
    return json.dumps({**json.loads(_SOUND), **fields}).encode()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"garbage", "want JSON"),
        (b"", "want JSON"),
        (_SOUND[:-10], "want"),
        (_SOUND + b"{}", "Extra data"),
        (b"[]", "want an object"),
        (b"{}", "openapi: got None, want 3.0.0"),
        (_with(openapi="2.0"), "openapi: got '2.0'"),
        (_with(openapi=3), "openapi: got 3"),
        (_with(paths=[]), "want an object"),
        (_with(info=json.loads("[" * 250 + "]" * 250)), "nest more than 200 deep"),
        (b'{"openapi":' + b"[" * 20_000, "nests too deeply"),
        (_with(components={"schemas": {"A": {"$ref": "#/components/schemas/B"}}}), "lead"),
        (_with(paths={"/": {"x": [{"$ref": "http://127.0.0.1:1/"}]}}), "lead to nothing"),
        (
            _with(components={"schemas": {"A": {"$ref": "#/components/schemas/A"}}}),
            "A is a reference to itself",
        ),
    ],
)
def test_a_document_that_is_malformed_or_refers_to_nothing_is_refused(
    content: bytes, reason: str
) -> None:
    with pytest.raises(UpstreamFailed, match=reason):
        check(content)


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Answer(b"garbage"), "want JSON"),
        (Answer(_with(info="x" * 40_000)), "more than 32000 bytes"),
        (Answer(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}), "the gzip body is cut"),
        (Answer(_SOUND, length=100_000), "GET /openapi/v3/apis/a.test/v1"),
        (Answer(_SOUND, stalls_after=10), "no whole answer within 2 s"),
        (Answer(_SOUND, "text/html"), "got Content-Type 'text/html', want application/json"),
        (Answer(b"", status=301, headers={"Location": "/x"}), "got status 301 to /x"),
        (NOT_FOUND, "got status 404"),
    ],
)
async def test_a_refused_document_leaves_the_last_one(
    store: Store, reply: Answer, reason: str
) -> None:
    publisher = Publisher(A, B)
    limits = UpstreamLimits(openapi_s=2.0, openapi_bytes=32_000)
    async with published(store, publisher, limits=limits) as (_, run):
        await until(lambda: run.hash("b.test"), "both are there")
        publisher.hashes[A] = "bad"
        publisher.replies[f"{V3}/{A}?hash=bad"] = reply
        publisher.documents[B] = openapi_document("new")
        await until(run.upstreams.warnings, "it is told of")
        assert reason in run.upstreams.warnings()[0]
        await until(lambda: run.hash("b.test") == sha512(publisher.documents[B]), "the other")
        assert await run.document("a.test") == publisher.documents[A]
        assert run.state() == "Current"
        del publisher.hashes[A]
        publisher.documents[A] = openapi_document("healed")
        await until(lambda: run.hash("a.test") == sha512(publisher.documents[A]), "it heals")
        await until(lambda: not run.upstreams.warnings(), "nothing is wrong any more")


async def test_all_documents_together_are_bounded(store: Store) -> None:
    publisher = Publisher(A, B)
    room = len(record.pack(publisher.documents[A]).pieces[0]) + 50
    async with published(store, publisher, limits=UpstreamLimits(openapi_kept_bytes=room)) as (
        _,
        run,
    ):
        await until(lambda: run.hash("a.test"), "the first is there")
        await until(run.upstreams.warnings, "the second is told of")
        assert f"all documents together exceed {room} bytes" in run.upstreams.warnings()[0]
        assert (bool(run.hash("a.test")), run.hash("b.test")) == (True, "")
        # One takes the place of another of its size.
        publisher.documents[A] = openapi_document("other/a.tests")
        await until(lambda: run.hash("a.test") == sha512(publisher.documents[A]), "replaced")
        del publisher.documents[A]
        publisher.documents[B] = openapi_document("another")
        await until(lambda: run.hash("b.test"), "now there is room")
        await until(lambda: not run.upstreams.warnings(), "nothing is wrong any more")


async def test_a_refused_document_is_not_requested_again_until_it_changes(store: Store) -> None:
    publisher = Publisher(A)
    publisher.documents[A] = b'{"openapi":"3.0.0","paths":{"/":{"$ref":"#/components/x/y"}}}'
    async with published(store, publisher) as (server, run):
        await until(run.upstreams.warnings, "it is refused")
        await polled(server)
        assert fetched(server) == [A]
        assert run.hash("a.test") == ""


async def test_harmless_faults_of_documents_are_accepted(store: Store) -> None:
    documents = {
        "a.test": _with(info={}, servers="none", extra=[1]),
        "b.test": _with(
            paths={"no slash": {"get": None, "properties": {"$ref": {"$ref": "#/paths/no slash"}}}}
        ),
        "c.test": _with(openapi="3.1.0", tags={"default": {"$ref": "nowhere"}}),
        "d.test": b'{"openapi": "3.0.0", "openapi": "3.0.1", "info": null}\n',
    }
    keys = {group: f"apis/{group}/v1" for group in documents}
    publisher = Publisher(*keys.values())
    publisher.documents = {keys[group]: document for group, document in documents.items()}
    async with published(store, publisher) as (_, run):
        await until(lambda: all(map(run.hash, documents)), "they are there")
        assert {group: await run.document(group) for group in documents} == documents
        assert run.upstreams.warnings() == []


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (DOWN, "GET /openapi/v3: got status 503, want 200, 304 or 404"),
        (Answer(b"<html>"), "want JSON"),
        (document({"paths": None}), "want an object with paths"),
        (Answer(b"", "", 304), "got status 304"),
        (Answer(b'{"paths":{' + b" " * 40_000), "more than 32000 bytes"),
        (Answer(b"{}", stalls=True), "no whole answer within 2 s"),
        (
            NOT_FOUND,
            "got status 404, as from /openapi/v2; accepted after 2 such answers, this is number 1",
        ),
    ],
)
async def test_a_failing_index_leaves_all_documents(
    store: Store, reply: Answer, reason: str
) -> None:
    publisher = Publisher(A)
    limits = UpstreamLimits(openapi_s=2.0, openapi_bytes=32_000)
    async with published(store, publisher, limits=limits) as (_, run):
        await until(lambda: run.hash("a.test"), "it is there")
        publisher.replies[V3] = reply
        seen: list[str] = []
        await until(lambda: _noted(seen, run) and reason in seen[0], "it is told of")
        assert run.state() == "Current"
        if reply is not NOT_FOUND:
            assert await run.document("a.test") == publisher.documents[A]
        del publisher.replies[V3]
        await until(lambda: not run.upstreams.warnings(), "it is well again")
        await until(lambda: run.hash("a.test"), "it is there")


def _noted(seen: list[str], run: Running) -> list[str]:
    seen += run.upstreams.warnings()
    return seen


async def test_unwanted_documents_of_a_huge_index_are_ignored(store: Store) -> None:
    publisher = Publisher(A)
    paths = {f"apis/g{i}.test/v1": {"serverRelativeURL": "//evil"} for i in range(20_000)}
    paths[A] = {"serverRelativeURL": publisher.url(A)}
    publisher.replies[V3] = document({"paths": paths})
    async with published(store, publisher, limits=UpstreamLimits()) as (server, run):
        await until(lambda: run.hash("a.test"), "it is there")
        assert run.upstreams.warnings() == []
    assert fetched(server) == [A]


async def test_a_document_that_hangs_does_not_delay_discovery(store: Store) -> None:
    publisher = Publisher(A)
    publisher.replies[f"{V3}/{A}"] = Answer(b"{}", stalls=True)
    async with published(store, publisher, limits=UpstreamLimits()) as (server, run):
        await until(lambda: fetched(server), "it is asked for")
        # Connections are renewed after fewer rounds.
        await polled(server, "/apis", 15)
        publisher.discovery = aggregated(item("z.test"))
        await until(lambda: run.freshness("z.test") == "Current", "discovery goes on")
    assert fetched(server) == [A]


async def test_failing_documents_do_not_slow_down_discovery(store: Store) -> None:
    publisher = Publisher(A)
    publisher.replies[V3] = DOWN
    timing = replace(QUICK, openapi_s=0.05, openapi_last_retry_s=60.0)
    async with published(store, publisher, timing=timing) as (server, _):
        await polled(server, V3, 4)
        discovered = server.paths.count("/apis")
        asked = server.paths.count(V3)
        await polled(server, "/apis", 12)
    assert discovered > asked
    # Without pauses that grow it would be as often.
    assert server.paths.count(V3) <= asked + 6


def _schemas(**schemas: object) -> bytes:
    return json.dumps({"openapi": "3.0.0", "components": {"schemas": schemas}}).encode()


def _refs(numbers: range) -> list[object]:
    return [{"$ref": f"#/components/schemas/A/{number}"} for number in numbers]


def test_different_references_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MAX_REFS", 100)
    check(_schemas(A={}, **{f"S{number}": _refs(range(100)) for number in range(3)}))
    with pytest.raises(UpstreamFailed, match="more than 100 references"):
        check(_schemas(A={}, B=_refs(range(60)), C=_refs(range(50, 110))))
