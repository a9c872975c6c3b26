"""The latest contributions of all sources, merged into one snapshot.

The rules are those of k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go:
calculateAPIGroupsLocked. The unit of conflict is the group-version: the source of lowest
precedence number wins it whole, and when that source withdraws, the next one re-appears. The
result depends only on the contributions, never on the order in which they came.

An update is merged first, which changes nothing; only `_commit` assigns.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from apidiscovery_service.core.chunks import GroupKey, PublishedGroup
from apidiscovery_service.core.model import CORE_GROUP, Contribution, Group, Offer
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.version_order import kube_aware_key
from apidiscovery_service.errors import InvalidContribution

T = TypeVar("T")

# The aggregator lists this group first, whatever its priority.
# Source: k8s.io/kube-aggregator pkg/apiserver/handler_apis.go:apisHandler.ServeHTTP.
_LISTED_FIRST = "apiregistration.k8s.io"

# The contributions to a group by source, each with its offers of the group by version.
_Candidates: TypeAlias = dict[str, tuple[Contribution, dict[str, Offer]]]


@dataclass(frozen=True, slots=True)
class Update:
    """A change of a registry that is merged and not published yet.

    Attributes:
        serial: The number of updates before it; it fits no other state of the registry.
        changes: The new contribution of each source, None for one that is withdrawn.
        candidates: The new candidates of each group; none for a group that is gone.
        touched: Groups that may look different, or have another source.
        fresh: Groups that will be served and were not served like this.
        gone: Groups that were served and will not be served like this.
        snapshot: What will be served. Its ETags take longer than all the rest, and are made when
            they are asked for.
    """

    serial: int
    changes: dict[str, Contribution | None]
    candidates: dict[str, _Candidates]
    touched: frozenset[str]
    fresh: list[PublishedGroup]
    gone: list[PublishedGroup]
    snapshot: Snapshot


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
        self._serial = 0
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
        """Tell whether a source offers anything whose name has none of these prefixes."""
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

        They may look as before, and have another source. The cause is that of `update`, otherwise
        the sources that serve the groups; those that did where none does any more.
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
        prepared: Update | None = None,
        cause: str = "",
    ) -> Snapshot:
        """Withdraw and publish in one step, with one snapshot; what is published stays.

        Args:
            contributions: Each takes the place of the earlier one of its source.
            withdrawn: Names of sources; unknown ones are ignored.
            prepared: The result of `prepare` for the same change, if there is one; a state
                that was updated since is merged anew.
            cause: Why, in one line; empty where the names of the sources say all.

        Raises:
            InvalidContribution: As `publish`; then nothing is withdrawn either.
        """
        changes = self._changes(contributions, withdrawn)
        if prepared and (prepared.serial, prepared.changes) == (self._serial, changes):
            return self._commit(prepared, cause)
        return self._commit(self._merged(changes), cause)

    def prepare(self, *contributions: Contribution) -> Update:
        """Merge contributions ahead of publishing them; what is served stays as it is.

        Raises:
            InvalidContribution: As `publish`.
        """
        return self._merged(self._changes(contributions, ()))

    def _changes(
        self, contributions: Iterable[Contribution], withdrawn: Iterable[str]
    ) -> dict[str, Contribution | None]:
        changes: dict[str, Contribution | None] = {
            source: None for source in withdrawn if source in self._contributions
        }
        for contribution in contributions:
            changes[contribution.source] = contribution
        return changes

    def _merged(self, changes: dict[str, Contribution | None]) -> Update:
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
        fresh: list[PublishedGroup] = []
        gone: list[PublishedGroup] = []
        for name in touched:
            published = self._published.get(name)
            merged = self._merge(name, candidates[name], published) if candidates[name] else None
            if merged is not published:
                gone += [published] if published else []
                fresh += [merged] if merged else []
        snapshot = self._snapshot.changed(fresh, gone) if fresh or gone else self._snapshot
        return Update(self._serial, changes, candidates, frozenset(touched), fresh, gone, snapshot)

    def _merge(
        self, name: str, candidates: _Candidates, published: PublishedGroup | None
    ) -> PublishedGroup:
        """Return the group that the candidates make; the published one if it is the same."""
        offers = sorted((offer for _, offer in _winners(candidates).values()), key=_version_key)
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

    def _commit(self, update: Update, cause: str) -> Snapshot:
        former = self.sources_of(update.touched)
        self._serial += 1
        _assign(self._contributions, update.changes)
        _assign(self._candidates, update.candidates)
        for group in update.gone:
            del self._published[group.name]
        self._published |= {group.name: group for group in update.fresh}
        if update.snapshot is not self._snapshot:
            update.snapshot.etags()  # now, since readers must not wait for them
            self._snapshot = update.snapshot
            for listener in self._listeners:
                listener(self._snapshot)
        if update.touched:
            sources = self.sources_of(update.touched) or former
            for touch_listener in self._touch_listeners:
                touch_listener(update.touched, frozenset({cause}) if cause else sources)
        return self._snapshot


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
