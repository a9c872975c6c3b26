"""The latest contributions of all sources, merged into one snapshot.

The rules are those of k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go:
calculateAPIGroupsLocked. The unit of conflict is the group-version: the source of lowest
precedence number wins it whole, and when that source withdraws, the next one re-appears. The
result depends only on the contributions, never on the order in which they came.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias, TypeVar

from apidiscovery_formats.version_order import kube_aware_key

from apidiscovery_service.core.chunks import GroupKey, PublishedGroup
from apidiscovery_service.core.model import CORE_GROUP, Contribution, Group, Offer
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.errors import InvalidContribution

T = TypeVar("T")

# The aggregator lists this group first, whatever its priority.
# Source: k8s.io/kube-aggregator pkg/apiserver/handler_apis.go:apisHandler.ServeHTTP.
_LISTED_FIRST = "apiregistration.k8s.io"

# The contributions to a group by source, each with its offers of the group by version.
_Candidates: TypeAlias = dict[str, tuple[Contribution, dict[str, Offer]]]


class Registry:
    """Merges contributions; `snapshot` is the present result.

    It belongs to one thread. Snapshots may be used in any thread.

    Args:
        has_creation_timestamps: Whether groups have `"creationTimestamp":null`, as those of
            kube-apiserver up to 1.33.
    """

    def __init__(self, *, has_creation_timestamps: bool = False) -> None:
        self._has_creation_timestamps = has_creation_timestamps
        self._contributions: dict[str, Contribution] = {}
        self._candidates: dict[str, _Candidates] = {}
        self._published: dict[str, PublishedGroup] = {}
        self._snapshot = Snapshot()
        self._listeners: list[Callable[[Snapshot], None]] = []
        self._touch_listeners: list[Callable[[frozenset[str], frozenset[str]], None]] = []

    @property
    def snapshot(self) -> Snapshot:
        """What is served now."""
        return self._snapshot

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources with a contribution, sorted."""
        return tuple(sorted(self._contributions))

    def contribution(self, source: str) -> Contribution | None:
        """Return the latest contribution of a source; None if there is none."""
        return self._contributions.get(source)

    def offers_besides(self, prefixes: tuple[str, ...]) -> bool:
        """Return whether a source offers anything whose name has none of these prefixes."""
        return any(
            one.offers and not one.source.startswith(prefixes)
            for one in self._contributions.values()
        )

    def winners(self, group: str) -> dict[str, str]:
        """Return the source that serves each version of a group, by version."""
        return {
            version: source
            for version, (source, _) in _winners(self._candidates.get(group, {})).items()
        }

    def sources_of(self, groups: Iterable[str]) -> frozenset[str]:
        """Return the sources that serve these groups."""
        return frozenset(source for group in groups for source in self.winners(group).values())

    def subscribe(self, listener: Callable[[Snapshot], None]) -> None:
        """Call `listener` with each new snapshot, at once and in this thread."""
        self._listeners.append(listener)

    def on_touched(self, listener: Callable[[frozenset[str], frozenset[str]], None]) -> None:
        """Call `listener` after each update with the groups that may have changed, and the causes.

        They may look as before, and have another source. The cause is that of `update`. Without
        one, the causes are the sources that serve the groups or, if none does, that served them.
        """
        self._touch_listeners.append(listener)

    def publish(self, *contributions: Contribution) -> Snapshot:
        """Replace the contributions of these sources, all at once.

        Returns:
            The snapshot that has them; the former one if nothing changes.

        Raises:
            InvalidContribution: One offers a group-version twice; then none is taken.
        """
        return self.update(contributions, ())

    def withdraw(self, *sources: str) -> Snapshot:
        """Remove the contributions of these sources; unknown ones are ignored."""
        return self.update((), sources)

    def update(
        self,
        contributions: Iterable[Contribution],
        withdrawn: Iterable[str],
        cause: str = "",
    ) -> Snapshot:
        """Withdraw and publish in one step, with one snapshot; a source in both stays.

        Args:
            contributions: Each replaces the earlier one of its source.
            withdrawn: Names of sources; unknown ones are ignored.
            cause: The reason, in one line; empty if the names of the sources are enough.

        Raises:
            InvalidContribution: As `publish`; then nothing is withdrawn either.
        """
        changes: dict[str, Contribution | None] = dict.fromkeys(withdrawn)
        changes |= {contribution.source: contribution for contribution in contributions}
        candidates, touched = self._candidates_after(changes)
        merged = {name: self._merged(name, candidates[name]) for name in touched}
        # Nothing raises from here on.
        former = self.sources_of(touched)
        _assign(self._contributions, changes)
        _assign(self._candidates, candidates)
        fresh: list[PublishedGroup] = []
        gone: list[PublishedGroup] = []
        for name, after in merged.items():
            before = self._published.pop(name, None)
            if after:
                self._published[name] = after
            if after is not before:
                gone += [before] if before else []
                fresh += [after] if after else []
        if fresh or gone:
            snapshot = self._snapshot.changed(fresh, gone)
            snapshot.etags()  # now, since readers must not wait for them
            self._snapshot = snapshot
            for listener in self._listeners:
                listener(snapshot)
        if touched:
            causes = frozenset({cause}) if cause else self.sources_of(touched) or former
            for touch_listener in self._touch_listeners:
                touch_listener(touched, causes)
        return self._snapshot

    def _candidates_after(
        self, changes: Mapping[str, Contribution | None]
    ) -> tuple[dict[str, _Candidates], frozenset[str]]:
        """Return the candidates of the groups that changes concern; nothing is assigned.

        Returns:
            The candidates by group, none for a group that goes; and the groups that may look
            different, or have another source.
        """
        candidates: dict[str, _Candidates] = {}
        touched: set[str] = set()
        for source, contribution in changes.items():
            former = self._contributions.get(source)
            groups = _by_group(contribution) if contribution else {}
            same_rank = contribution and former and contribution.precedence == former.precedence
            former_groups = {offer.group for offer in former.offers} if former else set[str]()
            for name in groups.keys() | former_groups:
                of_group = candidates.setdefault(name, dict(self._candidates.get(name, {})))
                _, before = of_group.pop(source, (None, None))
                if contribution and name in groups:
                    of_group[source] = (contribution, groups[name])
                if not (same_rank and before == groups.get(name)):
                    touched.add(name)
        return candidates, frozenset(touched)

    def _merged(self, name: str, candidates: _Candidates) -> PublishedGroup | None:
        """Return the group that candidates make, the published one if it is the same."""
        published = self._published.get(name)
        winners = _winners(candidates)
        if not winners:
            return None
        offers = sorted((offer for _, offer in winners.values()), key=_version_key)
        group = Group(name, tuple(offer.version for offer in offers))
        key = min((-offer.group_priority, offer.group_rank, name) for offer in offers)
        list_key = _list_key(name, offers)
        if published and (published.group, published.key, published.list_key) == (
            group,
            key,
            list_key,
        ):
            return published
        return PublishedGroup(
            group, key, list_key, has_creation_timestamp=self._has_creation_timestamps
        )


def _assign(target: dict[str, T], changes: Mapping[str, T | None]) -> None:
    """Take values over; those that are empty are left out."""
    for name, value in changes.items():
        if value:
            target[name] = value
        else:
            target.pop(name, None)


def _by_group(contribution: Contribution) -> dict[str, dict[str, Offer]]:
    groups: dict[str, dict[str, Offer]] = {}
    for offer in contribution.offers:
        versions = groups.setdefault(offer.group, {})
        if versions.setdefault(offer.version.version, offer) is not offer:
            name = f"{offer.group}/{offer.version.version}".lstrip("/")
            raise InvalidContribution(f"source {contribution.source!r} offers {name} twice")
    return groups


def _winners(candidates: _Candidates) -> dict[str, tuple[str, Offer]]:
    """Return for each version the source that serves it, and its offer."""
    winners: dict[str, tuple[str, Offer]] = {}
    by_precedence = sorted(
        candidates.values(), key=lambda candidate: (candidate[0].precedence, candidate[0].source)
    )
    for contribution, versions in by_precedence:
        for version, offer in versions.items():
            winners.setdefault(version, (contribution.source, offer))
    return winners


def _version_key(offer: Offer) -> tuple[int, int, tuple[int, int, int, str]]:
    return (-offer.version_priority, offer.version_rank, kube_aware_key(offer.version.version))


def _list_key(name: str, offers: list[Offer]) -> GroupKey:
    """Return the place of the group in the unaggregated list.

    Ties are decided by the name of an APIService object, `<version>.<group>`, and so by the
    version first. Source: k8s.io/kube-aggregator
    pkg/apis/apiregistration/v1/helper/helpers.go:SortedByGroupAndVersion.
    """
    if name in (CORE_GROUP, _LISTED_FIRST):
        return (-(2**31), 0, name)
    places = (offer.list_place or (offer.group_priority, offer.group_rank) for offer in offers)
    return min(
        (-priority, rank, f"{offer.version.version}.{name}")
        for (priority, rank), offer in zip(places, offers, strict=True)
    )
