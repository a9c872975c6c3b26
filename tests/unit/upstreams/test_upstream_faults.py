"""Servers that misbehave: the last state stays, no other server waits, the error has the reason."""

import asyncio
import gzip
import itertools
import json
import socket
import time
from dataclasses import replace
from typing import Any

import pytest
from apidiscovery_service.core.model import Freshness, Version
from apidiscovery_service.sources.upstreams.failure import Reason
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamLimits
from apidiscovery_service.store.memory import MemoryStore
from fake_api_server import DOWN, Answer, FakeApiServer, Request, aggregated, conditional
from media_types import JSON_V2
from upstream_setup import Ask, item, mirrored, running, spec_of
from waiting import until

_SMALL = UpstreamLimits(exchange_s=30.0, body_bytes=100_000)
_GOOD = aggregated(item("a.test"), etag='"A"')
_PBAGG = JSON_V2.replace("json", "vnd.kubernetes.protobuf")
_BOMB = gzip.compress(b" " * 10_000_000)
_NESTED = b'{"items":[],"x":' + b'{"a":[' * 10_000
_GZIP = {"Content-Encoding": "gzip"}

_FAULTS = {
    "hangs before the head": (Answer(stalls=True), Reason.TIMEOUT),
    "hangs after the head": (Answer(b"x" * 100, JSON_V2, stalls_after=0), Reason.TIMEOUT),
    "hangs inside the body": (Answer(_GOOD.body, JSON_V2, stalls_after=20), Reason.TIMEOUT),
    "closes before the head": (Answer(raw=b""), Reason.UNREACHABLE),
    "closes inside the head": (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-"), Reason.UNREACHABLE),
    "closes inside the body": (Answer(_GOOD.body, JSON_V2, length=10_000), Reason.UNREACHABLE),
    "is no HTTP": (Answer(raw=b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), Reason.UNREACHABLE),
    "has an endless head": (
        Answer(raw=b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500_000),
        Reason.UNREACHABLE,
    ),
    "401": (Answer(b"{}", status=401), Reason.STATUS),
    "404": (Answer(b"{}", status=404), Reason.STATUS),
    "406": (Answer(b"{}", status=406), Reason.STATUS),
    "500": (Answer(b"{}", status=500), Reason.STATUS),
    "503": (DOWN, Reason.STATUS),
    "200 as HTML": (Answer(b"<html>sign in</html>", "text/html"), Reason.CONTENT_TYPE),
    "200 without a type": (Answer(_GOOD.body, ""), Reason.CONTENT_TYPE),
    "aggregated protobuf": (Answer(b"k8s\0\x0a\x02", _PBAGG), Reason.CONTENT_TYPE),
    "protobuf called JSON": (Answer(b"k8s\0\x0a\xff\xfe", JSON_V2), Reason.MALFORMED),
    "protobuf called plain JSON": (Answer(b"k8s\0\x0a\xff\xfe"), Reason.MALFORMED),
    "an empty body": (Answer(b"", JSON_V2), Reason.MALFORMED),
    "cut JSON": (Answer(_GOOD.body[:-5], JSON_V2), Reason.MALFORMED),
    "a Status": (Answer(b'{"kind":"Status","status":"Failure"}', JSON_V2), Reason.MALFORMED),
    "a plain Status": (Answer(b'{"kind":"Status","status":"Failure"}'), Reason.MALFORMED),
    "too large": (Answer(b" " * 100_001, JSON_V2), Reason.TOO_LARGE),
    "a gzip bomb": (Answer(_BOMB, JSON_V2, headers=_GZIP), Reason.TOO_LARGE),
    "gzip in many members": (
        Answer(gzip.compress(b"") * 4097, JSON_V2, headers=_GZIP),
        Reason.TOO_LARGE,
    ),
    "cut gzip": (Answer(gzip.compress(_GOOD.body)[:-9], JSON_V2, headers=_GZIP), Reason.MALFORMED),
    "gzip that is none": (Answer(_GOOD.body, JSON_V2, headers=_GZIP), Reason.MALFORMED),
    "another coding": (
        Answer(_GOOD.body, JSON_V2, headers={"Content-Encoding": "br"}),
        Reason.CONTENT_TYPE,
    ),
    "deep nesting": (Answer(_NESTED, JSON_V2), Reason.MALFORMED),
}


@pytest.mark.parametrize(("fault", "reason"), _FAULTS.values(), ids=_FAULTS)
async def test_a_fault_keeps_the_last_state_and_ends_with_a_good_answer(
    ask: Ask, fault: Answer, reason: Reason
) -> None:
    limits = replace(_SMALL, exchange_s=2.0) if reason is Reason.TIMEOUT else _SMALL
    async with FakeApiServer(conditional(_GOOD)) as server:
        one = ask(spec_of(server.url, limits=limits))
        well = await one.round()
        server.answers = fault
        failed = await one.round()
        service = spec_of(server.url, limits=limits, kind=UpstreamKind.SERVICE)
        new = await ask(service, frozenset({("a.test", "v1")})).round()
        # Connections that are in an odd state are not used again.
        server.answers = conditional(_GOOD)
        again = await one.round()
    assert (failed.state, failed.reason) == (Freshness.STALE, reason), failed.error
    assert failed.groups == well.groups
    assert failed.error.startswith("GET /apis: ")
    assert len(failed.error) < 400
    assert failed.error.isprintable()
    assert (again.state, again.groups, again.error) == (Freshness.CURRENT, well.groups, "")
    # A service that fails from the start has no resources.
    assert new.error
    assert {v for group in new.groups for v in group.versions} <= {Version("v1", (), "Stale")}
    assert new.groups or not new.is_current


async def test_redirects_are_never_followed(ask: Ask) -> None:
    async with FakeApiServer({"/apis": _GOOD}) as other:
        elsewhere = other.url
        redirect = Answer(b"", "", 308, {"Location": f"{elsewhere}/apis"})
        async with FakeApiServer(redirect) as server:
            root = await ask(spec_of(server.url)).round()
    assert (other.requests, root.groups) == ([], ())
    assert f"got status 308 to {elsewhere}/apis, which is not followed" in root.error


@pytest.mark.parametrize("kind", [UpstreamKind.SERVER, UpstreamKind.SERVICE])
async def test_304_without_a_cached_document_is_an_error(ask: Ask, kind: UpstreamKind) -> None:
    async with FakeApiServer(Answer(status=304)) as server:
        root = await ask(spec_of(server.url, kind=kind)).round()
    assert (root.state, root.reason) == (Freshness.STALE, Reason.NOT_CACHED)
    assert root.groups == ()


async def test_the_first_of_two_equal_names_counts_with_a_warning(ask: Ask) -> None:
    twice = aggregated(item("a.test"), item("a.test", "v2"), item("b.test", "v1", "v1"))
    async with FakeApiServer({"/apis": twice}) as server:
        root = await ask(spec_of(server.url)).round()
    assert root.is_current
    assert [[v.version for v in g.versions] for g in root.groups] == [["v1"], ["v1"]]
    assert root.warnings == (
        "group 'a.test' is listed twice; the first counts",
        "version 'v1' of 'b.test' is listed twice; the first counts",
    )


# --------------------------------------------------------------------------------------------------
# Size, and waiting of other servers.


async def test_20_000_groups_block_neither_the_event_loop_nor_other_servers(ask: Ask) -> None:
    many = aggregated(*(item(f"g{number}.example.com") for number in range(20_000)))
    async with FakeApiServer(many) as server, FakeApiServer({"/apis": _GOOD}) as other:
        limits = UpstreamLimits(exchange_s=30.0)
        large = asyncio.create_task(ask(spec_of(server.url, limits=limits)).round())
        good = ask(spec_of(other.url, limits=limits))
        rounds = 0
        while not large.done():
            assert (await good.round()).is_current
            rounds += 1
            await asyncio.sleep(0.01)
        root = await large
    assert rounds > 3
    assert (root.reason, root.groups) == (Reason.TOO_LARGE, ())
    assert f"more than {UpstreamLimits().group_versions} group-versions" in root.error


async def test_a_slow_or_hostile_server_delays_no_other() -> None:
    hostile = [
        Answer(stalls=True),
        Answer(_BOMB, JSON_V2, headers=_GZIP),
        Answer(_NESTED, JSON_V2),
        Answer(json.dumps({"items": ["x" * 1000] * 4_000}).encode(), JSON_V2),
    ]
    answers = iter(range(10**9))

    def answer(_: Request) -> Answer:
        return hostile[next(answers) % len(hostile)]

    polls: list[float] = []

    def good(_: Request) -> Answer:
        polls.append(time.monotonic())
        return _GOOD

    async with FakeApiServer(answer) as bad, FakeApiServer(good) as well:
        specs = [
            spec_of(bad.url, f"bad{i}", limits=UpstreamLimits(exchange_s=0.3, body_bytes=8_000_000))
            for i in range(8)
        ]
        async with running(MemoryStore(), spec_of(well.url), *specs) as run:
            await until(lambda: run.freshness("a.test") == "Current", "the good one is read")
            await until(lambda: len(polls) >= 12, "the good one is polled")
            await until(lambda: len(bad.requests) >= 24, "all of the bad ones are polled")
            assert run.state() == "Current"
            states = {run.state(f"upstream:bad{i}") for i in range(8)}
    assert states <= {"Stale", "Pending"}
    # The two longest pauses may be other processes'.
    assert sorted(b - a for a, b in itertools.pairwise(polls))[-3] < 2.0


async def test_flapping_never_loses_a_group() -> None:
    number = iter(range(10**9))

    def answer(seen: Request) -> Answer:
        return conditional(_GOOD)(seen) if next(number) % 3 == 0 else DOWN

    async with mirrored(MemoryStore(), answer) as (_, run):
        await until(lambda: run.freshness("a.test"), "it is there")
        seen: list[str] = []
        run.registry.subscribe(lambda _: seen.append(run.freshness("a.test")))
        await until(lambda: len(seen) >= 6, "it flaps")
    assert set(seen) == {"Current", "Stale"}


async def test_a_new_address_is_found_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old address keeps its connection and fails; the name has another address now."""
    real, addresses = socket.getaddrinfo, ["127.0.0.1"]

    def lookup(host: object, *args: Any, **named: Any) -> object:  # noqa: ANN401 - passed on
        is_ours = host in ("upstream.test", b"upstream.test")
        return real(addresses[0] if is_ours else host, *args, **named)  # type: ignore[arg-type] # as above

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    async with FakeApiServer({"/apis": _GOOD}) as old:
        spec = spec_of(f"http://upstream.test:{old.port}")
        new = FakeApiServer({"/apis": aggregated(item("b.test"))}, None, old.port, "127.0.0.2")
        async with running(MemoryStore(), spec) as run, new:
            await until(lambda: run.freshness("a.test") == "Current", "the old one is read")
            addresses[0] = "127.0.0.2"
            old.answers = {"/apis": DOWN}
            old.requests.clear()
            await until(lambda: run.freshness("b.test") == "Current", "the new one is read")
            # Two polls, and the questions which versions it serves, which had begun.
            assert old.paths.count("/apis") <= 4
