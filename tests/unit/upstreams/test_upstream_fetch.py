"""One round with a server that behaves: requests, and the results of answers."""

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from apidiscovery_kubeconfig.credentials import Material, TokenFile
from apidiscovery_service import workers
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.sources.upstreams import fetch
from apidiscovery_service.sources.upstreams.endpoint import Endpoint
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Root
from fake_api_server import (
    DOWN,
    NOT_ACCEPTABLE,
    Answer,
    FakeApiServer,
    Request,
    aggregated,
    conditional,
    document,
)
from media_types import JSON_V2, JSON_V2BETA1
from upstream_setup import QUICK, Ask, group_list, item, resource_list, spec_of
from waiting import until

REMOTE = frozenset({("remote.example.com", "v1")})


def _groups(root: Root) -> list[str]:
    return [group.name for group in root.groups]


async def test_the_request_is_that_of_kube_aggregator(ask: Ask) -> None:
    answer = conditional(aggregated(item("remote.example.com"), etag='"A1"'))
    async with FakeApiServer(answer) as server:
        one = ask(spec_of(server.url, kind=UpstreamKind.SERVICE), REMOTE)
        first = await one.round()
        second = await one.round()
    assert server.paths == ["/apis", "/apis"]
    before, after = (seen.headers for seen in server.requests)
    assert before["accept"] == f"{JSON_V2},{JSON_V2BETA1}"
    assert before["x-remote-user"] == "system:kube-aggregator"
    assert before["x-remote-group"] == "system:masters"
    assert "if-none-match" not in before
    assert "authorization" not in before
    assert not [name for name in before if name.startswith("x-remote-extra")]
    assert after["if-none-match"] == '"A1"'
    assert first == second
    assert first.is_current


@pytest.mark.parametrize(
    ("kind", "user"),
    [(UpstreamKind.SERVER, "system:kube-aggregator"), (UpstreamKind.CLUSTER, None)],
)
async def test_a_cluster_gets_no_headers_of_kube_aggregator(
    ask: Ask, kind: UpstreamKind, user: str | None
) -> None:
    answers = {"/api": aggregated(item("")), "/apis": aggregated(item("a.test"))}
    async with FakeApiServer(answers) as server:
        one = ask(spec_of(server.url, kind=kind, core_paths=("/api",)))
        await one.round()
    assert sorted(server.paths) == ["/api", "/apis"]
    assert {seen.headers.get("x-remote-user") for seen in server.requests} == {user}
    assert [_groups(root) for root in one.known.roots] == [[""], ["a.test"]]


@pytest.mark.parametrize(
    "content_type",
    [
        JSON_V2,
        JSON_V2BETA1,
        "application/json; as=APIGroupDiscoveryList;  v=v2;charset=utf-8; g=apidiscovery.k8s.io;",
        'Application/JSON;G="apidiscovery.k8s.io";V=v2;AS=APIGroupDiscoveryList',
    ],
)
async def test_the_content_type_decides_how_an_answer_is_read(ask: Ask, content_type: str) -> None:
    reply = Answer(aggregated(item("a.test")).body, content_type)
    async with FakeApiServer({"/apis": reply}) as server:
        root = await ask(spec_of(server.url)).round()
    assert (root.is_current, _groups(root), server.paths) == (True, ["a.test"], ["/apis"])


async def test_compressed_answers_are_read(ask: Ask) -> None:
    plain = aggregated(*(item(f"g{i}.test") for i in range(400)), etag='"A"')
    packed = gzip.compress(plain.body[:9_000]) + gzip.compress(plain.body[9_000:])
    reply = Answer(packed, JSON_V2, headers={"Content-Encoding": "gzip"})
    async with FakeApiServer({"/apis": reply}) as server:
        one = ask(spec_of(server.url))
        root = await one.round()
    assert len(root.groups) == 400
    assert server.requests[0].headers["accept-encoding"] == "gzip"
    assert one.received == len(packed)


async def test_a_server_may_lack_the_core_group(ask: Ask) -> None:
    async with FakeApiServer({"/apis": aggregated(item("a.test"))}) as server:
        one = ask(spec_of(server.url, core_paths=("/api",)))
        await one.round()
    core, named = one.known.roots
    assert (core.is_current, core.groups, named.is_current) == (True, (), True)


async def test_404_to_everything_does_not_take_the_core_group_away(ask: Ask) -> None:
    answers = {"/api": aggregated(item("")), "/apis": aggregated(item("a.test"))}
    async with FakeApiServer(answers) as server:
        slow = replace(QUICK, poll_s=1.0)
        one = ask(spec_of(server.url, core_paths=("/api",), timing=slow))
        await one.round()
        server.answers = {}
        await one.round()
        assert [_groups(root) for root in one.known.roots] == [[""], ["a.test"]]
        assert {root.state for root in one.known.roots} == {Freshness.STALE}
        server.answers = {"/apis": aggregated(item("a.test"))}
        await one.round()
        assert [root.reason for root in one.known.roots] == [Reason.EMPTIED, ""]
        await until(lambda: one.has("/api", ()), "the second answer is accepted")
    assert [(root.state, len(root.groups)) for root in one.known.roots] == [
        (Freshness.CURRENT, 0),
        (Freshness.CURRENT, 1),
    ]


async def test_each_path_fails_by_itself(ask: Ask) -> None:
    answers = {"/api": aggregated(item("")), "/apis": aggregated(item("a.test"))}
    async with FakeApiServer(answers) as server:
        one = ask(spec_of(server.url, core_paths=("/api",)))
        await one.round()
        server.answers = {"/api": DOWN, "/apis": aggregated(item("b.test"))}
        await one.round()
    core, named = one.known.roots
    assert (core.state, _groups(core)) == (Freshness.STALE, [""])
    assert "503" in core.error
    assert (named.state, _groups(named), named.error) == (Freshness.CURRENT, ["b.test"], "")
    assert not one.known.is_well


async def test_a_failure_keeps_the_groups_and_its_time(ask: Ask) -> None:
    reply = aggregated(item("a.test"), etag='"A"')
    async with FakeApiServer({"/apis": reply}) as server:
        one = ask(spec_of(server.url))
        well = await one.round()
        server.answers = {"/apis": DOWN}
        first, second = await one.round(), await one.round()
        server.answers = conditional(reply)
        again = await one.round()
    assert (first.groups, first.etag) == (well.groups, '"A"')
    assert first.since == second.since >= well.since
    assert (again.state, again.error, again.groups) == (Freshness.CURRENT, "", well.groups)


async def test_an_old_service_gets_both_requests_in_every_round(ask: Ask) -> None:
    content = resource_list("remote.example.com/v1", "widgets", "widgets/status")

    def answer(seen: Request) -> Answer:
        return document(content) if seen.path != "/apis" else NOT_ACCEPTABLE

    async with FakeApiServer(answer) as server:
        one = ask(spec_of(server.url, kind=UpstreamKind.SERVICE), REMOTE)
        roots = [await one.round() for _ in range(3)]
    assert server.paths == ["/apis", "/apis/remote.example.com/v1"] * 3
    lists, versions = server.requests[::2], server.requests[1::2]
    assert {seen.headers["accept"] for seen in lists} == {f"{JSON_V2},{JSON_V2BETA1}"}
    assert {seen.headers["accept"] for seen in versions} == {"application/json"}
    assert {seen.headers["x-remote-user"] for seen in versions} == {"system:kube-aggregator"}
    assert {seen.headers.get("x-remote-group") for seen in versions} == {None}
    root = roots[-1]
    assert root.is_current
    (version,) = root.groups[0].versions
    assert [r.resource for r in version.resources] == ["widgets"]
    assert [s.subresource for s in version.resources[0].subresources] == ["status"]


async def test_an_old_service_without_the_version_is_stale(ask: Ask) -> None:
    async with FakeApiServer({}) as server:
        one = ask(spec_of(server.url, kind=UpstreamKind.SERVICE), REMOTE)
        root = await one.round()
    (version,) = root.groups[0].versions
    assert (version.freshness, version.resources) == (Freshness.STALE, ())
    assert "404" in root.failures[0][1]


async def test_an_upgraded_server_gets_the_requests_of_a_new_one(ask: Ask) -> None:
    old = {
        "/apis": document(group_list("a.test/v1")),
        "/apis/a.test/v1": document(resource_list("a.test/v1", "widgets")),
    }
    async with FakeApiServer(old) as server:
        one = ask(spec_of(server.url))
        assert (await one.round()).old
        server.answers = {"/apis": aggregated(item("a.test"), etag='"N"')}
        assert not (await one.round()).old
        await one.round()
    accepts = [s.headers["accept"] for s in server.requests if s.path == "/apis"]
    assert accepts == [
        f"{JSON_V2},{JSON_V2BETA1}",
        f"{JSON_V2},{JSON_V2BETA1},application/json",
        f"{JSON_V2},{JSON_V2BETA1}",
    ]


async def test_refused_credentials_are_renewed_once(ask: Ask, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("1")

    def answer(seen: Request) -> Answer:
        token.write_text("2")
        is_new = seen.headers["authorization"] == "Bearer 2"
        return aggregated(item("a.test")) if is_new else Answer(status=401)

    async with FakeApiServer(answer) as server:
        credentials = TokenFile(Material("token-file", file=token))
        endpoint = Endpoint(server.url, credentials=credentials)
        root = await ask(
            UpstreamSpec("east", endpoint, UpstreamKind.CLUSTER, core_paths=())
        ).round()
    assert (root.is_current, server.paths) == (True, ["/apis", "/apis"])


async def test_further_paths_are_requested(ask: Ask) -> None:
    answers = {"/apis": aggregated(item("a.test")), "/more": aggregated(item("b.test"))}
    async with FakeApiServer(answers) as server:
        one = ask(spec_of(server.url, named_paths=("/apis", "/more")))
        await one.round()
    assert [_groups(root) for root in one.known.roots] == [["a.test"], ["b.test"]]


async def test_a_document_without_groups_is_valid(ask: Ask) -> None:
    async with FakeApiServer({"/apis": aggregated()}) as server:
        root = await ask(spec_of(server.url)).round()
    assert (root.is_current, root.groups) == (True, ())


async def test_a_worker_reads_an_answer_that_is_large_when_unpacked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The size on the wire does not count."""
    exchange = Exchange(spec_of("http://127.0.0.1:1"), lambda _: None)
    run, calls = workers.run, list[object]()

    async def counted(function: Callable[..., object], *args: object, **named: object) -> object:
        calls.append(function)
        return await run(function, *args, **named)

    monkeypatch.setattr(workers, "run", counted)
    for size, by_worker in ((100, 0), (1_000_000, 1)):
        packed = gzip.compress(b" " * size)
        assert len(packed) < 4096
        answer = fetch.Answer("/apis", 200, "application/json", "", packed, is_gzip=True)
        assert await exchange.read(answer, len) == size
        assert len(calls) == by_worker


async def test_an_answer_that_a_worker_cannot_read_is_too_large(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange = Exchange(spec_of("http://127.0.0.1:1"), lambda _: None)
    answer = fetch.Answer("/apis", 200, "application/json", "", b" " * 100_000)

    async def fail(*_: object, **__: object) -> object:
        raise workers.WorkerFailed("it takes more than 60 s")

    monkeypatch.setattr(workers, "run", fail)
    with pytest.raises(
        UpstreamFailed, match=r"GET /apis: .* cannot be read: it takes more than 60"
    ):
        await exchange.read(answer, len)


@pytest.mark.parametrize("is_old", [False, True])
async def test_a_server_that_starts_loses_no_groups(ask: Ask, *, is_old: bool) -> None:
    def listed(*names: str) -> Answer:
        group_versions = [f"{name}/v1" for name in names]
        return document(group_list(*group_versions)) if is_old else aggregated(*map(item, names))

    lists = {
        f"/apis/{name}/v1": document(resource_list(f"{name}/v1", "widgets"))
        for name in ("a.test", "b.test")
    }
    async with FakeApiServer({**lists, "/apis": listed("a.test", "b.test")}) as server:
        one = ask(spec_of(server.url))
        await one.round()
        server.answers = {**lists, "/apis": listed("a.test"), "/readyz": Answer(status=500)}
        starting = await one.round()
        server.answers = {**lists, "/apis": listed("a.test"), "/readyz": Answer(b"ok")}
        ready = await one.round()
    assert (_groups(starting), starting.is_current) == (["a.test", "b.test"], False)
    assert starting.error == "GET /readyz: got status 500, and group-versions are missing"
    assert (_groups(ready), ready.is_current) == (["a.test"], True)
