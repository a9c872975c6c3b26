"""The forms of each group in the clusters of a view, updated when single clusters change."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from apidiscovery_service.core.model import Group

# The different forms of a group, in the order of their clusters, and whether each is stale.
Forms: TypeAlias = tuple[tuple[Group, bool], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster that a view is made of.

    Attributes:
        groups: Its groups, or the last known ones; None if none have ever been known.
        is_stale: Whether these are the last known ones.
        unknown: Names of groups that it may serve.
    """

    name: str
    groups: tuple[Group, ...] | None
    is_stale: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The groups that it serves, or may serve."""
        return (*self.unknown, *(group.name for group in self.groups or ()))


@dataclass(slots=True)
class _Form:
    """A form of a group; most clusters share the object.

    Attributes:
        clusters: The names of the clusters that have it.
    """

    group: Group
    is_stale: bool
    clusters: set[str] = field(default_factory=set[str])


class GroupForms:
    """The forms of all groups. The cost of a change is that of the groups of one cluster."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        # By the name of the group, then by the identity of the group, which the form holds.
        self._forms: dict[str, dict[tuple[int, bool], _Form]] = {}
        # Lists of groups, and the clusters that have them.
        self._lists: dict[tuple[str, ...], set[str]] = {}

    def update(self, changed: Iterable[Member], gone: Iterable[str] = ()) -> set[str]:
        """Take new and changed clusters, and the names of removed ones.

        Returns:
            The names of the groups whose forms may have changed.
        """
        touched: set[str] = set()
        for name in gone:
            if before := self._members.pop(name, None):
                touched |= self._remove(before)
        for member in changed:
            if before := self._members.get(member.name):
                touched |= self._remove(before)
            self._members[member.name] = member
            touched |= self._add(member)
        return touched

    def _add(self, member: Member) -> set[str]:
        if member.groups is None:
            return set()
        for group in member.groups:
            forms = self._forms.setdefault(group.name, {})
            key = id(group), member.is_stale
            form = forms.get(key)
            if form is None:
                form = forms[key] = _Form(group, member.is_stale)
            form.clusters.add(member.name)
        self._lists.setdefault(member.names, set()).add(member.name)
        return {group.name for group in member.groups}

    def _remove(self, member: Member) -> set[str]:
        if member.groups is None:
            return set()
        for group in member.groups:
            forms, key = self._forms[group.name], (id(group), member.is_stale)
            forms[key].clusters.discard(member.name)
            if not forms[key].clusters:
                del forms[key]
            if not forms:
                del self._forms[group.name]
        have = self._lists[member.names]
        have.discard(member.name)
        if not have:
            del self._lists[member.names]
        return {group.name for group in member.groups}

    def of(self, group: str) -> Forms:
        """Return the forms of a group, each once; none for a group that no cluster serves."""
        forms = self._forms.get(group, {}).values()
        return tuple(
            (each.group, each.is_stale)
            for each in sorted(forms, key=lambda each: min(each.clusters))
        )

    def lists(self) -> tuple[tuple[str, ...], ...]:
        """Return the different lists of groups, in the order of the names of their clusters."""
        return tuple(sorted(self._lists, key=lambda each: min(self._lists[each])))

    def unknown(self) -> frozenset[str] | None:
        """Return the groups of which some cluster may serve more; None for all groups."""
        if any(member.groups is None for member in self._members.values()):
            return None
        return frozenset(name for each in self._members.values() for name in each.unknown)
