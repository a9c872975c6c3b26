"""A fleet of clusters that this process asks by itself, for asyncio."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

from apidiscovery_formats import matrix
from apidiscovery_formats.matrix import Delta, Matrix

from apidiscovery_client._errors import DiscoveryError, NotYetServed
from apidiscovery_client._sans_io.options import SYSTEM_CLOCK
from apidiscovery_client._server import Server
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.fleet._async_together import pause, together
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_client.fleet._members import never_answered, servers_of_contexts
from apidiscovery_client.model import Snapshot
from apidiscovery_client.resolving import Resolution, Resolver
from apidiscovery_client.resolving.common_version import CommonVersion, best_common_version

AT_ONCE = 32


class AsyncFleet:
    """Clusters by name, each a client or a snapshot; clients are closed with the fleet.

    A cluster that cannot be asked never empties its column: what was last known stands there, or
    that nothing is known.

    Args:
        members: The clusters; a URL or server gets a client of its own.
        labels: Of each cluster, by its name.
        cache: Whether what is known of clusters is kept on disk for other processes.
        at_once: How many clusters are asked at a time.
    """

    def __init__(
        self,
        members: Mapping[str, AsyncDiscoveryClient | Snapshot | Server | str],
        *,
        labels: Mapping[str, Mapping[str, str]] | None = None,
        cache: bool = False,
        at_once: int = AT_ONCE,
    ) -> None:
        self._members = {
            name: AsyncDiscoveryClient(member, cache=cache)
            if isinstance(member, str | Server)
            else member
            for name, member in members.items()
        }
        self._labels = labels or {}
        self._at_once = at_once
        # What was told of clusters that could not be asked, until they can.
        self._silent: dict[str, Snapshot] = {}

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | Path | None = None,
        contexts: Iterable[str] = ("*",),
        *,
        cache: bool = False,
        at_once: int = AT_ONCE,
    ) -> Self:
        """Return the fleet of the contexts of a kubeconfig.

        Args:
            path: The file; by default those of KUBECONFIG, or ~/.kube/config.
            contexts: Patterns for names, as of a shell: `prod-*`.
            cache: As for the class.
            at_once: The same.

        Raises:
            InvalidConfiguration: A file cannot be read, or no context matches a pattern. A context
                that cannot be used is a cluster of which nothing is known, with the reason.
        """
        servers = servers_of_contexts(tuple(contexts), kubeconfig=str(path) if path else None)
        return cls(servers, cache=cache, at_once=at_once)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, in the order in which they were given."""
        return tuple(self._members)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self._members)} clusters>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the clients; the fleet may be closed again."""
        async with AsyncExitStack() as stack:
            for member in self._members.values():
                if not isinstance(member, Snapshot):
                    stack.push_async_callback(member.close)

    async def snapshots(
        self, names: Iterable[str] | None = None, *, max_age_s: float | None = None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name.

        A cluster that does not answer, and of which nothing is known, has a snapshot without
        groups whose `failures` tell why.

        Args:
            names: Of the clusters to ask; None for all.
            max_age_s: As for `AsyncDiscoveryClient.snapshot`.

        Raises:
            KeyError: There is no cluster of a name.
        """
        members = {name: self._members[name] for name in (self.names if names is None else names)}
        calls = [partial(self._snapshot, name, max_age_s) for name in members]
        return dict(zip(members, await together(calls, self._at_once), strict=True))

    async def _snapshot(self, name: str, max_age_s: float | None) -> Snapshot:
        member = self._members[name]
        if isinstance(member, Snapshot):
            return member
        try:
            snapshot = await member.snapshot(max_age_s=max_age_s)
        except DiscoveryError as error:
            return self._silent.setdefault(name, never_answered(member.server, error))
        self._silent.pop(name, None)
        return snapshot

    async def matrix(self, *, max_age_s: float | None = None) -> Matrix:
        """Return which cluster serves which resource, with a column for each cluster.

        Args:
            max_age_s: As for `AsyncDiscoveryClient.snapshot`.
        """
        snapshots = await self.snapshots(max_age_s=max_age_s)
        return matrix.make(
            [cluster_of(name, one, self._labels.get(name, {})) for name, one in snapshots.items()]
        )

    async def watch(self, *, interval_s: float = 5.0) -> AsyncGenerator[Delta]:
        """Yield what changes in the matrix; first all that is there.

        Args:
            interval_s: Between two questions to a cluster, which are conditional, in seconds.
        """
        before = Matrix((), ())
        while True:
            after = await self.matrix(max_age_s=0)
            if after != before:
                yield matrix.delta(before, after)
            before = after
            await pause(interval_s)

    async def best_common_version(
        self, wanted: str, clusters: Iterable[str] | None = None
    ) -> CommonVersion:
        """Return the version of a resource that clusters have in common and like best.

        Args:
            wanted: A name as in `AsyncDiscoveryClient.resolve`, without a version.
            clusters: Their names; None for all.

        Raises:
            NotServed: No cluster is known to have such a resource.
            AmbiguousResource: It is another resource in another cluster.
            NoCommonVersion: No version is certainly served by all of them.
            KeyError: There is no cluster of a name.
        """
        return best_common_version(wanted, await self.snapshots(clusters))

    async def wait_for(
        self, wanted: str, *, in_all: bool = True, timeout_s: float = 30.0
    ) -> dict[str, Resolution]:
        """Return what a name means in each cluster that serves it, by the cluster's name.

        Args:
            wanted: A name as in `AsyncDiscoveryClient.resolve`.
            in_all: Whether to wait until every cluster serves it, and not only one.
            timeout_s: How long to wait, in seconds.

        Raises:
            NotYetServed: It is not served in time in every cluster, or in none; `missing` tells
                why, by cluster.
        """
        deadline = SYSTEM_CLOCK.monotonic() + timeout_s
        delay_s = 0.1
        while True:
            found: dict[str, Resolution] = {}
            missing: dict[str, str] = {}
            for name, snapshot in (await self.snapshots(max_age_s=0)).items():
                try:
                    found[name] = Resolver(snapshot).resolve(wanted, strict=True)
                except DiscoveryError as error:
                    missing[name] = str(error)
            if not missing or (found and not in_all):
                return found
            left_s = deadline - SYSTEM_CLOCK.monotonic()
            if left_s <= 0:
                raise NotYetServed(wanted, timeout_s=timeout_s, missing=missing)
            await pause(min(delay_s, left_s))
            delay_s = min(2 * delay_s, 2.0)
