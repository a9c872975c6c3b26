"""One round of discovery: requests each path of an upstream once, and updates what is known.

Of a server without aggregated discovery the lists of group-versions are requested: those that may
have changed in each round, all in every fifth.

The answers are judged in the order of k8s.io/kube-aggregator
pkg/apiserver/handler_discovery.go:fetchFreshDiscoveryForService.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

from apidiscovery_formats.media_types import JSON
from apidiscovery_formats.times import time_text

from apidiscovery_service.core.model import Freshness, Group, Version, shared
from apidiscovery_service.recent import Recent
from apidiscovery_service.sources.upstreams.discovery_answers import (
    MAX_WARNINGS,
    ListedGroup,
    Reading,
    read_aggregated,
    read_core_versions,
    read_group_list,
    read_with,
)
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, attempt
from apidiscovery_service.sources.upstreams.fetch import AGGREGATED, Answer, Exchange
from apidiscovery_service.sources.upstreams.list_details import with_known_lists
from apidiscovery_service.sources.upstreams.list_reader import (
    GroupVersion,
    ListReader,
    digest,
    name_of,
    versions_of,
    with_versions,
)
from apidiscovery_service.sources.upstreams.repeated_answers import RepeatedAnswers
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Known, Root

# The list of groups of an old server does not show changes of resources within a group-version.
# With a round a minute they are seen after five minutes; in other rounds an unchanged server costs
# one request.
EVERYTHING_EVERY_ROUNDS = 5

_READYZ = "/readyz"
_SHOWN_FAILURES = 3

# Clusters of a fleet send the same documents: this reads a thousand clusters of ten releases in
# seconds, instead of a quarter of a minute.
_read_lately: Recent[object, tuple[tuple[Group, ...], Reading]] = Recent(16)

_Found = Mapping[GroupVersion, Version | UpstreamFailed | None]


@dataclass(slots=True)
class _Memory:
    """The memory of one process for one path of an old server between rounds.

    Attributes:
        reader: Reads the lists of group-versions.
        list_digest: Digest of the body of the list of groups.
        listed: The groups in that list.
        warnings: The parts of it that were left out.
        rounds: Rounds since all group-versions were requested.
    """

    reader: ListReader
    list_digest: bytes = b""
    listed: tuple[ListedGroup, ...] = ()
    warnings: tuple[str, ...] = ()
    rounds: int = 0

    def due(self, listed: Iterable[ListedGroup], root: Root) -> set[GroupVersion]:
        """Return the group-versions to request in this round, and count the round.

        In every fifth round these are all; else those whose entry in the list changed, that failed
        before, or that this process has not read.
        """
        everything = {(group.name, version) for group in listed for version in group.versions}
        self.rounds += 1
        if self.rounds >= EVERYTHING_EVERY_ROUNDS:
            self.rounds = 0
            return everything
        before = {group.name: group for group in self.listed}
        changed = {group.name for group in listed if before.get(group.name) != group}
        failed = {name for name, _ in root.failures}
        return {
            gv
            for gv in everything
            if gv[0] in changed or gv not in self.reader.digests or name_of(*gv) in failed
        }


def now_text() -> str:
    """Return the current time in RFC 3339, UTC."""
    return time_text(datetime.now(UTC))


class Rounds:
    """Requests the discovery of one upstream, round after round.

    Args:
        spec: The upstream.
        exchange: Sends the requests.
        wanted: The group-versions of a service that have an APIService now.
    """

    def __init__(
        self, spec: UpstreamSpec, exchange: Exchange, wanted: Callable[[], frozenset[GroupVersion]]
    ) -> None:
        self._spec = spec
        self._exchange = exchange
        self._wanted = wanted
        self._memories = {path: self._memory(path) for path, _ in spec.paths}
        self._repeated_answers = RepeatedAnswers(spec.timing, exchange)

    def _memory(self, path: str) -> _Memory:
        return _Memory(ListReader(self._exchange, self._spec, path))

    def forget(self) -> None:
        """Have all lists be read again: their last content is not in the known state."""
        self._memories = {path: self._memory(path) for path, _ in self._spec.paths}

    def _forget_unknown(self, root: Root) -> None:
        """Have lists of unknown versions be read again, even if they have not changed."""
        reader = self._memories[root.path].reader
        reader.forget(reader.digests.keys() - versions_of(root.groups).keys())

    async def round(self, known: Known) -> Known:
        """Request every path once; paths fail independently."""
        answered = await asyncio.gather(*(self._root(root) for root in known.roots))
        roots = list(map(self._accepted, known.roots, answered))
        if all(now.state == Freshness.STALE for now in roots if not now.core):
            roots = list(map(_with_core_kept, known.roots, roots))
        return replace(known, roots=tuple(roots))

    async def _root(self, root: Root) -> Root:
        now = await attempt(self._checked(root), self._spec.name, f"GET {root.path}")
        if isinstance(now, UpstreamFailed):
            now = _failed(root, now)
        is_same = (now.state, bool(now.failures)) == (root.state, bool(root.failures))
        return replace(now, since=root.since if is_same and root.since else now_text())

    async def _checked(self, root: Root) -> Root:
        now = await self._request(root)
        if self._spec.kind is not UpstreamKind.SERVICE and _has_lost(root, now):
            await self._check_ready()
        return now

    async def _check_ready(self) -> None:
        """Check that a server that lists less than before is ready.

        A kube-apiserver that starts answers before it has read its definitions; 1.25 even with
        nothing but its first group. Any answer but a server error counts as ready: some servers do
        not have the path, or deny access to it.

        Raises:
            UpstreamFailed: It is not ready.
        """
        answer = await self._exchange.get(_READYZ, "*/*")
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            message = f"GET {_READYZ}: got status {answer.status}, and group-versions are missing"
            self.forget()
            raise UpstreamFailed(Reason.NOT_READY, message)

    def _accepted(self, before: Root, now: Root) -> Root:
        """Accept that all groups are gone only after several such answers."""
        of_declared = self._spec.kind is UpstreamKind.SERVICE and now.old
        if not now.is_current or now.groups or not before.groups or of_declared:
            self._repeated_answers.end(now.path)
            return now
        try:
            seen = f"answered without any group, where there were {len(before.groups)}"
            self._repeated_answers.raise_unless_repeated(now.path, seen)
        except UpstreamFailed as failure:
            kept = _failed(before, failure)
        else:
            return now
        return replace(kept, since=now.since if before.is_current else before.since)

    async def _request(self, root: Root) -> Root:
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
        if self._spec.kind is UpstreamKind.SERVICE:
            return await self._service(root)
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            answer = await self._exchange.get(root.path, JSON)
        return await self._listed(root, answer)

    def _accept(self, root: Root) -> str:
        """Return the media types; the plain one only for a server that is known to need it.

        A server with aggregated discovery could otherwise answer with the plain one. For services
        kube-aggregator makes both requests in every round.
        """
        plain = (JSON,) if root.old and self._spec.kind is not UpstreamKind.SERVICE else ()
        return ",".join((*AGGREGATED, *plain))

    async def _not_modified(self, root: Root, etag: str) -> Root:
        if not etag:
            message = f"GET {root.path}: got status 304, but no document is cached"
            raise UpstreamFailed(Reason.NOT_CACHED, message)
        if not root.old:
            return replace(_well(root), groups=root.groups)
        return await self._versions(root, self._memories[root.path].listed)

    async def _aggregated(self, root: Root, answer: Answer) -> Root:
        found, reading = await self._read_document(answer, self._reading(root))
        groups = with_known_lists(found, root.groups)
        if self._spec.kind is UpstreamKind.SERVICE:
            groups = with_versions(groups, _as_current)
        self._memories[root.path] = self._memory(root.path)
        groups = await asyncio.to_thread(shared, groups)  # 0.1 s for 10,000
        now = _current(root, groups, etag=answer.etag, warnings=tuple(reading.warnings))
        return replace(now, has_creation_timestamps=reading.has_creation_timestamps)

    async def _read_document(
        self, answer: Answer, reading: Reading
    ) -> tuple[tuple[Group, ...], Reading]:
        """Read a document, unless some server has just sent the same."""
        how = (reading.filter, reading.limits.group_versions, reading.core)
        key = (digest(answer.body), answer.is_gzip, how)
        found = _read_lately.get(key)
        if found is None:
            read = partial(read_with, read_aggregated, reading)
            found = await self._exchange.read(answer, read)
            _read_lately.put(key, found)
        return found

    async def _listed(self, root: Root, answer: Answer) -> Root:
        """Read the unaggregated list of groups, and the lists that are due."""
        if answer.status != HTTPStatus.OK or not answer.is_plain_json:
            raise answer.wrong(JSON)
        memory = self._memories[root.path]
        list_digest = digest(answer.body)
        listed = memory.listed
        if list_digest != memory.list_digest:
            reader = read_core_versions if root.core else read_group_list
            read = partial(read_with, reader, self._reading(root))
            listed, reading = await self._exchange.read(answer, read)
            memory.warnings = tuple(reading.warnings)
        now = await self._versions(replace(root, etag=answer.etag), listed)
        memory.list_digest = list_digest
        return now

    async def _versions(self, root: Root, listed: tuple[ListedGroup, ...]) -> Root:
        """Read the lists of group-versions that are due; warn of those that answer 404.

        Old servers list the versions of definitions whose names conflict, and answer 404 for them.
        Such a version is stale, as in kubectl and kube-aggregator, but the server is healthy.
        """
        memory = self._memories[root.path]
        self._forget_unknown(root)
        now, failed = await self._lists(root, listed, memory.due(listed, root))
        memory.listed = listed
        absent = {gv for gv, failure in failed.items() if failure.reason == Reason.NOT_SERVED}
        not_served = [str(failed.pop(gv)) for gv in sorted(absent)]
        warnings = (*memory.warnings, *not_served)[:MAX_WARNINGS]
        return _partly(replace(now, warnings=warnings), failed)

    async def _service(self, root: Root) -> Root:
        """Read the lists of the group-versions that have an APIService."""
        self._forget_unknown(root)
        wanted = set(self._wanted())
        by_group: dict[str, list[str]] = {}
        for group, version in sorted(wanted):
            by_group.setdefault(group, []).append(version)
        listed = [ListedGroup(group, tuple(versions)) for group, versions in by_group.items()]
        now, failed = await self._lists(root, listed, wanted)
        return _partly(replace(now, etag="", warnings=()), failed)

    async def _lists(
        self, root: Root, listed: Iterable[ListedGroup], wanted: AbstractSet[GroupVersion]
    ) -> tuple[Root, dict[GroupVersion, UpstreamFailed]]:
        """Read the lists of some group-versions; return the path with them, and all failures."""
        limits = self._spec.limits
        found = await self._memories[root.path].reader.fetch(
            sorted(wanted), at_once=limits.concurrent, within_s=limits.versions_s
        )
        for gv in wanted - found.keys():
            text = f"{name_of(*gv)}: not read within {limits.versions_s:g} s for all"
            found[gv] = UpstreamFailed(Reason.TIMEOUT, text)
        groups = shared(_merged(listed, root, found))
        failed = {gv: each for gv, each in found.items() if isinstance(each, UpstreamFailed)}
        return replace(_well(root), old=True, groups=groups), failed

    def _reading(self, root: Root) -> Reading:
        return Reading(self._spec.limits, self._spec.filter, core=root.core)


def _with_core_kept(before: Root, now: Root) -> Root:
    """Keep the core group if it seems to be gone while all other paths failed.

    A proxy in front of a server that is down answers 404 to everything.
    """
    if not now.core or now.groups or not before.groups or now.state == Freshness.STALE:
        return now
    message = f"GET {now.path}: got status 404, which nothing else confirms"
    return replace(_failed(before, UpstreamFailed(Reason.STATUS, message)), since=now_text())


def _has_lost(before: Root, now: Root) -> bool:
    lost = versions_of(before.groups).keys() - versions_of(now.groups).keys()
    return now.is_current and bool(lost)


def _well(root: Root) -> Root:
    return replace(
        root, state=Freshness.CURRENT, error="", reason="", failures=(), has_answered=True
    )


def _current(
    root: Root, groups: tuple[Group, ...], *, etag: str = "", warnings: tuple[str, ...] = ()
) -> Root:
    return replace(_well(root), old=False, etag=etag, groups=groups, warnings=warnings)


def _failed(root: Root, failure: UpstreamFailed) -> Root:
    return replace(root, state=Freshness.STALE, error=str(failure), reason=failure.reason)


def _partly(root: Root, failed: dict[GroupVersion, UpstreamFailed]) -> Root:
    """Note the group-versions that failed."""
    if not failed:
        return root
    named = sorted((name_of(*gv), str(failure)) for gv, failure in failed.items())
    total = sum(len(group.versions) for group in root.groups)
    few = "; ".join(text for _, text in named[:_SHOWN_FAILURES])
    reason = next(iter(failed.values())).reason
    error = f"{len(failed)} of {total} group-versions failed: {few}"
    return replace(root, error=error, reason=reason, failures=tuple(named))


def _as_current(_: GroupVersion, version: Version) -> Version:
    """Return a version as kube-aggregator reads it: its own freshness is ignored."""
    is_current = version.freshness == Freshness.CURRENT
    return version if is_current else replace(version, freshness=Freshness.CURRENT)


def _merged(listed: Iterable[ListedGroup], root: Root, found: _Found) -> tuple[Group, ...]:
    """Return groups in the order of the list, with new versions, or former ones without news.

    A version that failed is stale and keeps its resources.
    """
    known = versions_of(root.groups)

    def version_of(gv: GroupVersion) -> Version:
        before = known.get(gv, Version(gv[1]))
        if gv not in found:
            return before
        now = found[gv]
        if isinstance(now, UpstreamFailed):
            return replace(before, freshness=Freshness.STALE)
        return now or replace(before, freshness=Freshness.CURRENT)

    return tuple(
        Group(group.name, tuple(version_of((group.name, version)) for version in group.versions))
        for group in listed
    )
