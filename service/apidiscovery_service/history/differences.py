"""What has changed of clusters since it was written: changes, and contents that may be new.

Clusters of a fleet share the objects of equal groups, so each group is written out once for all.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from apidiscovery_service.core.cluster import Cluster
from apidiscovery_service.core.model import Group
from apidiscovery_service.core.source import SourceState
from apidiscovery_service.history.contents import is_completed, surroundings
from apidiscovery_service.history.file import hash_of
from apidiscovery_service.history.model import MERGED, ChangeKind, NewChange
from apidiscovery_service.sources.upstreams.state import written_group

Key = tuple[ChangeKind, str]


@dataclass(slots=True)
class Written:
    """What the file has of a cluster.

    Attributes:
        hashes: By kind and name.
        groups: The groups as they were when their hash was taken.
        etag: Of the aggregated document of the named groups.
    """

    hashes: dict[Key, str] = field(default_factory=dict[Key, str])
    groups: dict[str, Group] = field(default_factory=dict[str, Group])
    etag: str = ""

    def take(self, changes: Iterable[NewChange]) -> None:
        """Take changes that the file has now."""
        for change in changes:
            if change.after:
                self.hashes[change.kind, change.name] = change.after
            else:
                del self.hashes[change.kind, change.name]


class Differences:
    """The differences of some clusters to what the file has of them.

    Attributes:
        changes: By cluster, then by kind and name.
        contents: Make those that may be new, by their hashes.
        written: What the file has of each cluster once the changes are written.
    """

    def __init__(self) -> None:
        self.changes: list[NewChange] = []
        self.contents: dict[str, Callable[[], bytes]] = {}
        self.written: dict[str, Written] = {}
        # By the identity of groups, which the clusters hold as long as this is used.
        self._hashes: dict[int, str] = {}
        self._completed: dict[tuple[int, int], bool] = {}

    def add(
        self, name: str, before: Written, cluster: Cluster | None, etag: str, cause: str
    ) -> None:
        """Add the changes of a cluster.

        Args:
            name: Its name.
            before: What the file has of it.
            cluster: The cluster now; None if it is gone.
            etag: That of its aggregated document; empty if it is not known.
            cause: Why it has changed.
        """
        after = self.written[name] = self._after(cluster, before, etag)
        keys = before.hashes.keys() | after.hashes.keys()
        self.changes += [
            NewChange(
                name,
                kind,
                of,
                _cause_of(kind, cluster) or cause,
                before.hashes.get((kind, of), ""),
                after.hashes.get((kind, of), ""),
                before.etag,
                after.etag,
                kind is ChangeKind.GROUP
                and self._is_completed(before.groups.get(of), after.groups.get(of)),
            )
            for kind, of in sorted(keys)
            if before.hashes.get((kind, of)) != after.hashes.get((kind, of))
        ]

    def _after(self, cluster: Cluster | None, before: Written, etag: str) -> Written:
        """Return what the file will have of a cluster."""
        if cluster is None:
            return Written()
        after = Written(dict(before.hashes), dict(before.groups), etag or before.etag)
        if cluster.core is not None or cluster.named is not None:
            self._take(cluster, before, after)
        if cluster.name != MERGED:
            state = cluster.status.state.encode()
            self._put(after, (ChangeKind.STATE, ""), hash_of(state), lambda: state)
        return after

    def _take(self, cluster: Cluster, before: Written, after: Written) -> None:
        groups = {group.name: group for group in (*(cluster.core or ()), *(cluster.named or ()))}
        for kind, name in before.hashes:
            is_known = (cluster.named if name else cluster.core) is not None
            if kind is ChangeKind.GROUP and name not in groups and is_known:
                del after.hashes[kind, name]
        after.groups = groups
        for name, group in groups.items():
            if before.groups.get(name) != group:
                digest, content = self._hash(group), partial(written_group, group)
                self._put(after, (ChangeKind.GROUP, name), digest, content)
        around = surroundings(cluster)
        self._put(after, (ChangeKind.DOCUMENT, ""), hash_of(around), lambda: around)

    def _put(self, after: Written, key: Key, digest: str, content: Callable[[], bytes]) -> None:
        if after.hashes.get(key) != digest:
            after.hashes[key] = digest
            self.contents[digest] = content

    def _hash(self, group: Group) -> str:
        found = self._hashes.get(id(group))
        if found is None:
            found = self._hashes[id(group)] = hash_of(written_group(group))
        return found

    def _is_completed(self, before: Group | None, after: Group | None) -> bool:
        key = id(before), id(after)
        found = self._completed.get(key)
        if found is None:
            found = self._completed[key] = is_completed(before, after)
        return found


def _cause_of(kind: ChangeKind, cluster: Cluster | None) -> str:
    """Return why a cluster answers or not; empty for changes of what it serves."""
    if kind is not ChangeKind.STATE or cluster is None:
        return ""
    if cluster.status.state is SourceState.CURRENT:
        return "it answers"
    return cluster.status.error or "it has not been asked yet"
