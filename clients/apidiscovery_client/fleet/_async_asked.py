"""Clusters that this process asks by itself; `_asked`, which blocks, is generated from this."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from itertools import count

from apidiscovery_formats import matrix
from apidiscovery_formats.matrix import Matrix

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._server import Server
from apidiscovery_client.async_client import AsyncDiscoveryClient
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_client.fleet._members import never_answered
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._async_scope import AsyncScope, pause


class AsyncAsked:
    """Clusters by name, each a client or a snapshot; clients are closed with it."""

    def __init__(
        self,
        members: Mapping[str, AsyncDiscoveryClient | Snapshot | Server | str],
        labels: Mapping[str, Mapping[str, str]],
        *,
        cache: bool,
        at_once: int,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._members = {
            name: AsyncDiscoveryClient(member, cache=cache)
            if isinstance(member, str | Server)
            else member
            for name, member in members.items()
        }
        self._labels = labels
        self._at_once = at_once
        self._progress = progress
        # The snapshots of clusters that have never answered, until they do.
        self._silent: dict[str, Snapshot] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the clusters, in the order in which they were given."""
        return tuple(self._members)

    async def close(self) -> None:
        """Close the clients; it may be called again."""
        async with AsyncExitStack() as stack:
            for member in self._members.values():
                if not isinstance(member, Snapshot):
                    stack.push_async_callback(member.close)

    async def snapshots(
        self, names: Iterable[str] | None, max_age_s: float | None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name; raise `KeyError` for an unknown name."""
        members = {name: self._members[name] for name in (self.names if names is None else names)}
        answers = count(1)

        async def asked(name: str) -> Snapshot:
            snapshot = await self._snapshot(name, max_age_s)
            if self._progress:
                self._progress(next(answers), len(members))
            return snapshot

        calls = [partial(asked, name) for name in members]
        found = await AsyncScope("the fleet").together(calls, self._at_once)
        return dict(zip(members, found, strict=True))

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

    async def matrix(self, max_age_s: float | None) -> Matrix:
        """Return which cluster serves which resource, with a column for each cluster."""
        snapshots = await self.snapshots(None, max_age_s)
        return matrix.make(
            [cluster_of(name, one, self._labels.get(name, {})) for name, one in snapshots.items()]
        )

    async def states(self, interval_s: float) -> AsyncGenerator[Matrix]:
        """Yield the matrix again and again, also when nothing has changed."""
        while True:
            yield await self.matrix(0)
            await pause(interval_s)
