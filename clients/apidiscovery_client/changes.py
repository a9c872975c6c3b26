"""The differences between two snapshots, as typed changes.

A change is about the outermost thing: an added group is one `GroupAdded`, which has its versions
and resources. Where `changes` returns nothing, the groups are equal.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, TypeVar

from apidiscovery_client._terminal import printable
from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Snapshot,
    Stale,
    Version,
    path_of,
)

_Kind: TypeAlias = Literal["groups", "versions", "resources"]
# A server should not list a name twice; where it does, the first is compared with the first.
_Key: TypeAlias = tuple[str, int]
_T = TypeVar("_T", Group, Version, Resource)


@dataclass(frozen=True, slots=True)
class GroupAdded:
    """A group was not served before and is now."""

    group: Group

    def __str__(self) -> str:
        versions = ", ".join(version.name for version in self.group.versions)
        return printable(f"group {_group(self.group.name)} added: {versions or 'no versions'}")


@dataclass(frozen=True, slots=True)
class GroupRemoved:
    """A group is no longer served; `group` is as it was."""

    group: Group

    def __str__(self) -> str:
        return printable(f"group {_group(self.group.name)} removed")


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """Something else of a group changed, such as unknown fields.

    Attributes:
        fields: Names of the attributes that differ.
    """

    before: Group
    after: Group
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return printable(f"group {_group(self.after.name)} changed: {', '.join(self.fields)}")


@dataclass(frozen=True, slots=True)
class VersionAdded:
    """A group that was served has one more version."""

    version: Version

    def __str__(self) -> str:
        count = len(self.version.resources)
        return printable(f"version {self.version.gv} added: {count} resource{'s' * (count != 1)}")


@dataclass(frozen=True, slots=True)
class VersionRemoved:
    """A group that is still served has one version less; `version` is as it was."""

    version: Version

    def __str__(self) -> str:
        return printable(f"version {self.version.gv} removed")


@dataclass(frozen=True, slots=True)
class VersionChanged:
    """Something else of a version changed, such as unknown fields.

    Attributes:
        fields: Names of the attributes that differ.
    """

    before: Version
    after: Version
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return printable(f"version {self.after.gv} changed: {', '.join(self.fields)}")


@dataclass(frozen=True, slots=True)
class PreferredVersionChanged:
    """A group prefers another of its versions.

    Attributes:
        group: Its name.
        before: Name of a version; empty when there was none.
        after: The same now.
    """

    group: str
    before: str
    after: str

    def __str__(self) -> str:
        now = self.after or "no version"
        return printable(
            f"group {_group(self.group)} prefers {now}, before: {self.before or 'none'}"
        )


@dataclass(frozen=True, slots=True)
class FreshnessChanged:
    """A group-version became stale, unknown or current."""

    gv: GroupVersion
    before: Freshness
    after: Freshness

    def __str__(self) -> str:
        return printable(f"version {self.gv} {_freshness(self.after)}")


@dataclass(frozen=True, slots=True)
class ServerFreshnessChanged:
    """The server stopped answering, or answers again."""

    server: str
    before: Freshness
    after: Freshness

    def __str__(self) -> str:
        return printable(f"server {self.server} {_freshness(self.after)}")


@dataclass(frozen=True, slots=True)
class ResourceAdded:
    """A version that was served has one more resource."""

    resource: Resource

    def __str__(self) -> str:
        return printable(
            f"resource {_resource(self.resource)} added: {self.resource.kind or 'no kind'}"
        )


@dataclass(frozen=True, slots=True)
class ResourceRemoved:
    """A version that is still served has one resource less; `resource` is as it was."""

    resource: Resource

    def __str__(self) -> str:
        return printable(f"resource {_resource(self.resource)} removed")


@dataclass(frozen=True, slots=True)
class ResourceChanged:
    """A resource is served differently.

    Attributes:
        fields: Names of the attributes that differ, in the order of `Resource`.
    """

    before: Resource
    after: Resource
    fields: tuple[str, ...]

    def __str__(self) -> str:
        told = (_field(name, self.before, self.after) for name in self.fields)
        return printable(f"resource {_resource(self.after)} changed: {'; '.join(told)}")


@dataclass(frozen=True, slots=True)
class OrderChanged:
    """The order, which is that of preference, changed.

    Attributes:
        kind: What has another order.
        of: The group of the versions, the group-version of the resources; empty for groups.
        before: Names of those in both snapshots, in the earlier order.
        after: The same names in the later order.
    """

    kind: _Kind
    of: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    def __str__(self) -> str:
        pairs = zip(self.before, self.after, strict=True)
        old, new = next(((old, new) for old, new in pairs if old != new), ("", ""))
        if self.kind == "groups":
            return printable(f"groups reordered: {_group(new)} comes where {_group(old)} was")
        of = _group(self.of) if self.kind == "versions" else self.of
        return printable(f"{self.kind} of {of} reordered: {new} comes where {old} was")


Change: TypeAlias = (
    GroupAdded
    | GroupRemoved
    | GroupChanged
    | VersionAdded
    | VersionRemoved
    | VersionChanged
    | PreferredVersionChanged
    | FreshnessChanged
    | ServerFreshnessChanged
    | ResourceAdded
    | ResourceRemoved
    | ResourceChanged
    | OrderChanged
)


def changes(before: Snapshot | None, after: Snapshot) -> tuple[Change, ...]:
    """Return the differences of the later snapshot.

    The order is: whether the server answers, then the groups in the order of the later snapshot,
    in each its versions, and in each of these its resources. A removed thing comes after its last
    predecessor that is still there. A group whose document failed (`Snapshot.failures`) is not
    taken for removed.

    Args:
        before: The earlier one; None for an empty one.
        after: The later one. Groups that are the same objects as before cost nothing.
    """
    if before is None:
        return (*_of_server(after.server, CURRENT, after.freshness), *map(GroupAdded, after.groups))
    told = list(_of_server(after.server, before.freshness, after.freshness))
    if before.groups is not after.groups:
        told += _of_groups(before, after)
    return tuple(told)


def _of_server(server: str, before: Freshness, after: Freshness) -> Iterator[Change]:
    if type(before) is not type(after):
        yield ServerFreshnessChanged(server, before, after)


def _of_groups(before: Snapshot, after: Snapshot) -> Iterator[Change]:
    then, now = _by_name(before.groups), _by_name(after.groups)
    for old, new in _pairs(then, now):
        if new is None:
            if old is not None and path_of(old.name) not in after.failures:
                yield GroupRemoved(old)
        elif old is None:
            yield GroupAdded(new)
        elif old is not new:
            yield from _of_group(old, new)
    yield from _reordered("groups", "", then, now)


def _of_group(before: Group, after: Group) -> Iterator[Change]:
    others = _different(before, after, ("stated_preference", "extra"))
    if before.preferred_version != after.preferred_version:
        yield PreferredVersionChanged(after.name, before.preferred_version, after.preferred_version)
        others = tuple(name for name in others if name != "stated_preference")
    if others:
        yield GroupChanged(before, after, others)
    then, now = _by_name(before.versions), _by_name(after.versions)
    for old, new in _pairs(then, now):
        if new is None:
            if old is not None:
                yield VersionRemoved(old)
        elif old is None:
            yield VersionAdded(new)
        elif old is not new:
            yield from _of_version(old, new)
    yield from _reordered("versions", after.name, then, now)


def _of_version(before: Version, after: Version) -> Iterator[Change]:
    others = _different(before, after, ("gv", "stated_freshness", "extra"))
    if before.freshness != after.freshness:
        yield FreshnessChanged(after.gv, before.freshness, after.freshness)
        others = tuple(name for name in others if name != "stated_freshness")
    if others:
        yield VersionChanged(before, after, others)
    then, now = _by_name(before.resources), _by_name(after.resources)
    for old, new in _pairs(then, now):
        if new is None:
            if old is not None:
                yield ResourceRemoved(old)
        elif old is None:
            yield ResourceAdded(new)
        elif different := _different(old, new, _RESOURCE_FIELDS):
            yield ResourceChanged(old, new, different)
    yield from _reordered("resources", str(after.gv), then, now)


_RESOURCE_FIELDS = tuple(field.name for field in fields(Resource))


def _different(before: object, after: object, names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in names if getattr(before, name) != getattr(after, name))


def _by_name(items: tuple[_T, ...]) -> dict[_Key, _T]:
    seen: dict[str, int] = {}
    keyed: dict[_Key, _T] = {}
    for item in items:
        place = seen.get(item.name, 0)
        seen[item.name] = place + 1
        keyed[item.name, place] = item
    return keyed


def _pairs(
    before: Mapping[_Key, _T], after: Mapping[_Key, _T]
) -> Iterator[tuple[_T | None, _T | None]]:
    """Yield pairs of before and after in order, None for what is only in the other."""
    gone: dict[_Key | None, list[_T]] = {}
    kept: _Key | None = None
    for key, old in before.items():
        if key in after:
            kept = key
        else:
            gone.setdefault(kept, []).append(old)
    yield from ((old, None) for old in gone.get(None, ()))
    for key, new in after.items():
        yield before.get(key), new
        yield from ((old, None) for old in gone.get(key, ()))


def _reordered(
    kind: _Kind, of: str, before: Mapping[_Key, _T], after: Mapping[_Key, _T]
) -> Iterator[OrderChanged]:
    old = tuple(key[0] for key in before if key in after)
    new = tuple(key[0] for key in after if key in before)
    if old != new:
        yield OrderChanged(kind, of, old, new)


# --------------------------------------------------------------------------------------------------
# Texts.


def _group(name: str) -> str:
    return name or "core"


def _resource(resource: Resource) -> str:
    """Return a name that kubectl takes, such as `deployments.v1.apps`."""
    gv = resource.gv
    return f"{resource.name}.{gv.version}.{gv.group}" if gv.group else f"{resource.name}.{gv}"


def _freshness(freshness: Freshness) -> str:
    if isinstance(freshness, Current):
        return "is current again"
    word = "stale" if isinstance(freshness, Stale) else "unknown"
    return f"is {word}: {freshness.reason}"


def _field(name: str, before: Resource, after: Resource) -> str:
    """Return the change of an attribute: added and removed items of a list, else both values."""
    title = name.replace("_", " ")
    match name:
        case "extra":
            return title
        case "verbs" | "short_names" | "categories":
            return f"{title} {_difference(getattr(before, name), getattr(after, name))}"
        case "subresources":
            old, new = (
                {found.name: found for found in side.subresources} for side in (before, after)
            )
            altered = [f"~{name}" for name in new if name in old and old[name] != new[name]]
            return " ".join((title, _difference(tuple(old), tuple(new), altered)))
        case _:
            return f"{title} {_text(getattr(before, name))} -> {_text(getattr(after, name))}"


def _difference(old: Sequence[str], new: Sequence[str], altered: Sequence[str] = ()) -> str:
    added = (f"+{name}" for name in new if name not in old)
    removed = (f"-{name}" for name in old if name not in new)
    return " ".join((*added, *removed, *altered)) or "reordered"


def _text(value: object) -> str:
    if isinstance(value, GroupVersionKind) and not (value.group or value.version):
        return value.kind or "''"
    return "none" if value is None else str(value) or "''"
