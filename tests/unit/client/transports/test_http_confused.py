"""Answers of another path, group-version or document are not taken for the wanted one."""

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from apidiscovery_client._errors import UnexpectedDocument
from apidiscovery_client._http.flow import DEFAULT_OPTIONS, HttpOptions
from apidiscovery_client._reading import read_document
from apidiscovery_client._reading.parsed import UnreadableError
from apidiscovery_client.model import GroupVersion, Unknown
from fake_api_server import Answer, FakeApiServer, Request, Respond, aggregated
from fetching import Fetcher, fetching
from media_types import aggregated_type
from skewed_answers import RELEASES, respond

NEW, OLD = respond(RELEASES["1.33"]), respond(RELEASES["1.15"])


@contextmanager
def asking(
    answer: Respond, options: HttpOptions = DEFAULT_OPTIONS
) -> Generator[tuple[FakeApiServer, Fetcher]]:
    """Give a server and the blocking transport; the other one judges answers by the same code."""
    with FakeApiServer(answer) as server, fetching("blocking", server.url, options) as transport:
        yield server, transport


def elsewhere(inner: Respond, paths: Mapping[str, str]) -> Respond:
    """Return what answers some paths as it does others."""
    return lambda request: inner(replace(request, path=paths.get(request.path, request.path)))


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param({"/api": "/apis", "/apis": "/api"}, id="swapped"),
        pytest.param({"/apis": "/api"}, id="core for all"),
        pytest.param({"/api": "/apis"}, id="named for all"),
    ],
)
@pytest.mark.parametrize("name", ["1.15", "1.33"])
def test_answer_of_another_path_is_an_error(name: str, paths: Mapping[str, str]) -> None:
    answer = elsewhere(respond(RELEASES[name]), paths)
    with (
        asking(answer, HttpOptions(needs_core=True)) as (_, transport),
        pytest.raises(UnexpectedDocument),
    ):
        transport.fetch()


def test_group_without_a_name_is_an_error() -> None:
    nameless = aggregated({"versions": [{"version": "v1"}]})
    with (
        asking(lambda r: nameless if r.path == "/apis" else NEW(r)) as (_, transport),
        pytest.raises(UnexpectedDocument, match="is of the core group"),
    ):
        transport.fetch()


def test_resources_of_another_group_version_are_not_taken() -> None:
    with asking(elsewhere(OLD, {"/apis/apps/v1": "/apis/batch/v1"})) as (_, transport):
        snapshot = transport.fetch().snapshot
    apps = snapshot.version(GroupVersion("apps", "v1"))
    assert apps
    assert apps.resources == ()
    assert isinstance(apps.freshness, Unknown)
    assert "'batch/v1', not of apps/v1" in apps.freshness.reason


# 304.


def not_modified(inner: Respond, etag: Callable[[Request], str]) -> Respond:
    """Return what says of everything that is known that it has not changed."""

    def answer(request: Request) -> Answer:
        if "if-none-match" in request.headers:
            return Answer(b"", None, 304, {"ETag": etag(request)})
        return inner(request)

    return answer


def test_304_for_another_document_confirms_nothing() -> None:
    """RFC 9111 section 4.3.4: it is about the document that it names."""
    with asking(NEW) as (server, transport):
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
def test_304_for_the_same_document_confirms_it_also_weakly(prefix: str) -> None:
    with asking(NEW) as (server, transport):
        held = transport.fetch()
        server.answers = not_modified(NEW, lambda r: f"{prefix}{r.headers['if-none-match']}")
        assert transport.fetch(held).snapshot.groups is held.snapshot.groups


@pytest.mark.parametrize("etag", ["*", '"a", "b"', '"a","b"', 'W/"a', "a b"])
def test_an_invalid_etag_is_not_sent(etag: str) -> None:
    """A star would confirm whatever there is, and a list each of several."""

    def answer(request: Request) -> Answer:
        return replace(NEW(request), headers={"ETag": etag})

    with asking(answer) as (server, transport):
        held = transport.fetch(transport.fetch())
    assert not any("if-none-match" in request.headers for request in server.requests)
    assert held.etags == {}


VALUES: list[object] = [None, "", "List", "v1", [], {}, 0]
EMPTY_ITEMS: list[tuple[str, object]] = [("items", None), ("items", [])]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (key, value)
        for key in ("kind", "apiVersion", "items")
        for value in VALUES
        if (key, value) not in EMPTY_ITEMS
    ],
)
def test_no_change_to_a_document_makes_it_an_empty_one(key: str, value: object) -> None:
    served = aggregated({"metadata": {"name": "apps"}, "versions": [{"version": "v1"}]})
    changed = json.dumps(json.loads(served.body) | {key: value}).encode()
    with pytest.raises(UnreadableError):
        read_document("/apis", aggregated_type(), changed, datetime.now(UTC))
