"""The latest contribution of every source, merged into one snapshot.

The rules are those of k8s.io/apiserver pkg/endpoints/discovery/aggregated/handler.go:
calculateAPIGroupsLocked. The unit of conflict is the group-version: the source of lowest
precedence number wins it whole, and when that source withdraws, the next one re-appears. The
result depends on which contributions there are, never on the order in which they came.

Only `_publish` assigns the snapshot.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from apidiscovery_service.core.chunks import GroupKey, PublishedGroup
from apidiscovery_service.core.model import CORE_GROUP, Contribution, Group, Offer
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.version_priority import kube_aware_key
from apidiscovery_service.errors import InvalidContribution

Listener = Callable[[Snapshot], None]

# What the aggregator lists first whatever its priority.
# Source: k8s.io/kube-aggregator pkg/apiserver/handler_apis.go:apisHandler.ServeHTTP.
_LISTED_FIRST = "apiregistration.k8s.io"

_Candidates = dict[str, tuple[Contribution, dict[str, Offer]]]


@dataclass(frozen=True, slots=True)
class _Rehearsal:
    """What a publication will come to if it is made on a certain snapshot."""

    base: Snapshot
    fresh: list[PublishedGroup]
    gone: list[PublishedGroup]
    snapshot: Snapshot


class Registry:
    """Merges contributions; `snapshot` is the present result.

    It belongs to one thread. A snapshot, once read, may go anywhere.
    """

    def __init__(self) -> None:
        self._contributions: dict[str, Contribution] = {}
        # group -> source -> (contribution, version -> offer)
        self._offered: dict[str, _Candidates] = {}
        self._published: dict[str, PublishedGroup] = {}
        self._snapshot = Snapshot()
        self._rehearsal: _Rehearsal | None = None
        self._listeners: list[Listener] = []
        self._touch_listeners: list[Callable[[frozenset[str]], None]] = []

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
        """Tell whether a source offers anything whose name begins with none of these."""
        return any(
            one.offers and not one.source.startswith(prefixes)
            for one in self._contributions.values()
        )

    def winners(self, group: str) -> dict[str, str]:
        """Return the source that serves each version of a group, by version."""
        return {
            version: source
            for version, (source, _) in _winners(self._offered.get(group, {})).items()
        }

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each new snapshot, at once and in this thread, until undone.

        Returns:
            What to call to end the subscription.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def on_touched(self, listener: Callable[[frozenset[str]], None]) -> None:
        """Call `listener` after each update with the groups of which something was contributed.

        They may look as before, and have another source.
        """
        self._touch_listeners.append(listener)

    def publish(self, *contributions: Contribution) -> Snapshot:
        """Take contributions in place of earlier ones of the same sources, all at once.

        Returns:
            The snapshot that has them; the one before if nothing that is served changed.

        Raises:
            InvalidContribution: One offers a group-version twice; then none is taken.
        """
        return self.update(contributions, ())

    def withdraw(self, *sources: str) -> Snapshot:
        """Drop what these sources contributed; unknown ones are passed over."""
        return self.update((), sources)

    def update(self, contributions: Iterable[Contribution], withdrawn: Iterable[str]) -> Snapshot:
        """Withdraw and publish in one step, with one snapshot; what is published stays.

        Raises:
            InvalidContribution: As `publish`; then nothing is withdrawn either.
        """
        indexed = [(contribution, _by_group(contribution)) for contribution in contributions]
        touched: set[str] = set()
        for source in withdrawn:
            touched |= self._forget(source, None, {})
        for contribution, groups in indexed:
            touched |= self._forget(contribution.source, contribution, groups)
            self._contributions[contribution.source] = contribution
            for group, versions in groups.items():
                candidates = self._offered.setdefault(group, {})
                candidates[contribution.source] = (contribution, versions)
        return self._publish(touched)

    def rehearse(self, contribution: Contribution) -> Snapshot:
        """Work ahead for a contribution that is likely to be published next.

        What is served stays as it is.

        Returns:
            What is served then. Its ETags, which take longer than all the rest, are not made yet.

        Raises:
            InvalidContribution: As `publish`.
        """
        fresh: list[PublishedGroup] = []
        gone: list[PublishedGroup] = []
        for name, versions in _by_group(contribution).items():
            others = self._offered.get(name, {})
            before = self._published.get(name)
            candidates = {**others, contribution.source: (contribution, versions)}
            after = _merge(name, candidates, [before] if before else [])
            if after is not before:
                fresh.append(after)
                gone += [before] if before else []
        snapshot = self._snapshot.changed(fresh, gone)
        self._rehearsal = _Rehearsal(self._snapshot, fresh, gone, snapshot)
        return snapshot

    def _forget(
        self, source: str, successor: Contribution | None, groups: dict[str, dict[str, Offer]]
    ) -> set[str]:
        """Take a source out of the index.

        Returns:
            The groups that may look different once `successor`, which offers `groups`, is in.
        """
        touched = set(groups)
        former = self._contributions.pop(source, None)
        if former is None:
            return touched
        same_rank = successor is not None and successor.precedence == former.precedence
        for group in {offer.group for offer in former.offers}:
            candidates = self._offered[group]
            _, versions = candidates.pop(source)
            if same_rank and groups.get(group) == versions:
                touched.discard(group)
            else:
                touched.add(group)
            if not candidates:
                del self._offered[group]
        return touched

    def _publish(self, touched: set[str]) -> Snapshot:
        rehearsal = self._rehearsal
        fresh: list[PublishedGroup] = []
        gone: list[PublishedGroup] = []
        for name in touched:
            before = self._published.get(name)
            after = self._merged(name, before, rehearsal)
            if after is before:
                continue
            if before is not None:
                gone.append(self._published.pop(name))
            if after is not None:
                fresh.append(after)
                self._published[name] = after
        if fresh or gone:
            snapshot = self._changed(fresh, gone)
            snapshot.etags()  # now, for whoever reads it must not wait
            self._snapshot = snapshot
            self._rehearsal = None
            for listener in tuple(self._listeners):
                listener(self._snapshot)
        if touched:
            for touch_listener in self._touch_listeners:
                touch_listener(frozenset(touched))
        return self._snapshot

    def _changed(self, fresh: list[PublishedGroup], gone: list[PublishedGroup]) -> Snapshot:
        known = self._rehearsal
        if known and (known.base, known.fresh, known.gone) == (self._snapshot, fresh, gone):
            return known.snapshot
        return self._snapshot.changed(fresh, gone)

    def _merged(
        self, name: str, before: PublishedGroup | None, rehearsal: _Rehearsal | None
    ) -> PublishedGroup | None:
        """Return a group as it is now, by identity if it is known; None when there is none."""
        if name not in self._offered:
            return None
        known = [before] if before else []
        known += [group for group in (rehearsal.fresh if rehearsal else ()) if group.name == name]
        return _merge(name, self._offered[name], known)


def _by_group(contribution: Contribution) -> dict[str, dict[str, Offer]]:
    groups: dict[str, dict[str, Offer]] = {}
    for offer in contribution.offers:
        versions = groups.setdefault(offer.group, {})
        if versions.setdefault(offer.version.version, offer) is not offer:
            name = f"{offer.group}/{offer.version.version}".lstrip("/")
            raise InvalidContribution(f"source {contribution.source!r} offers {name} twice")
    return groups


def _merge(name: str, candidates: _Candidates, known: Sequence[PublishedGroup]) -> PublishedGroup:
    """Return the group that the candidates make; one of those known if it is the same."""
    offers = sorted((offer for _, offer in _winners(candidates).values()), key=_version_key)
    group = Group(name, tuple(offer.version for offer in offers))
    key = min((-offer.group_priority, offer.group_rank, name) for offer in offers)
    list_key = _list_key(name, offers)
    for one in known:
        if (one.group, one.key, one.list_key) == (group, key, list_key):
            return one
    return PublishedGroup(group, key, list_key)


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
