"""Servers of all releases are read alike, also through proxies that change headers."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client._reading import read_document
from apidiscovery_client.model import GroupVersion, Resource, Snapshot
from fake_api_server import FakeApiServer, Respond, aggregated
from fetching import KINDS, fetching
from legacy_clusters import converted
from skewed_answers import (
    RELEASES,
    Release,
    compressing,
    gv_of,
    halves,
    new_groups,
    respond,
    with_accept,
    with_content_type,
)

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WITHOUT_PROTOBUF = HttpOptions(protobuf=False)
both_encodings = pytest.mark.parametrize(
    "options",
    [pytest.param(HttpOptions(), id="protobuf"), pytest.param(WITHOUT_PROTOBUF, id="JSON")],
)
# Both transports leave the answers to the same code, so one is enough where no connection matters.
Facts = dict[GroupVersion, tuple[Resource, ...]]


def told(snapshot: Snapshot) -> Facts:
    """Return all resources, without what only old servers tell."""
    assert snapshot.failures == {}
    assert snapshot.troubled == ()
    return {
        version.gv: tuple(
            replace(resource, storage_version_hash="") for resource in version.resources
        )
        for version in snapshot.versions
    }


def expected(release: Release, *paths: str) -> Facts:
    if not release.cluster:
        groups = [group for path in paths for group in new_groups(path)]
        return {version.gv: version.resources for group in groups for version in group.versions}
    entries = {
        path: entry
        for path, entry in converted(release.cluster).items()
        if f"/{path.split('/')[1]}" in paths
    }
    return {gv_of(path): of_entry(path, entry) for path, entry in entries.items()}


def of_entry(path: str, entry: object) -> tuple[Resource, ...]:
    answer = aggregated({"metadata": {"name": gv_of(path).group}, "versions": [entry]})
    half = read_document("/apis", answer.content_type, answer.body, NOW)
    return half.groups[0].versions[0].resources


def paths_asked(name: str, *halves: str) -> list[str]:
    """Return all paths that are requested where these halves are of a release, others of a new."""
    release = RELEASES[name]
    again = halves if name == "not by apiserver" else ()
    documents = () if release.aggregated else (gv.path for gv in expected(release, *halves))
    return sorted(["/api", "/apis", *again, *documents])


def fetched(answer: Respond, options: HttpOptions) -> tuple[Snapshot, FakeApiServer]:
    with FakeApiServer(answer) as server, fetching("blocking", server.url, options) as transport:
        snapshot = transport.fetch().snapshot
        assert transport.traffic.requests == len(server.requests)
    return snapshot, server


@both_encodings
@pytest.mark.parametrize("name", RELEASES)
def test_release(options: HttpOptions, name: str) -> None:
    release = RELEASES[name]
    snapshot, server = fetched(respond(release), options)
    assert told(snapshot) == expected(release, "/api", "/apis")
    assert sorted(server.paths) == paths_asked(name, "/api", "/apis")


@both_encodings
@pytest.mark.parametrize("old", ["1.7", "1.15", "1.27", "not by apiserver"])
@pytest.mark.parametrize("core_is_old", [True, False])
def test_half_upgraded_cluster_is_judged_half_by_half(
    options: HttpOptions, old: str, *, core_is_old: bool
) -> None:
    core, named = (RELEASES[old], RELEASES["1.33"])[:: 1 if core_is_old else -1]
    snapshot, server = fetched(halves(core, named), options)
    assert told(snapshot) == expected(core, "/api") | expected(named, "/apis")
    assert sorted(server.paths) == paths_asked(old, "/api" if core_is_old else "/apis")


@both_encodings
@pytest.mark.parametrize("name", ["1.15", "1.33"])
@pytest.mark.parametrize(
    "proxy",
    [
        pytest.param(with_accept(None), id="drops Accept"),
        pytest.param(with_accept("application/json"), id="rewrites Accept"),
        pytest.param(with_accept("application/vnd.kubernetes.protobuf"), id="wants protobuf"),
        pytest.param(with_content_type(None), id="drops Content-Type"),
        pytest.param(with_content_type("application/json"), id="rewrites Content-Type"),
        pytest.param(with_content_type("application/json; charset=utf-8"), id="adds a charset"),
        pytest.param(compressing, id="compresses"),
    ],
)
def test_proxy_that_changes_headers_does_not_change_what_is_told(
    options: HttpOptions, name: str, proxy: Callable[[Respond], Respond]
) -> None:
    release = RELEASES[name]

    def answer(of: Release) -> Respond:
        through = proxy(respond(of))
        # The documents of a group-version are not what this is about.
        return lambda r: (through if r.path in ("/api", "/apis") else respond(of))(r)

    snapshot, _ = fetched(answer(release), options)
    assert told(snapshot) == expected(release, "/api", "/apis")


@pytest.mark.parametrize(
    "content_type", ["application/octet-stream", "text/html", "application/cbor"]
)
def test_an_unknown_content_type_is_an_error_and_never_empty(content_type: str) -> None:
    answer = with_content_type(content_type)(respond(RELEASES["1.33"]))
    with pytest.raises(UnexpectedDocument, match="the content type is"):
        fetched(answer, HttpOptions())


def test_only_groups_take_two_requests_even_of_an_old_server() -> None:
    snapshot, server = fetched(respond(RELEASES["1.15"]), HttpOptions(resources=False))
    assert sorted(server.paths) == ["/api", "/apis"]
    gvs = {version.gv for version in snapshot.versions}
    assert gvs == expected(RELEASES["1.15"], "/api", "/apis").keys()
    assert len(snapshot.troubled) == len(gvs)


@pytest.mark.parametrize(("options", "content_type"), [
    (HttpOptions(), "application/vnd.kubernetes.protobuf;"),
    (WITHOUT_PROTOBUF, "application/json;"),
])  # fmt: skip
def test_protobuf_comes_only_where_it_is_wanted(options: HttpOptions, content_type: str) -> None:
    answer = respond(RELEASES["1.33"])
    with FakeApiServer(answer) as server, fetching("blocking", server.url, options) as transport:
        held = transport.fetch()
    assert held.documents.keys() == held.etags.keys() == {"/api", "/apis"}
    assert all(doc.content_type.startswith(content_type) for doc in held.documents.values())


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_new_costs_two_requests_without_a_body(kind: str) -> None:
    with FakeApiServer(respond(RELEASES["1.33"])) as server:
        with fetching(kind, server.url) as transport:
            first = transport.fetch()
            received = transport.traffic.body_bytes
            second = transport.fetch(first)
        # What was asked for does not matter either: the ETag is that of the content.
        with fetching(kind, server.url, WITHOUT_PROTOBUF) as other:
            third = other.fetch(second)
    assert (other.traffic.not_modified, other.traffic.body_bytes) == (2, 0)
    assert second.snapshot.groups is first.snapshot.groups is third.snapshot.groups
    assert second.snapshot.checked_at > first.snapshot.checked_at
    assert (second.etags, second.documents) == (first.etags, first.documents)
    assert transport.traffic.not_modified == 2
    assert (transport.traffic.requests, transport.traffic.body_bytes) == (4, received)


def test_unchanged_old_server_gives_the_same_groups() -> None:
    answer = respond(RELEASES["1.15"])
    with FakeApiServer(answer) as server, fetching("blocking", server.url) as transport:
        first = transport.fetch()
        assert (first.etags, first.documents) == ({}, {})
        assert transport.fetch(first).snapshot.groups is first.snapshot.groups


@pytest.mark.parametrize("kind", KINDS)
def test_upgrade_between_two_requests_is_followed_both_ways(kind: str) -> None:
    old, new = RELEASES["1.26"], RELEASES["1.33"]
    with FakeApiServer(respond(old)) as server, fetching(kind, server.url) as transport:
        held = transport.fetch()
        for release in (new, old, new):
            server.answers = respond(release)
            held = transport.fetch(held)
            assert told(held.snapshot) == expected(release, "/api", "/apis")
            assert bool(held.etags) is bool(release.aggregated)
