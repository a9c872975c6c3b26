"""Servers without aggregated discovery: a list of groups, then a list for each group-version.

Unchanged group-versions are not requested in every round, and never parsed again.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from http import HTTPStatus

from apidiscovery_formats.media_types import JSON

from apidiscovery_service.core.model import Freshness, Group, Version, shared_version
from apidiscovery_service.sources.upstreams.answers import Listed, read_resource_list
from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed
from apidiscovery_service.sources.upstreams.fetch import Answer, Exchange
from apidiscovery_service.sources.upstreams.spec import Kind, UpstreamSpec
from apidiscovery_service.sources.upstreams.state import Root

# The list of groups does not show changes of resources within a group-version. With a round a
# minute they are seen after five minutes; in other rounds an unchanged server costs one request.
EVERYTHING_EVERY_ROUNDS = 5

GroupVersion = tuple[str, str]


@dataclass(slots=True)
class Memory:
    """What one process remembers of one path between rounds.

    Attributes:
        list_digest: Digest of the body of the list of groups.
        listed: The groups in that list.
        warnings: What was left out of it.
        rounds: Rounds since all group-versions were requested.
        digests: Digest of the body of each group-version that was read.
    """

    list_digest: bytes = b""
    listed: tuple[Listed, ...] = ()
    warnings: tuple[str, ...] = ()
    rounds: int = 0
    digests: dict[GroupVersion, bytes] = field(default_factory=dict[GroupVersion, bytes])


def digest(body: Body) -> bytes:
    """Return the SHA-256 of a body."""
    return hashlib.sha256(body).digest()


def due(memory: Memory, listed: Iterable[Listed], root: Root) -> set[GroupVersion]:
    """Return the group-versions to request in this round, and count the round.

    In every fifth round these are all; else those whose entry in the list changed, that failed
    before, or that this process has not read.
    """
    everything = {(group.name, version) for group in listed for version in group.versions}
    memory.rounds += 1
    if memory.rounds >= EVERYTHING_EVERY_ROUNDS:
        memory.rounds = 0
        return everything
    before = {group.name: group for group in memory.listed}
    changed = {group.name for group in listed if before.get(group.name) != group}
    failed = {name for name, _ in root.failures}
    return {
        (group, version)
        for group, version in everything
        if group in changed
        or (group, version) not in memory.digests
        or name_of(group, version) in failed
    }


def name_of(group: str, version: str) -> str:
    """Write a group-version: `apps/v1`, or `v1` in the core group."""
    return f"{group}/{version}" if group else version


class VersionsFetch:
    """Requests the lists of group-versions of one path.

    Args:
        exchange: Sends the requests.
        spec: The upstream.
        root: What is known of the path.
        memory: What is remembered of the path; updated.
    """

    def __init__(self, exchange: Exchange, spec: UpstreamSpec, root: Root, memory: Memory) -> None:
        self._exchange = exchange
        self._spec = spec
        self._root = root
        self._memory = memory
        self._known = versions_of(root.groups)

    async def fetch(
        self, wanted: Iterable[GroupVersion]
    ) -> tuple[dict[GroupVersion, Version], dict[GroupVersion, UpstreamFailed]]:
        """Request group-versions, some at a time.

        Returns:
            The versions that were read, and the failures of the others.
        """
        had: dict[GroupVersion, Version] = {}
        failed: dict[GroupVersion, UpstreamFailed] = {}
        at_once = asyncio.Semaphore(self._spec.limits.concurrent)
        limit_s = self._spec.limits.versions_s

        async def one(gv: GroupVersion) -> None:
            async with at_once:
                try:
                    had[gv] = await self._version(gv)
                except UpstreamFailed as failure:
                    failed[gv] = failure

        due = sorted(wanted)
        try:
            async with asyncio.timeout(limit_s), asyncio.TaskGroup() as tasks:
                for gv in due:
                    tasks.create_task(one(gv))
        except TimeoutError:
            for gv in due:
                if gv not in had and gv not in failed:
                    message = f"{name_of(*gv)}: not had within {limit_s:g} s for all"
                    failed[gv] = UpstreamFailed(Reason.TIMEOUT, message)
        return had, failed

    async def _version(self, gv: GroupVersion) -> Version:
        answer = await get_list(self._exchange, self._spec, self._root, gv)
        if answer.status != HTTPStatus.OK:
            self._memory.digests.pop(gv, None)
            failure = answer.wrong("200")
            is_missing = answer.status == HTTPStatus.NOT_FOUND
            raise UpstreamFailed(Reason.NOT_SERVED, str(failure)) if is_missing else failure
        now = digest(answer.body)
        if gv in self._known and self._memory.digests.get(gv) == now:
            return replace(self._known[gv], freshness=Freshness.CURRENT)
        self._memory.digests.pop(gv, None)
        read = await self._exchange.read(answer, partial(read_resource_list, gv[1]))
        self._memory.digests[gv] = now
        return shared_version(read)


async def get_list(exchange: Exchange, spec: UpstreamSpec, root: Root, gv: GroupVersion) -> Answer:
    """Return the answer to a request for the list of a group-version.

    Raises:
        UpstreamFailed: There is no answer in time, or it exceeds its limits.
    """
    is_service = spec.kind is Kind.SERVICE
    # An APIService without a group is of the core group, which is elsewhere.
    base = "/api" if not gv[0] and is_service else root.path
    return await exchange.get(f"{base}/{name_of(*gv)}", JSON, as_master=not is_service)


def versions_of(groups: Iterable[Group]) -> dict[GroupVersion, Version]:
    """Return versions by the name of their group and their own."""
    return {
        (group.name, version.version): version for group in groups for version in group.versions
    }


def merged(
    listed: Iterable[Listed],
    root: Root,
    had: Mapping[GroupVersion, Version],
    failed: Mapping[GroupVersion, UpstreamFailed],
) -> tuple[Group, ...]:
    """Return groups in the order of the list, with new versions, or former ones without news.

    A version that failed is stale and keeps its resources.
    """
    known = versions_of(root.groups)

    def version_of(gv: GroupVersion) -> Version:
        if gv in had:
            return had[gv]
        before = known.get(gv, Version(gv[1]))
        return replace(before, freshness=Freshness.STALE) if gv in failed else before

    return tuple(
        Group(group.name, tuple(version_of((group.name, version)) for version in group.versions))
        for group in listed
    )
