"""Old clusters are converted as by the reference, with few requests."""

import asyncio
import json
from dataclasses import replace

import pytest
from apidiscovery_formats.openapi.keys import key_of
from apidiscovery_service.core.group_document import group_value
from apidiscovery_service.core.model import Contribution, Freshness, Group, Precedence
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.sources.upstreams.offers import UpstreamView, mirrored_offers
from apidiscovery_service.sources.upstreams.rounds import EVERYTHING_EVERY_ROUNDS
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamLimits, VersionFilter
from fake_api_server import DOWN, NOT_FOUND, Answer, FakeApiServer, Request, document, legacy
from legacy_clusters import CLUSTERS, converted
from upstream_setup import (
    Ask,
    group_list,
    resource_list,
    spec_of,
)
from waiting import WITHIN_S, until


@pytest.mark.parametrize("cluster", CLUSTERS)
async def test_a_real_cluster_is_converted_as_by_the_reference(ask: Ask, cluster: str) -> None:
    answers, wanted = legacy(cluster), converted(cluster)
    async with FakeApiServer(answers) as server:
        one = ask(
            spec_of(
                server.url, kind=UpstreamKind.CLUSTER, core_paths=("/api",), limits=UpstreamLimits()
            )
        )
        await one.round()
        assert one.known.is_well
    registry = Registry()
    offers = mirrored_offers(UpstreamView(one.known, is_trusted=True))
    snapshot = registry.publish(Contribution("upstream:east", Precedence.AGGREGATOR, offers))
    groups = [g.group for g in (*snapshot.core.groups, *snapshot.named.groups)]
    found = {
        f"/{key_of(group.name, version.version)}": _entry(group, place)
        for group in groups
        for place, version in enumerate(group.versions)
    }
    assert found == {path: {**entry, "freshness": "Current"} for path, entry in wanted.items()}
    listed = json.loads(answers["/apis"].body)["groups"]
    assert [g.name for g in groups] == ["", *(entry["name"] for entry in listed)]
    assert [g.versions[0].version for g in groups[1:]] == [
        entry["preferredVersion"]["version"] for entry in listed
    ]
    hashes = {r.storage_version_hash for g in groups for v in g.versions for r in v.resources}
    assert (len(hashes) > 1) == ("storageVersionHash" in str(answers["/api/v1"].body))
    assert len(server.requests) == 2 + len(wanted)


def _entry(group: Group, place: int) -> object:
    versions = json.loads(json.dumps(group_value(group)))["versions"]
    return versions[place]


def _old(*group_versions: str) -> dict[str, Answer]:
    versions = {f"/apis/{gv}": document(resource_list(gv, "widgets")) for gv in group_versions}
    return {"/apis": document(group_list(*group_versions)), **versions}


async def test_an_unchanged_old_server_costs_one_request_but_in_every_fifth_round(ask: Ask) -> None:
    names = [f"g{i}.test/v1" for i in range(6)]
    async with FakeApiServer(_old(*names)) as server:
        one = ask(spec_of(server.url))
        requests: list[int] = []
        for _ in range(3 * EVERYTHING_EVERY_ROUNDS):
            before = len(server.requests)
            assert (await one.round()).is_current
            requests.append(len(server.requests) - before)
    # The first round requests the list with both sets of media types.
    assert requests[0] == 1 + 6
    everything = [i for i, number in enumerate(requests) if number == 7]
    assert everything == [0, 4, 9, 14]
    assert {requests[i] for i in range(15) if i not in everything} == {1}


async def test_changed_and_failed_versions_are_requested_at_once(ask: Ask) -> None:
    answers = _old("a.test/v1", "b.test/v1")
    async with FakeApiServer(answers) as server:
        one = ask(spec_of(server.url))
        await one.round()
        server.answers = {**_old("a.test/v1", "b.test/v1", "b.test/v2"), "/apis/b.test/v1": DOWN}
        server.requests.clear()
        failed = await one.round()
        assert sorted(server.paths) == ["/apis", "/apis/b.test/v1", "/apis/b.test/v2"]
        server.answers = _old("a.test/v1", "b.test/v1", "b.test/v2")
        server.requests.clear()
        well = await one.round()
        assert server.paths == ["/apis", "/apis/b.test/v1"]
    b = failed.groups[1]
    assert [(v.version, v.freshness, len(v.resources)) for v in b.versions] == [
        ("v1", "Stale", 1),
        ("v2", "Current", 1),
    ]
    assert failed.error.startswith("1 of 3 group-versions failed: GET /apis/b.test/v1")
    assert (well.error, well.failures) == ("", ())
    assert {v.freshness for g in well.groups for v in g.versions} == {"Current"}


async def test_a_version_that_is_listed_and_answers_404_is_no_failure(ask: Ask) -> None:
    """kube-apiserver 1.25 does this for definitions with name conflicts."""
    answers = _old("a.test/v1", "b.test/v1")
    async with FakeApiServer({**answers, "/apis/b.test/v1": NOT_FOUND}) as server:
        one = ask(spec_of(server.url))
        for _ in range(2):
            root = await one.round()
            assert (one.known.is_well, root.error, root.failures) == (True, "", ())
            assert root.warnings == ("GET /apis/b.test/v1: got status 404, want 200",)
            assert [g.versions[0].freshness for g in root.groups] == ["Current", "Stale"]
        server.answers = answers
        root = await one.round()  # at once, though the list is as before
    assert root.warnings == ()
    assert [g.versions[0].freshness for g in root.groups] == ["Current", "Current"]


async def test_a_version_that_never_answered_is_stale_and_empty(ask: Ask) -> None:
    answers = {**_old("a.test/v1", "b.test/v1"), "/apis/b.test/v1": Answer(stalls=True)}
    async with FakeApiServer(answers) as server:
        root = await ask(spec_of(server.url, limits=UpstreamLimits(exchange_s=2.0))).round()
    a, b = root.groups
    assert a.versions[0].freshness == Freshness.CURRENT
    assert (b.versions[0].freshness, b.versions[0].resources) == (Freshness.STALE, ())
    assert "no whole answer within 2 s" in root.error


async def test_requests_at_once_are_limited(ask: Ask) -> None:
    names = [f"g{i}.test/v1" for i in range(40)]
    answers = _old(*names)
    gate = Answer(stalls=True)

    def answer(seen: Request) -> Answer:
        return answers["/apis"] if seen.path == "/apis" else gate

    async with FakeApiServer(answer) as server:
        limits = UpstreamLimits(exchange_s=2.0, concurrent=5)
        spec = spec_of(server.url, limits=limits, filter=VersionFilter(allow=("g?.test",)))
        asking = asyncio.create_task(ask(spec).round())
        await until(lambda: len(server.requests) > 5, "the list was read")
        await asyncio.sleep(0.05)
        at_once = len(server.requests) - 1
        root = await asking
    assert at_once == 5
    assert len(root.failures) == len(server.requests) - 1 == 10


async def test_denied_versions_are_not_requested(ask: Ask) -> None:
    async with FakeApiServer(_old("a.test/v1", "b.test/v1")) as server:
        root = await ask(spec_of(server.url, filter=VersionFilter(deny=("b.*",)))).round()
    assert server.paths == ["/apis", "/apis/a.test/v1"]
    assert [group.name for group in root.groups] == ["a.test"]


async def test_an_etag_of_the_list_is_used(ask: Ask) -> None:
    answers = _old("a.test/v1")
    answers["/apis"] = replace(answers["/apis"], headers={"ETag": '"L"'})

    def answer(seen: Request) -> Answer:
        if seen.headers.get("if-none-match") == '"L"':
            return Answer(status=304, headers={"ETag": '"L"'})
        return answers[seen.path]

    async with FakeApiServer(answer) as server:
        one = ask(spec_of(server.url))
        first = await one.round()
        second = await one.round()
    assert first == second
    assert server.paths == ["/apis", "/apis/a.test/v1", "/apis"]


async def test_a_removed_group_is_gone(ask: Ask) -> None:
    async with FakeApiServer(_old("a.test/v1", "b.test/v1")) as server:
        one = ask(spec_of(server.url))
        await one.round()
        server.answers = _old("b.test/v1")
        root = await one.round()
    assert [group.name for group in root.groups] == ["b.test"]


async def test_resources_of_all_core_paths_make_one_version(ask: Ask) -> None:
    """OpenShift 3 lists its own resources of the core version v1 at /oapi."""
    answers = {
        "/api": document({"kind": "APIVersions", "versions": ["v1"]}),
        "/api/v1": document(resource_list("v1", "pods", "services")),
        "/oapi": document({"kind": "APIVersions", "versions": ["v1"]}),
        "/oapi/v1": document(resource_list("v1", "builds", "pods")),
    }
    async with FakeApiServer(answers) as server:
        one = ask(spec_of(server.url, core_paths=("/api", "/oapi"), named_paths=()))
        await one.round()
        (well,) = mirrored_offers(UpstreamView(one.known, is_trusted=True))
        server.answers = {**answers, "/oapi": DOWN}
        await one.round()
        (partly,) = mirrored_offers(UpstreamView(one.known, is_trusted=True))
    assert [r.resource for r in well.version.resources] == ["pods", "services", "builds"]
    assert (well.group, well.version.freshness) == ("", Freshness.CURRENT)
    assert partly.version == replace(well.version, freshness=Freshness.STALE)


async def test_an_old_server_that_hangs_everywhere_does_not_prolong_a_round(ask: Ask) -> None:
    """Otherwise its failure would show late."""
    names = [f"g{i:02}.test/v1" for i in range(40)]
    answers = {f"/apis/{name}": Answer(stalls=True) for name in names}
    answers |= {
        "/apis": document(group_list(*names)),
        "/apis/g00.test/v1": _old(names[0])[f"/apis/{names[0]}"],
    }
    limits = UpstreamLimits(exchange_s=2.0, concurrent=2, versions_s=2.5)
    async with FakeApiServer(answers) as server:
        async with asyncio.timeout(WITHIN_S):
            root = await ask(spec_of(server.url, limits=limits)).round()
    fresh = [g.name for g in root.groups if g.versions[0].freshness == Freshness.CURRENT]
    assert (len(root.groups), fresh, len(root.failures)) == (40, ["g00.test"], 39)
    assert dict(root.failures)["g39.test/v1"] == "g39.test/v1: not read within 2.5 s for all"


async def test_a_version_whose_apiservice_comes_back_has_its_resources_again(ask: Ask) -> None:
    v1, v2 = ("g.test", "v1"), ("g.test", "v2")
    async with FakeApiServer(_old("g.test/v1", "g.test/v2")) as server:
        one = ask(spec_of(server.url, kind=UpstreamKind.SERVICE), frozenset({v1, v2}))
        await one.round()
        for wanted in ({v1}, {v1, v2}):
            one.wanted = frozenset(wanted)
            await one.round()
        (group,) = one.known.roots[0].groups
        assert [len(version.resources) for version in group.versions] == [1, 1]
