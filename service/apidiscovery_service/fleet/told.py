"""What the clusters of a view tell of each group, kept while single clusters change."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from apidiscovery_service.core.model import Group

# What different clusters say of a group, in the order of their names, and whether it is stale.
Statements: TypeAlias = tuple[tuple[Group, bool], ...]


@dataclass(frozen=True, slots=True)
class Member:
    """A cluster that a view is made of.

    Attributes:
        groups: What it serves, or last was known to serve; None where nothing is known.
        is_stale: Whether all of that is only known as it last was.
        unknown: Names of groups of which it is not known whether it serves them.
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
class _Statement:
    """What some clusters say of a group; they mostly share what they serve.

    Attributes:
        by: Their names.
    """

    group: Group
    is_stale: bool
    by: set[str] = field(default_factory=set[str])


class Told:
    """The clusters of a view, and what they tell. A change costs what one cluster serves."""

    def __init__(self) -> None:
        self._members: dict[str, Member] = {}
        # By the name of the group, then by the identity of the group, which the statement holds.
        self._statements: dict[str, dict[tuple[int, bool], _Statement]] = {}
        # Lists of groups, and the clusters that have them.
        self._lists: dict[tuple[str, ...], set[str]] = {}

    def update(self, changed: Iterable[Member], gone: Iterable[str] = ()) -> set[str]:
        """Take clusters that are new or changed, and the names of those that are gone.

        Returns:
            The names of the groups of which something else may be told.
        """
        touched: set[str] = set()
        for name in gone:
            if before := self._members.pop(name, None):
                touched |= self._withdraw(before)
        for member in changed:
            if before := self._members.get(member.name):
                touched |= self._withdraw(before)
            self._members[member.name] = member
            touched |= self._state(member)
        return touched

    def _state(self, member: Member) -> set[str]:
        if member.groups is None:
            return set()
        for group in member.groups:
            said = self._statements.setdefault(group.name, {})
            key = id(group), member.is_stale
            statement = said.get(key)
            if statement is None:
                statement = said[key] = _Statement(group, member.is_stale)
            statement.by.add(member.name)
        self._lists.setdefault(member.names, set()).add(member.name)
        return {group.name for group in member.groups}

    def _withdraw(self, member: Member) -> set[str]:
        if member.groups is None:
            return set()
        for group in member.groups:
            said, key = self._statements[group.name], (id(group), member.is_stale)
            said[key].by.discard(member.name)
            if not said[key].by:
                del said[key]
            if not said:
                del self._statements[group.name]
        have = self._lists[member.names]
        have.discard(member.name)
        if not have:
            del self._lists[member.names]
        return {group.name for group in member.groups}

    def of(self, group: str) -> Statements:
        """Return what is told of a group, each once; nothing for a group that nobody serves."""
        said = self._statements.get(group, {}).values()
        return tuple(
            (each.group, each.is_stale) for each in sorted(said, key=lambda each: min(each.by))
        )

    def lists(self) -> tuple[tuple[str, ...], ...]:
        """Return the different lists of groups, in the order of the names of their clusters."""
        return tuple(sorted(self._lists, key=lambda each: min(self._lists[each])))

    def unknown(self) -> frozenset[str] | None:
        """Return the groups of which some cluster may serve more; None for all groups."""
        if any(member.groups is None for member in self._members.values()):
            return None
        return frozenset(name for each in self._members.values() for name in each.unknown)
