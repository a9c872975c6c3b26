"""One round: each path of an upstream is asked once, and what is known of it is brought up to date.

The answers are judged in the order of k8s.io/kube-aggregator
pkg/apiserver/handler_discovery.go:fetchFreshDiscoveryForService.
"""

import asyncio
import math
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

import structlog
from apidiscovery_formats.media_types import JSON

from apidiscovery_service.core.model import Freshness, Group
from apidiscovery_service.sources.upstreams import legacy
from apidiscovery_service.sources.upstreams.answers import (
    MAX_WARNINGS,
    Listed,
    Reading,
    read_aggregated,
    read_core_versions,
    read_group_list,
    read_noting,
)
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import AGGREGATED, Answer, Exchange
from apidiscovery_service.sources.upstreams.legacy import GroupVersion, Memory, VersionsFetch
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root
from apidiscovery_service.sources.upstreams.unaggregated import with_known_lists

_READYZ = "/readyz"
_SHOWN_FAILURES = 3
# The pause between two polls may be so much shorter than it is configured.
_ALMOST = 0.8

_log = structlog.get_logger(__name__)


def now_text() -> str:
    """Return the time in RFC 3339, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Rounds:
    """Asks one upstream again and again.

    Args:
        spec: The upstream.
        exchange: How it is asked.
        wanted: The group-versions of a service that have an APIService now.
    """

    def __init__(
        self, spec: UpstreamSpec, exchange: Exchange, wanted: Callable[[], frozenset[GroupVersion]]
    ) -> None:
        self._spec = spec
        self._exchange = exchange
        self._wanted = wanted
        self._memories = {path: Memory() for path, _ in spec.paths}
        # How often a path was said to have nothing any more, and when last.
        self._doubts: dict[str, tuple[int, float]] = {}

    async def round(self, known: Known) -> Known:
        """Ask every path once; one that fails does not keep the others from being asked."""
        roots = [
            self._doubted(before, now)
            for before, now in zip(
                known.roots,
                await asyncio.gather(*(self._root(root) for root in known.roots)),
                strict=True,
            )
        ]
        pairs = zip(known.roots, roots, strict=True)
        if all(now.state == Freshness.STALE for now in roots if not now.core):
            roots = [_unless_it_vanished(before, now) for before, now in pairs]
        return Known(known.claim, tuple(roots))

    async def _root(self, root: Root) -> Root:
        try:
            now = await self._ask(root)
            if self._spec.kind is not Kind.SERVICE and _has_lost(root, now):
                await self._see_that_it_is_ready()
        except UpstreamFailed as failure:
            now = _failed(root, failure)
        except Exception as error:  # noqa: BLE001 - one odd answer must not end the polling
            _log.exception("upstream cannot be asked", upstream=self._spec.name, path=root.path)
            text = f"GET {root.path}: {type(error).__name__}, see the log"
            now = _failed(root, UpstreamFailed(Reason.INTERNAL, text))
        is_same = (now.state, bool(now.failures)) == (root.state, bool(root.failures))
        return replace(now, since=root.since if is_same and root.since else now_text())

    async def _see_that_it_is_ready(self) -> None:
        """Ask a server that lists less than before whether it is ready.

        A kube-apiserver that starts answers before it knows its definitions, and 1.25 with nothing
        but its first group. Who has no such path, or does not show it, is believed.

        Raises:
            UpstreamFailed: It is not.
        """
        answer = await self._exchange.get(_READYZ, "*/*")
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            message = f"GET {_READYZ}: got status {answer.status}, and group-versions are missing"
            raise UpstreamFailed(Reason.NOT_READY, message)

    def _doubted(self, before: Root, now: Root) -> Root:
        """Believe that all groups are gone only when that is said several times, a poll apart.

        A server that has lost its storage, or another one at its address, says so, too.
        """
        of_declared = self._spec.kind is Kind.SERVICE and now.old
        if not now.is_current or now.groups or not before.groups or of_declared:
            self._doubts.pop(now.path, None)
            return now
        timing, time_now = self._spec.timing, time.monotonic()
        times, last = self._doubts.get(now.path, (0, -math.inf))
        if time_now - last >= timing.poll_s * _ALMOST:
            times, last = times + 1, time_now
        if times >= timing.empty_answers:
            self._doubts.pop(now.path, None)
            return now
        self._doubts[now.path] = (times, last)
        message = (
            f"GET {now.path}: answered without any group, where there were {len(before.groups)}; "
            f"believed when said {timing.empty_answers} times, this is time {times}"
        )
        doubted = _failed(before, UpstreamFailed(Reason.EMPTIED, message))
        return replace(doubted, since=now.since if before.is_current else before.since)

    async def _ask(self, root: Root) -> Root:
        etag = root.etag if not root.old or self._memories[root.path].listed else ""
        answer = await self._exchange.get(root.path, self._accept(root), etag=etag)
        if answer.status == HTTPStatus.NOT_MODIFIED:
            return await self._not_modified(root, etag)
        if answer.status == HTTPStatus.SERVICE_UNAVAILABLE:
            raise answer.wrong("200 or 304")
        if answer.status == HTTPStatus.OK and answer.is_aggregated:
            return await self._aggregated(root, answer)
        if answer.status == HTTPStatus.NOT_FOUND and root.core:
            return _current(root, ())
        if self._spec.kind is Kind.SERVICE:
            return await self._service(root)
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            answer = await self._exchange.get(root.path, JSON)
        return await self._listed(root, answer)

    def _accept(self, root: Root) -> str:
        """Return the types; the plain one only for a server that is known to need it.

        Who has aggregated discovery could otherwise answer with less. For services it is the
        contract that both requests are made in every round.
        """
        plain = (JSON,) if root.old and self._spec.kind is not Kind.SERVICE else ()
        return ",".join((*AGGREGATED, *plain))

    async def _not_modified(self, root: Root, etag: str) -> Root:
        if not etag:
            message = f"GET {root.path}: got status 304, but nothing is kept of it here"
            raise UpstreamFailed(Reason.NOT_CACHED, message)
        if not root.old:
            return replace(_well(root), groups=root.groups)
        return await self._versions(root, self._memories[root.path].listed)

    async def _aggregated(self, root: Root, answer: Answer) -> Root:
        reading = self._reading(root)
        read = partial(read_noting, read_aggregated, reading)
        found, warnings = await self._exchange.read(answer, read)
        groups = with_known_lists(found, root.groups)
        if self._spec.kind is Kind.SERVICE:
            groups = tuple(_all_current(group) for group in groups)
        self._memories[root.path] = Memory()
        return _current(root, groups, etag=answer.etag, warnings=warnings)

    async def _listed(self, root: Root, answer: Answer) -> Root:
        """Take the unaggregated list of groups, and what is due of its group-versions."""
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            raise answer.wrong(JSON)
        memory = self._memories[root.path]
        list_digest = legacy.digest(answer.body)
        listed = memory.listed
        if list_digest != memory.list_digest:
            listed, memory.warnings = await self._read_list(root, answer)
        now = await self._versions(replace(root, etag=answer.etag), listed)
        memory.list_digest = list_digest
        return now

    async def _read_list(
        self, root: Root, answer: Answer
    ) -> tuple[tuple[Listed, ...], tuple[str, ...]]:
        reading = self._reading(root)
        reader = read_core_versions if root.core else read_group_list
        return await self._exchange.read(answer, partial(read_noting, reader, reading))

    async def _versions(self, root: Root, listed: tuple[Listed, ...]) -> Root:
        """Take what is due of the group-versions; what the server does not have is told of.

        Old servers list the versions of definitions whose names are taken, and answer 404 for them:
        such a version is stale, as it is to kubectl and kube-aggregator, and the server is well.
        """
        memory = self._memories[root.path]
        fetch = VersionsFetch(self._exchange, self._spec, root, memory)
        had, failed = await fetch.fetch(legacy.due(memory, listed, root))
        memory.listed = listed
        groups = legacy.merged(listed, root, had, failed)
        absent = {gv for gv, failure in failed.items() if failure.reason == Reason.NOT_SERVED}
        told = [str(failed.pop(gv)) for gv in sorted(absent)]
        gone = memory.digests.keys() - legacy.versions_of(groups).keys()
        for gv in gone:
            del memory.digests[gv]
        warnings = (*memory.warnings, *told)[:MAX_WARNINGS]
        now = replace(_well(root), old=True, groups=groups, warnings=warnings)
        return _partly(now, failed)

    async def _service(self, root: Root) -> Root:
        """Ask for each group-version that has an APIService; nothing else is told of."""
        wanted = set(self._wanted())
        fetch = VersionsFetch(self._exchange, self._spec, root, self._memories[root.path])
        had, failed = await fetch.fetch(wanted)
        by_group: dict[str, list[str]] = {}
        for group, version in sorted(wanted):
            by_group.setdefault(group, []).append(version)
        listed = [Listed(group, tuple(versions)) for group, versions in by_group.items()]
        groups = legacy.merged(listed, root, had, failed)
        now = replace(_well(root), old=True, etag="", warnings=(), groups=groups)
        return _partly(now, failed)

    def _reading(self, root: Root) -> Reading:
        return Reading(self._spec.limits, self._spec.filter, core=root.core)


def _unless_it_vanished(before: Root, now: Root) -> Root:
    """Do not believe that there is no core group any more when nothing else could be had either.

    A proxy in front of a server that is down answers 404 to everything.
    """
    if not now.core or now.groups or not before.groups or now.state == Freshness.STALE:
        return now
    message = f"GET {now.path}: got status 404, which nothing else confirms"
    return replace(_failed(before, UpstreamFailed(Reason.STATUS, message)), since=now_text())


def _has_lost(before: Root, now: Root) -> bool:
    lost = legacy.versions_of(before.groups).keys() - legacy.versions_of(now.groups).keys()
    return now.is_current and bool(lost)


def _well(root: Root) -> Root:
    return replace(root, state=Freshness.CURRENT, error="", reason="", failures=())


def _current(
    root: Root, groups: tuple[Group, ...], *, etag: str = "", warnings: tuple[str, ...] = ()
) -> Root:
    return replace(_well(root), old=False, etag=etag, groups=groups, warnings=warnings)


def _failed(root: Root, failure: UpstreamFailed) -> Root:
    return replace(root, state=Freshness.STALE, error=str(failure), reason=failure.reason)


def _partly(root: Root, failed: dict[GroupVersion, UpstreamFailed]) -> Root:
    """Note the group-versions that failed; all the others are as they are served."""
    if not failed:
        return root
    named = sorted((legacy.name_of(*gv), str(failure)) for gv, failure in failed.items())
    total = sum(len(group.versions) for group in root.groups)
    few = "; ".join(text for _, text in named[:_SHOWN_FAILURES])
    reason = next(iter(failed.values())).reason
    error = f"{len(failed)} of {total} group-versions failed: {few}"
    return replace(root, error=error, reason=reason, failures=tuple(named))


def _all_current(group: Group) -> Group:
    """Return a group as kube-aggregator takes it: what it says of itself is not believed."""
    if all(version.freshness == Freshness.CURRENT for version in group.versions):
        return group
    versions = (replace(version, freshness=Freshness.CURRENT) for version in group.versions)
    return Group(group.name, tuple(versions))
