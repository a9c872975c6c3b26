"""The lists that are served of an upstream are its own, to the byte."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest
from apidiscovery_formats.negotiation import JSON, Representation
from apidiscovery_service.core.model import Version
from apidiscovery_service.encoding import APIGroupList, APIResourceList, EncodedSnapshot, Target
from apidiscovery_service.sources.upstreams import list_details, list_reader
from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.discovery_answers import read_resource_list
from apidiscovery_service.sources.upstreams.list_details import EVERYTHING_WITHIN_ROUNDS
from apidiscovery_service.store.memory import MemoryStore
from fake_api_server import DOWN, NOT_FOUND, Answer, FakeApiServer, Request, aggregated, document
from media_types import JSON_V2
from repository import GOLDEN
from upstream_setup import Running, item, mirrored, resource_list, running, spec_of
from waiting import until

_GOLDEN = GOLDEN / "upstream-lists"
_LISTS: Mapping[Target, str] = {
    APIGroupList(): "apis.json",
    APIResourceList("", "v1"): "api__v1.json",
    APIResourceList("apps", "v1"): "apis__apps__v1.json",
    APIResourceList("monitoring.coreos.com", "v1"): "apis__monitoring.coreos.com__v1.json",
}
_REPRESENTATION = Representation(JSON)


def _recorded(seen: Request) -> Answer:
    """Answer as the recorded server did, as far as that was recorded."""
    name = seen.path.strip("/").replace("/", "__")
    suffix = "json" if seen.is_plain else "v2.json"
    file = _GOLDEN / f"{name}.{suffix}"
    kind = "application/json" if seen.is_plain else JSON_V2
    return Answer(file.read_bytes(), kind) if file.exists() else NOT_FOUND


async def _body(run: Running, target: Target) -> bytes:
    encoded = EncodedSnapshot(run.registry.snapshot)
    if not encoded.serves(target):
        return b""
    return await encoded.body(target, _REPRESENTATION)


def _is(run: Running, target: Target, name: str) -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await _body(run, target) == (_GOLDEN / name).read_bytes()

    return look


async def test_lists_are_the_upstreams_to_the_byte() -> None:
    async with mirrored(MemoryStore(), _recorded, core_paths=("/api",)) as (_, run):
        for target, name in _LISTS.items():
            await until(_is(run, target, name), f"{name} is the same")


async def test_details_of_lists_survive_the_upstream_and_a_restart() -> None:
    store, target = MemoryStore(), APIResourceList("monitoring.coreos.com", "v1")
    name = _LISTS[target]
    async with FakeApiServer(_recorded) as server:
        spec = spec_of(server.url)
        async with running(store, spec) as run:
            await until(_is(run, target, name), "it is the same")
        server.answers = DOWN
        async with running(store, spec_of(server.url)) as run:
            await until(lambda: run.freshness("apps") == "Stale", "what is kept is served")
            assert await _body(run, target) == (_GOLDEN / name).read_bytes()
            assert await _body(run, APIGroupList()) == (_GOLDEN / "apis.json").read_bytes()


def _with_hash(text: str) -> Answer:
    listed = resource_list("a.test/v1", "widgets")
    listed["resources"][0]["storageVersionHash"] = text  # type: ignore[index] # it is a list
    return document(listed)


def _hash(run: Running) -> str:
    version = run.version("a.test")
    return version.resources[0].storage_version_hash if version and version.resources else ""


async def test_a_storage_version_that_changes_alone_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_details, "EVERYTHING_TAKES_S", 0)
    answers = {"/apis": aggregated(item("a.test")), "/apis/a.test/v1": _with_hash("one")}
    async with mirrored(MemoryStore(), answers) as (server, run):
        await until(lambda: _hash(run) == "one", "the hash is there")
        asked = server.paths.count("/apis/a.test/v1")
        polls = server.paths.count("/apis")
        server.answers = {**answers, "/apis/a.test/v1": _with_hash("two")}
        await until(lambda: _hash(run) == "two", "the other hash is there")
        more = server.paths.count("/apis/a.test/v1") - asked
        # Once in so many rounds: a server that does not change is hardly asked.
        assert more <= 1 + (server.paths.count("/apis") - polls) / EVERYTHING_WITHIN_ROUNDS


async def test_an_unchanged_list_is_requested_again_and_not_parsed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[str] = []

    def counted(version: str, body: Body) -> Version:
        read.append(version)
        return read_resource_list(version, body)

    monkeypatch.setattr(list_reader, "read_resource_list", counted)
    monkeypatch.setattr(list_details, "EVERYTHING_TAKES_S", 0)
    answers = {"/apis": aggregated(item("a.test")), "/apis/a.test/v1": _with_hash("one")}
    async with mirrored(MemoryStore(), answers) as (server, run):
        await until(lambda: server.paths.count("/apis/a.test/v1") >= 3, "it is asked for again")
        assert read == ["v1"]
        assert _hash(run) == "one"


async def test_a_server_without_lists_is_left_alone_and_is_current() -> None:
    groups = [item(f"g{number:02}.test") for number in range(40)]
    answers = {"/apis": replace(aggregated(*groups), headers={"ETag": '"A"'})}
    async with mirrored(MemoryStore(), answers) as (server, run):
        await until(lambda: server.paths.count("/apis") >= 6, "some rounds")
        lists = [path for path in server.paths if path.startswith("/apis/")]
        # Those that were under way when the third had failed are not taken back.
        assert len(lists) <= server.paths.count("/apis") * (
            2 + spec_of("http://x").limits.concurrent
        )
        assert (run.state(), run.error()) == ("Current", "")


@pytest.mark.parametrize(
    ("upstreams", "rounds"), [(0, 10), (1, 10), (100, 10), (150, 15), (1000, 100)]
)
def test_lists_of_many_upstreams_are_requested_less_often(upstreams: int, rounds: int) -> None:
    assert list_details.rounds_for_all_lists(upstreams, poll_s=60) == rounds


@pytest.mark.parametrize(("poll_s", "rounds"), [(600, 10), (6, 10), (5, 12), (1, 60), (0.5, 120)])
def test_short_intervals_do_not_request_lists_more_often(poll_s: float, rounds: int) -> None:
    assert list_details.rounds_for_all_lists(1, poll_s) == rounds
