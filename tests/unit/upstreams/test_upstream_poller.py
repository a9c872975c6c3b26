"""Records of pollers: written when something changes, read at the start, guarded by the claim."""

import asyncio
import base64
import os
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from apidiscovery_service.core.model import Freshness, Group, GroupVersionKind, Resource, Version
from apidiscovery_service.metrics import Metrics
from apidiscovery_service.sources.upstreams.poller import Poller
from apidiscovery_service.sources.upstreams.record_store import (
    BadRecord,
    RecordFollower,
    RecordWriter,
)
from apidiscovery_service.sources.upstreams.spec import (
    Timing,
    UpstreamLimits,
    UpstreamSpec,
    VersionFilter,
)
from apidiscovery_service.sources.upstreams.state import KNOWN_RECORDS, Known, Root
from apidiscovery_service.store import (
    MAX_VALUE_BYTES,
    Entry,
    Fenced,
    Guard,
    Store,
    StoreUnavailable,
)
from apidiscovery_service.store.memory import MemoryStore
from fake_api_server import DOWN, Answer, FakeApiServer, aggregated, conditional
from groups import GROUPS
from hypothesis import given, settings
from upstream_setup import item, spec_of
from waiting import until

_ROOT = Root("/apis", core=False, state=Freshness.CURRENT, since="2026-01-02T03:04:05Z", etag='"A"')

_SEALED, _ = KNOWN_RECORDS.seal(Known(1, (_ROOT,)))


@asynccontextmanager
async def polling(
    store: Store, spec: UpstreamSpec, metrics: Metrics | None = None
) -> AsyncGenerator[asyncio.Task[None]]:
    """Poll while holding a claim."""
    claim = await store.put("claims/upstreams/x", b"")
    poller = Poller(spec, store, metrics or Metrics())
    task = asyncio.create_task(poller.work(Guard(claim.key, claim.created)))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, Fenced):
            await task
        await store.delete(claim.key)


async def kept(store: Store, spec: UpstreamSpec) -> Known | None:
    entry = await store.get(KNOWN_RECORDS.key(spec.id))
    return await KNOWN_RECORDS.read(store, entry) if entry else None


async def _state(store: Store, spec: UpstreamSpec) -> str:
    known = await kept(store, spec)
    return str(known.roots[-1].state) if known else ""


async def _until_state(store: Store, spec: UpstreamSpec, state: str) -> Root:
    async def is_so() -> bool:
        return await _state(store, spec) == state

    await until(is_so, f"it is {state}")
    known = await kept(store, spec)
    assert known
    return known.roots[-1]


# --------------------------------------------------------------------------------------------------
# The record.


@given(GROUPS)
@settings(max_examples=25)
def test_a_record_is_read_as_it_was_written(group: Group) -> None:
    versions = {version.version: _with_kinds(version) for version in group.versions}
    groups = (Group(group.name, tuple(versions.values())),) if versions else ()
    failures = (("a/v1", "GET /apis/a/v1: got status 500"),)
    roots = (replace(_ROOT, groups=groups, failures=failures), Root("/api", core=True))
    value, _ = KNOWN_RECORDS.seal(Known(12, roots))
    assert asyncio.run(_read(value)) == Known(12, roots)


async def _read(value: bytes) -> Known:
    """Return the content of a record without parts."""
    return await KNOWN_RECORDS.read(MemoryStore(), Entry("upstreams/x", value, 1, 1))


def _with_kinds(version: Version) -> Version:
    none = GroupVersionKind("", "", "")
    resources = tuple(
        replace(
            r,
            response_kind=r.response_kind or none,
            subresources=tuple(
                replace(s, response_kind=s.response_kind or none) for s in r.subresources
            ),
        )
        for r in version.resources
    )
    return replace(version, resources=resources)


def _large() -> Known:
    """Return content that does not fit into one value of the store."""
    none = GroupVersionKind("", "", "")
    resources = tuple(
        Resource(os.urandom(50_000).hex(), none, "Cluster", "", None, storage_version_hash="x" * 12)
        for _ in range(60)
    )
    return Known(1, (replace(_ROOT, groups=(Group("a.test", (Version("v1", resources),)),)),))


async def test_a_large_record_is_cut_and_read_whole() -> None:
    store, large = MemoryStore(), _large()
    claim = await store.put("claims/x", b"")
    guard = Guard(claim.key, claim.created)
    writer = RecordWriter(KNOWN_RECORDS, store, "x", guard)
    await writer.save(large)
    entries = (await store.list("upstreams/x")).entries
    assert len(entries) > 2
    assert all(len(entry.value) <= MAX_VALUE_BYTES for entry in entries)
    # Parts are there before the record that names them.
    last = max(entries, key=lambda entry: entry.revision)
    assert last.key == "upstreams/x"
    assert await KNOWN_RECORDS.read(store, last) == large
    successor = RecordWriter(KNOWN_RECORDS, store, "x", guard)
    assert await successor.load() == large
    await successor.save(Known(1, (_ROOT,)))
    assert [e.key for e in (await store.list("upstreams/x")).entries] == ["upstreams/x"]


class _Interrupted(MemoryStore):
    """Fails to read the parts of records while `fails` is set."""

    fails = False

    async def get(self, key: str) -> Entry | None:
        if self.fails:
            raise StoreUnavailable("the store does not answer")
        return await super().get(key)


async def test_records_that_were_read_before_a_failure_are_reported() -> None:
    store = _Interrupted()
    claim = await store.put("claims/x", b"")
    guard = Guard(claim.key, claim.created)
    for name, known in (("a", Known(1, (_ROOT,))), ("b", _large())):
        await RecordWriter(KNOWN_RECORDS, store, name, guard).save(known)
    KNOWN_RECORDS.written.clear()  # as in another process
    reported: list[str] = []

    def changed(before: Mapping[str, Known | None], *, is_news: bool) -> None:
        assert not is_news
        reported.extend(before)

    follower = RecordFollower(KNOWN_RECORDS, store, changed)
    store.fails = True
    with pytest.raises(StoreUnavailable):
        await follower.load()
    store.fails = False
    await follower.load()
    assert reported == ["a", "b"]


async def test_a_record_without_one_of_its_parts_is_bad() -> None:
    with pytest.raises(BadRecord, match="is missing"):
        await _read(KNOWN_RECORDS.seal(_large())[0])


# Written by release 0.1.0.
_OLD_RECORD = (
    "eyJmb3JtYXQiOjIsInNoYTI1NiI6IjNlM2VhMTA4ZTEyODVhZDNkMzA5OTBkZWIwNGQzMWMwMzVhN2E3YmE0NDNj"
    "YTkxZDczOWUzOGZmZGViOTQzYjUifQootS/9YNgBlQwAhhZEJCBxmwPpBLKSvNGmXrUvsz1pk8NAz39VuBZPI8gc"
    "KiUA8AgMAjQAPgA5AHdObLIVRk7djbt6dQY+vro62RBn187mK4222XUjc/UH5ePsGJ3QpQg7d4x7ZcD+vHSYSwEW"
    "UWdDOG1GoQ2FEk6VRZFEBVJBsNjAYgIrYlkOyHIULGtpqLtRAqupRdidNj+ngQ9ualw13ch5KblSdlLCAu5pnF1i"
    "NooMmZxdgvHx6uRq+pPwEnt2umx9Lj3a7xLA1Kb2OxffvhaBwiIUFq6+TB7N2gH5iAXCA1Ob2tT4wawQg3UlV236"
    "AXORnAwT2uTG5qv2iz9sOlEDHzMJsT7pAEWGKZ5xdSiK2zj4GpRhhFi3tQkzIBAchKC9AdYJUJVgkRw82wDxdsFO"
    "waXPJAhJEcf6Yu4ol3bR0XK3Ba6Gx4IgbDDb6JFIYYYL1lXrtPZNwc/0a2LgOlcLgGwR2jLvgjKcBlwOMtEgwiG5"
    "ENEJ1KxKi1sCu50wbNJYJAQSGSAV9wEnRYnKa0Nh5MMoxjAxgTsD"
)


async def test_a_record_of_an_older_release_is_read() -> None:
    """Releases share a store while replicas are replaced one by one."""
    kind = GroupVersionKind("", "", "Widget")
    widgets = Resource(
        "widgets", kind, "Namespaced", "widget", ("get",), storage_version_hash="abc="
    )
    version = Version("v1", (widgets,), "Current", ("widgets/status", "widgets"))
    named = replace(
        _ROOT,
        old=True,
        groups=(Group("a.test", (version,)),),
        failures=(("a.test/v2", "GET: 500"),),
        warnings=("odd",),
        listed=("a.test",),
        error="1 of 2 failed",
        reason="UnexpectedStatus",
        etag="",  # so that the next poll reads what the record does not tell
    )
    known = await _read(base64.b64decode(_OLD_RECORD))
    assert known == Known(7, (Root("/api", core=True), named))


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff" * 100,
        b"[]\n" + _SEALED,
        b'{"format":2,"sha256":""}\n',
        _SEALED[:-1],
        _SEALED[:-4] + b"XXXX",
        _SEALED.split(b"\n")[0] + b"\n",
    ],
)
async def test_a_damaged_or_newer_record_is_bad(value: bytes) -> None:
    with pytest.raises(BadRecord):
        await _read(value)


# --------------------------------------------------------------------------------------------------
# Polling.


async def test_a_record_is_written_only_when_something_changed() -> None:
    store = MemoryStore()
    async with FakeApiServer(conditional(aggregated(item("a.test"), etag='"A"'))) as server:
        spec = spec_of(server.url)
        async with polling(store, spec):
            await until(lambda: len(server.requests) >= 2, "polls")
            before = await store.get(KNOWN_RECORDS.key(spec.id))
            await until(lambda: len(server.requests) >= 6, "more polls")
            after = await store.get(KNOWN_RECORDS.key(spec.id))
    assert before is not None
    assert before == after


async def test_failure_and_recovery_are_recorded_with_time_and_error() -> None:
    store, metrics = MemoryStore(), Metrics()
    reply = aggregated(item("a.test"), etag='"A"')
    async with FakeApiServer(conditional(reply)) as server:
        spec = spec_of(server.url)
        async with polling(store, spec, metrics):
            well = await _until_state(store, spec, "Current")
            server.answers = {"/apis": DOWN}
            failed = await _until_state(store, spec, "Stale")
            server.answers = conditional(reply)
            again = await _until_state(store, spec, "Current")
    assert failed.groups == well.groups == again.groups
    assert failed.error == "GET /apis: got status 503, want 200 or 304"
    assert failed.since.endswith("Z")
    assert again.error == ""
    text = metrics.text().decode()
    assert 'apidiscovery_upstream_polls_total{result="UnexpectedStatus",upstream="east"}' in text
    assert 'apidiscovery_upstream_polls_total{result="Success",upstream="east"}' in text
    assert 'apidiscovery_upstream_seconds_since_success{upstream="east"}' in text
    assert 'apidiscovery_upstream_received_bytes_total{upstream="east"}' in text


async def test_pauses_grow_with_failures() -> None:
    store, timing = MemoryStore(), Timing(poll_s=9.0, first_retry_s=0.01, last_retry_s=0.2)
    times: list[float] = []

    def answer(_: object) -> Answer:
        times.append(asyncio.get_running_loop().time())
        return DOWN

    async with (
        FakeApiServer(answer) as server,
        polling(store, spec_of(server.url, timing=timing)),
    ):
        await until(lambda: len(times) >= 12, "retries")
    pauses = [b - a for a, b in pairwise(times)]
    # A busy machine makes some longer, and none shorter.
    assert min(pauses[:3]) < 0.15
    assert min(pauses[-5:]) > 0.17
    assert min(pauses[-3:]) < 2.0  # the last of them would be more than 2.5, 5 and 10 s


async def test_a_poller_without_its_claim_writes_nothing() -> None:
    store = MemoryStore()
    async with FakeApiServer(conditional(aggregated(item("a.test"), etag='"A"'))) as server:
        spec = spec_of(server.url)
        async with polling(store, spec) as task:
            await _until_state(store, spec, "Current")
            await store.delete("claims/upstreams/x")
            before = await store.get(KNOWN_RECORDS.key(spec.id))
            server.answers = {"/apis": aggregated(item("b.test"))}
            with pytest.raises(Fenced):
                await task
            assert await store.get(KNOWN_RECORDS.key(spec.id)) == before


async def test_a_damaged_record_is_replaced() -> None:
    store = MemoryStore()
    async with FakeApiServer({"/apis": aggregated(item("a.test"))}) as server:
        spec = spec_of(server.url)
        await store.put(KNOWN_RECORDS.key(spec.id), b'{"format":99}\n')
        async with polling(store, spec):

            async def is_replaced() -> bool:
                entry = await store.get(KNOWN_RECORDS.key(spec.id))
                return entry is not None and b'"format":99' not in entry.value

            await until(is_replaced, "the record is replaced")
            assert (await _until_state(store, spec, "Current")).groups


async def test_another_configuration_has_another_record() -> None:
    base = spec_of("https://one.test")
    same = spec_of("https://one.test", limits=UpstreamLimits(), timing=Timing())
    others = [
        spec_of("https://two.test"),
        spec_of("https://one.test", "west"),
        spec_of("https://one.test", filter=VersionFilter(deny=("a",))),
        spec_of("https://one.test", filter=VersionFilter(allow=("a",))),
        spec_of("https://one.test", core_paths=("/api",)),
        spec_of("https://one.test", named_paths=("/apis", "/more")),
        spec_of("https://one.test", trust="insecure"),
    ]
    assert base.id == same.id
    assert len({base.id, *(other.id for other in others)}) == 1 + len(others)
    assert "/" not in spec_of("https://x", "ns/name:443").id
