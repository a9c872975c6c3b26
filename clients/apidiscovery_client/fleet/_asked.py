"""The blocking form of `_async_asked`, made by `make generate`. DO NOT EDIT."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count

from apidiscovery_formats import matrix
from apidiscovery_formats.matrix import Matrix

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._server import Server
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_client.fleet._members import never_answered
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports._scope import Scope, pause


class Asked:
    """Clusters by name, each a client or a snapshot; clients are closed with it."""

    def __init__(
        self,
        members: Mapping[str, DiscoveryClient | Snapshot | Server | str],
        labels: Mapping[str, Mapping[str, str]],
        *,
        cache: bool,
        at_once: int,
        progress: Callable[[int, int], object] | None,
    ) -> None:
        self._members = {
            name: DiscoveryClient(member, cache=cache)
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

    def close(self) -> None:
        """Close the clients; it may be called again."""
        with ExitStack() as stack:
            for member in self._members.values():
                if not isinstance(member, Snapshot):
                    stack.callback(member.close)

    def snapshots(
        self, names: Iterable[str] | None, max_age_s: float | None
    ) -> dict[str, Snapshot]:
        """Return what each cluster serves, by name; raise `KeyError` for an unknown name."""
        members = {name: self._members[name] for name in (self.names if names is None else names)}
        answers = count(1)

        def asked(name: str) -> Snapshot:
            snapshot = self._snapshot(name, max_age_s)
            if self._progress:
                self._progress(next(answers), len(members))
            return snapshot

        calls = [partial(asked, name) for name in members]
        found = Scope("the fleet").together(calls, self._at_once)
        return dict(zip(members, found, strict=True))

    def _snapshot(self, name: str, max_age_s: float | None) -> Snapshot:
        member = self._members[name]
        if isinstance(member, Snapshot):
            return member
        try:
            snapshot = member.snapshot(max_age_s=max_age_s)
        except DiscoveryError as error:
            return self._silent.setdefault(name, never_answered(member.server, error))
        self._silent.pop(name, None)
        return snapshot

    def matrix(self, max_age_s: float | None) -> Matrix:
        """Return which cluster serves which resource, with a column for each cluster."""
        snapshots = self.snapshots(None, max_age_s)
        return matrix.make(
            [cluster_of(name, one, self._labels.get(name, {})) for name, one in snapshots.items()]
        )

    def states(self, interval_s: float) -> Generator[Matrix]:
        """Yield the matrix again and again, also when nothing has changed."""
        while True:
            yield self.matrix(0)
            pause(interval_s)
