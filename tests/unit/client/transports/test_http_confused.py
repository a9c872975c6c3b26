"""Answers that are right somewhere else, or at another time, and wrong here."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest
from apidiscovery_client._errors import DiscoveryError, UnexpectedDocument
from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client.model import GroupVersion, Unknown
from fake_api_server import Answer, FakeApiServer, Request, Respond, aggregated, aggregated_type
from fetching import KINDS, fetching
from skewed_answers import RELEASES, respond

NEW, OLD = respond(RELEASES["1.33"]), respond(RELEASES["1.15"])

pytestmark = pytest.mark.parametrize("kind", KINDS)


def elsewhere(inner: Respond, paths: Mapping[str, str]) -> Respond:
    """Return what answers some paths as it does others."""
    return lambda request: inner(replace(request, path=paths.get(request.path, request.path)))


@pytest.mark.parametrize("options", [HttpOptions(), HttpOptions(protobuf=False)])
@pytest.mark.parametrize(
    "paths",
    [
        pytest.param({"/api": "/apis", "/apis": "/api"}, id="swapped"),
        pytest.param({"/apis": "/api"}, id="core for all"),
        pytest.param({"/api": "/apis"}, id="named for all"),
    ],
)
@pytest.mark.parametrize("name", ["1.15", "1.27", "1.33"])
def test_answer_of_another_path_is_an_error(
    kind: str, name: str, paths: Mapping[str, str], options: HttpOptions
) -> None:
    strict = replace(options, needs_core=True)
    with (
        FakeApiServer(elsewhere(respond(RELEASES[name]), paths)) as server,
        fetching(kind, server.url, strict) as transport,
        pytest.raises(UnexpectedDocument),
    ):
        transport.fetch()


def test_group_without_a_name_is_an_error(kind: str) -> None:
    nameless = aggregated({"versions": [{"version": "v1"}]})
    with (
        FakeApiServer(lambda r: nameless if r.path == "/apis" else NEW(r)) as server,
        fetching(kind, server.url) as transport,
        pytest.raises(UnexpectedDocument, match="is of the core group"),
    ):
        transport.fetch()


def test_resources_of_another_group_version_are_not_taken(kind: str) -> None:
    confused = elsewhere(OLD, {"/apis/apps/v1": "/apis/batch/v1"})
    with FakeApiServer(confused) as server, fetching(kind, server.url) as transport:
        snapshot = transport.fetch().snapshot
    apps = snapshot.version(GroupVersion("apps", "v1"))
    assert apps
    assert apps.resources == ()
    assert isinstance(apps.freshness, Unknown)
    assert "'batch/v1', not of apps/v1" in apps.freshness.reason


# Not modified, but what?


def not_modified(inner: Respond, etag: Callable[[Request], str]) -> Respond:
    """Return what says of everything that is known that it has not changed."""

    def answer(request: Request) -> Answer:
        if "if-none-match" in request.headers:
            return Answer(b"", None, 304, {"ETag": etag(request)})
        return inner(request)

    return answer


def test_304_for_another_document_confirms_nothing(kind: str) -> None:
    """RFC 9111 section 4.3.4: it is about the document that it names."""
    with FakeApiServer(NEW) as server, fetching(kind, server.url) as transport:
        held = transport.fetch()
        changed = aggregated({"metadata": {"name": "other"}, "versions": [{"version": "v1"}]})
        server.answers = not_modified(
            lambda r: changed if r.path == "/apis" else NEW(r), lambda _: '"another"'
        )
        server.requests.clear()
        again = transport.fetch(held)
    assert [group.name for group in again.snapshot.groups] == ["", "other"]
    assert len(server.requests) == 4


@pytest.mark.parametrize("prefix", ["", "W/"])
def test_304_for_the_same_document_confirms_it_also_weakly(kind: str, prefix: str) -> None:
    with FakeApiServer(NEW) as server, fetching(kind, server.url) as transport:
        held = transport.fetch()
        server.answers = not_modified(NEW, lambda r: f"{prefix}{r.headers['if-none-match']}")
        assert transport.fetch(held).snapshot.groups is held.snapshot.groups


@pytest.mark.parametrize("etag", ["*", '"a", "b"', '"a","b"', 'W/"a', "a b"])
def test_what_is_no_etag_is_not_asked_with(kind: str, etag: str) -> None:
    """A star would confirm whatever there is, and a list each of several."""

    def answer(request: Request) -> Answer:
        return replace(NEW(request), headers={"ETag": etag})

    with FakeApiServer(answer) as server, fetching(kind, server.url) as transport:
        held = transport.fetch(transport.fetch())
    assert not any("if-none-match" in request.headers for request in server.requests)
    assert held.etags == {}


@pytest.mark.parametrize("key", ["kind", "apiVersion", "items"])
@pytest.mark.parametrize("value", [None, "", "List", "v1", [], {}, 0])
def test_no_change_to_a_document_makes_it_an_empty_one(kind: str, key: str, value: object) -> None:
    document = {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": [{"metadata": {"name": "apps"}, "versions": [{"version": "v1"}]}],
    } | {key: value}
    if (key, value) in (("items", None), ("items", [])):
        pytest.skip("that is how an empty one is written")
    changed = Answer(json.dumps(document).encode(), aggregated_type())
    with (
        FakeApiServer(lambda r: changed if r.path == "/apis" else NEW(r)) as server,
        fetching(kind, server.url) as transport,
        pytest.raises(DiscoveryError),
    ):
        transport.fetch()
