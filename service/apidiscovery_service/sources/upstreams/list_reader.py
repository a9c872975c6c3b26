"""The unaggregated lists of group-versions: requested some at a time, and read when they change."""

import asyncio
import hashlib
import math
from collections.abc import Callable, Iterable
from functools import partial
from http import HTTPStatus

from apidiscovery_formats.media_types import JSON

from apidiscovery_service.core.model import Group, Version
from apidiscovery_service.sources.upstreams.body import Body
from apidiscovery_service.sources.upstreams.discovery_answers import read_resource_list
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, attempt
from apidiscovery_service.sources.upstreams.fetch import Exchange
from apidiscovery_service.sources.upstreams.spec import UpstreamKind, UpstreamSpec

GroupVersion = tuple[str, str]


def name_of(group: str, version: str) -> str:
    """Write a group-version: `apps/v1`, or `v1` in the core group."""
    return f"{group}/{version}" if group else version


def versions_of(groups: Iterable[Group]) -> dict[GroupVersion, Version]:
    """Return versions by the name of their group and their own."""
    return {
        (group.name, version.version): version for group in groups for version in group.versions
    }


def with_versions(
    groups: Iterable[Group], change: Callable[[GroupVersion, Version], Version]
) -> tuple[Group, ...]:
    """Return groups with each version replaced by the result of a function."""
    return tuple(
        Group(g.name, tuple([change((g.name, each.version), each) for each in g.versions]))
        for g in groups
    )


def digest(body: Body) -> bytes:
    """Return the SHA-256 of a body."""
    return hashlib.sha256(body).digest()


class ListReader:
    """Requests the lists of the group-versions of one path.

    Args:
        exchange: Sends the requests.
        spec: The upstream.
        path: The path, such as `/apis`.

    Attributes:
        digests: The digest of each list that was read last; without it a list is read again.
    """

    def __init__(self, exchange: Exchange, spec: UpstreamSpec, path: str) -> None:
        self.digests: dict[GroupVersion, bytes] = {}
        self._exchange = exchange
        self._spec = spec
        self._path = path

    async def fetch(
        self,
        wanted: Iterable[GroupVersion],
        *,
        at_once: int,
        within_s: float,
        most_failures: float = math.inf,
    ) -> dict[GroupVersion, Version | UpstreamFailed | None]:
        """Request lists, some at a time.

        Args:
            wanted: The group-versions, the first ones first.
            at_once: The number of requests at once.
            within_s: Time limit for all of them.
            most_failures: End after so many failures.

        Returns:
            The version of each list, None for a list that is the same as before, or why it failed;
            nothing for a list that was not requested or did not come in time.
        """
        found: dict[GroupVersion, Version | UpstreamFailed | None] = {}
        failures = 0
        waiting = iter(wanted)

        async def some() -> None:
            nonlocal failures
            for gv in waiting:
                if failures >= most_failures:
                    return
                found[gv] = await attempt(self._read(gv), self._spec.name, name_of(*gv))
                failures += isinstance(found[gv], UpstreamFailed)

        try:
            async with asyncio.timeout(within_s), asyncio.TaskGroup() as tasks:
                for _ in range(at_once):
                    tasks.create_task(some())
        except TimeoutError:
            pass
        return found

    def forget(self, versions: Iterable[GroupVersion]) -> None:
        """Have lists be read again when they are requested next."""
        for gv in versions:
            self.digests.pop(gv, None)

    async def _read(self, gv: GroupVersion) -> Version | None:
        is_service = self._spec.kind is UpstreamKind.SERVICE
        # An APIService without a group is of the core group, which is elsewhere.
        base = "/api" if not gv[0] and is_service else self._path
        path = f"{base}/{name_of(*gv)}"
        answer = await self._exchange.get(path, JSON, as_master=not is_service)
        before = self.digests.pop(gv, None)
        if answer.status != HTTPStatus.OK:
            failure = answer.wrong("200")
            is_missing = answer.status == HTTPStatus.NOT_FOUND
            raise UpstreamFailed(Reason.NOT_SERVED, str(failure)) if is_missing else failure
        now = digest(answer.body)
        read = None
        if now != before:
            read = await self._exchange.read(answer, partial(read_resource_list, gv[1]))
        self.digests[gv] = now
        return read
