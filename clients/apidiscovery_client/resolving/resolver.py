"""Resolves names of resources in a snapshot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from apidiscovery_client._errors import (
    AmbiguousResource,
    DiscoveryError,
    NotServed,
    StaleGroup,
    UncertainResource,
)
from apidiscovery_client.model import (
    Current,
    Freshness,
    Group,
    Resource,
    Snapshot,
    Subresource,
    Version,
)
from apidiscovery_client.resolving.explanation import Explanation, Resolution, full_name
from apidiscovery_client.resolving.index import Index
from apidiscovery_client.resolving.lookup import (
    Lookup,
    look_up,
    look_up_kind,
    members_of,
    unsure_of_match,
    unsure_of_miss,
)
from apidiscovery_client.resolving.reading import Exact, Reading
from apidiscovery_client.resolving.suggestions import Vocabulary, nearest


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Conditions of a resource.

    Attributes:
        verb: What it must support; None for anything.
        namespaced: Whether its objects must live in namespaces, or must not; None for either.
        below: A subresource that may support the verb in its place; empty for none.
    """

    verb: str | None = None
    namespaced: bool | None = None
    below: str = ""

    @classmethod
    def of(cls, text: str, verb: str | None, namespaced: bool | None) -> Self:  # noqa: FBT001 - as it is told
        """Return what is asked for beside a text, which may name a subresource at its end."""
        below = text.rpartition("/")[2] if verb is not None and "/" in text else ""
        return cls(verb, namespaced, below)

    def __str__(self) -> str:
        verb = [] if self.verb is None else [f'with the verb "{self.verb}"']
        scopes = {None: [], True: ["in namespaces"], False: ["outside of namespaces"]}
        return " ".join([*verb, *scopes[self.namespaced]])

    def admits(self, resource: Resource) -> bool:
        """Return whether a resource, or that subresource of it, is what is asked for."""
        if self.namespaced not in (None, resource.is_namespaced):
            return False
        if self.verb is None or self.verb in resource.verbs:
            return True
        below = resource.subresource(self.below) if self.below else None
        return below is not None and self.verb in below.verbs

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without the resources that are not asked for."""
        if self.verb is None and self.namespaced is None:
            return snapshot
        return replace(snapshot, groups=tuple(self._group(group) for group in snapshot.groups))

    def _group(self, group: Group) -> Group:
        return replace(group, versions=tuple(self._version(version) for version in group.versions))

    def _version(self, version: Version) -> Version:
        return replace(version, resources=tuple(filter(self.admits, version.resources)))


_MOST_NARROWED = 16  # verbs and scopes that are remembered; there are few


class Resolver:
    """Resolves texts on one snapshot.

    It does no I/O, and threads may share it.

    Attributes:
        snapshot: The snapshot.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._all = _View(snapshot, Narrowing())
        self._narrowed: dict[Narrowing, _View] = {}

    def __repr__(self) -> str:
        return f"<Resolver of {self.snapshot.server}: {len(self.snapshot.groups)} groups>"

    def resolve(
        self,
        text: str,
        *,
        strict: bool = False,
        verb: str | None = None,
        namespaced: bool | None = None,
    ) -> Resolution:
        """Return the resource that kubectl takes a text for.

        The text may be whatever kubectl takes for a TYPE: a plural, singular or short name or a
        kind, alone, with a group or the beginning of its name (`deploy.apps`), or with version and
        group (`deployments.v1.apps`, `pods.v1.`). It may also be a kind or plural name after its
        whole group-version (`apps/v1/Deployment`, `v1/pods`, `apps/v1, Kind=Deployment`), and each
        may be followed by a subresource (`deployments/scale`). Where a text is not a name, a
        category of one resource is that resource.

        kubectl does not know group-versions that are stale. Here the order of groups is the same
        whether they answer or not, so that a text means the same as before; only of one group is
        a version that answers taken before one that does not.

        Args:
            text: The name.
            strict: Whether to refuse an uncertain result.
            verb: A verb that the resource, or the named subresource, must support; others are
                ignored as if they were not served.
            namespaced: Whether its objects must be in namespaces, or must not; as `verb`.

        Raises:
            NotServed: There is none; `unsure` says why there may be one.
            AmbiguousResource: It is a category of several resources. With `strict`: it could mean
                several resources, not counting versions of the same group-resource.
            StaleGroup: With `strict`: the result is a last known state.
            UncertainResource: With `strict`: a better match may be in an unknown group-version.
        """
        view = self._view(Narrowing.of(text, verb, namespaced))
        return view.outcome(look_up(view.index, text), strict=strict)

    def resolve_kind(
        self,
        kind: str,
        group: str | None = None,
        version: str | Sequence[str] | None = None,
        *,
        strict: bool = False,
    ) -> Resolution:
        """Return the resource of a kind; the kind is as it is or in lower case.

        Args:
            kind: Such as `Deployment`.
            group: All of its name, empty for the core group; None for the first group that has it.
            version: One, or several of which the first that is served is taken; None for the one
                that the server prefers of those that have the kind.
            strict: As in `resolve`.

        Raises:
            NotServed: As in `resolve`; so are all others.
            AmbiguousResource: Only with `strict`.
            StaleGroup: Only with `strict`.
            UncertainResource: Only with `strict`.
        """
        versions = (version,) if isinstance(version, str) else tuple(version or ())
        view = self._all
        return view.outcome(look_up_kind(view.index, kind, group, versions), strict=strict)

    def category(self, name: str) -> tuple[Resource, ...]:
        """Return the resources of a category, each once, in the server's order.

        Each is in the version that kubectl takes for it. Raises `NotServed` when there is none;
        `suggestions` are names of categories then.
        """
        index = self._all.index
        if members := members_of(index, name):
            return members
        raise NotServed(
            name,
            checked_at=self.snapshot.checked_at,
            suggestions=nearest(name, index.categories),
            unsure=unsure_of_miss(self.snapshot, index, ()),
        )

    def explain(self, text: str) -> Explanation:
        """Return how `resolve` takes a text, rule by rule; it raises nothing."""
        lookup = look_up(self._all.index, text)
        outcome: Resolution | DiscoveryError
        try:
            outcome = self._all.outcome(lookup)
        except DiscoveryError as error:
            outcome = error
        return Explanation(text, tuple(lookup.trace.steps), tuple(lookup.trace.warnings), outcome)

    def _view(self, narrowing: Narrowing) -> "_View":
        if narrowing == Narrowing():
            return self._all
        found = self._narrowed.get(narrowing)
        if found is None:
            if len(self._narrowed) >= _MOST_NARROWED:
                self._narrowed.clear()
            found = _View(narrowing.applied_to(self.snapshot), narrowing)
            self._narrowed[narrowing] = found
        return found


class _View:
    """A snapshot, or the part that meets some conditions, with its index."""

    def __init__(self, snapshot: Snapshot, narrowing: Narrowing) -> None:
        self._snapshot = snapshot
        self._narrowing = narrowing
        self._vocabulary: Vocabulary | None = None
        self.index = Index(snapshot)

    def outcome(self, lookup: Lookup, *, strict: bool = False) -> Resolution:
        """Return what was found, or raise why it is refused; as `Resolver.resolve`."""
        if lookup.found is None:
            if lookup.members:
                raise AmbiguousResource(lookup.text, [full_name(one) for one in lookup.members])
            raise self._miss(lookup)
        resolution = Resolution(
            resource=lookup.found.resource,
            subresource=self._subresource(lookup, lookup.found.resource),
            freshness=self._freshness(lookup.found.resource),
            rule=lookup.found.rule,
            warnings=tuple(lookup.trace.warnings),
            candidates=lookup.candidates,
        )
        if strict:
            self._refuse_doubt(lookup, resolution)
        return resolution

    def _subresource(self, lookup: Lookup, resource: Resource) -> Subresource | None:
        """Return the subresource that was named; raise `NotServed` when there is no such one."""
        if not lookup.below:
            if self._narrowing.verb in (None, *resource.verbs):
                return None
            raise self._miss(lookup)
        found = resource.subresource(lookup.below)
        if found and self._narrowing.verb in (None, *found.verbs):
            return found
        head = lookup.text.removesuffix(lookup.below)
        near = nearest(lookup.below, (below.name for below in resource.subresources))
        raise self._not_served(lookup, [f"{head}{name}" for name in near if name != lookup.below])

    def _miss(self, lookup: Lookup) -> NotServed:
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(self.index)
        sought = [_by_group(one) for one in lookup.sought]
        suggestions = self._vocabulary.suggestions(sought)
        if lookup.below:
            suggestions = tuple(
                f"{name}/{lookup.below}" for name in suggestions if self._has(name, lookup.below)
            )
        return self._not_served(lookup, suggestions)

    def _has(self, name: str, below: str) -> bool:
        found = look_up(self.index, name).found
        return found is not None and found.resource.subresource(below) is not None

    def _not_served(self, lookup: Lookup, suggestions: Sequence[str]) -> NotServed:
        return NotServed(
            lookup.text,
            checked_at=self._snapshot.checked_at,
            suggestions=suggestions,
            unsure=unsure_of_miss(self._snapshot, self.index, lookup.sought),
            condition=str(self._narrowing),
        )

    def _freshness(self, resource: Resource) -> Freshness:
        """Return how fresh it is what is known of a resource: of its version, else of all."""
        own = self.index.tables[resource.gv].version.freshness
        return self._snapshot.freshness if isinstance(own, Current) else own

    def _refuse_doubt(self, lookup: Lookup, resolution: Resolution) -> None:
        if len(resolution.candidates) > 1:
            raise AmbiguousResource(lookup.text, [full_name(one) for one in resolution.candidates])
        freshness, resource = resolution.freshness, resolution.resource
        if not isinstance(freshness, Current):
            raise StaleGroup(str(resource.gv), since=freshness.since, reason=freshness.reason)
        if unsure := unsure_of_match(self._snapshot, self.index, resource, lookup.rivals):
            raise UncertainResource(lookup.text, full_name(resource), unsure)


def _by_group(sought: Reading | Exact) -> Reading:
    """Return what is looked for in the group alone, whatever its version."""
    if isinstance(sought, Exact):
        return Reading(sought.name, sought.gv.group, is_whole=True)
    return replace(sought, version="")
