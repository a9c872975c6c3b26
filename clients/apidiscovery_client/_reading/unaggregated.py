"""Reads `APIVersions`, `APIGroupList` and `APIResourceList` in JSON."""

from collections.abc import Iterable
from datetime import datetime

from apidiscovery_client._fields import (
    Fields,
    each,
    flag,
    inner,
    present,
    required_text,
    text,
    texts,
    unknown,
)
from apidiscovery_client._reading.folding import Entry, folded
from apidiscovery_client._reading.parsed import check_group_version
from apidiscovery_client._reading.staleness import NOT_READ
from apidiscovery_client.model import (
    NO_EXTRAS,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Unknown,
    Version,
)

_GROUP = frozenset(
    {
        "kind",
        "apiVersion",
        "name",
        "versions",
        "preferredVersion",
        "serverAddressByClientCIDRs",  # which client-go ignores too
    }
)
_RESOURCE = frozenset(
    {
        "name",
        "singularName",
        "namespaced",
        "group",
        "version",
        "kind",
        "verbs",
        "shortNames",
        "categories",
        "storageVersionHash",
    }
)


def read_core(document: Fields, now: datetime) -> tuple[Group, ...]:
    """Return the core group, or nothing when it has no versions; raise `MisshapenError`.

    The first version is the preferred one (client-go discovery/discovery_client.go
    `apiVersionsToAPIGroup`).
    """
    present(document, "versions")
    return core_group(texts(document, "versions"), now)


def core_group(names: tuple[str, ...], now: datetime) -> tuple[Group, ...]:
    """Return the group of `APIVersions`, if it has any versions."""
    if not names:
        return ()
    return (Group("", listed("", names, now), stated_preference=names[0]),)


def read_groups(document: Fields, now: datetime) -> tuple[Group, ...]:
    """Return the groups in the order of the document; raise `MisshapenError`."""
    present(document, "groups")
    return each(document, "groups", lambda group: _group(group, now))


def listed(group: str, names: Iterable[str], now: datetime) -> tuple[Version, ...]:
    """Return versions whose own documents have not been read."""
    freshness = Unknown(now, NOT_READ)
    return tuple(Version(GroupVersion(group, name), freshness=freshness) for name in names)


def _group(group: Fields, now: datetime) -> Group:
    name = required_text(group, "name")
    names = each(group, "versions", lambda version: required_text(version, "version"))
    return Group(
        name,
        listed(name, names, now),
        stated_preference=text(inner(group, "preferredVersion") or {}, "version"),
        extra=unknown(group, _GROUP) or NO_EXTRAS,
    )


def read_resources(gv: GroupVersion, document: Fields) -> tuple[Resource, ...]:
    """Return the resources of `APIResourceList`; raise `MisshapenError`, `UnreadableError`."""
    check_group_version(gv, text(document, "groupVersion"))
    present(document, "resources")
    return folded(each(document, "resources", lambda entry: _entry(gv, entry)))


def _entry(gv: GroupVersion, entry: Fields) -> Entry:
    kind = GroupVersionKind(text(entry, "group"), text(entry, "version"), text(entry, "kind"))
    return Entry(
        gv=gv,
        name=required_text(entry, "name"),
        singular_name=text(entry, "singularName"),
        namespaced=flag(entry, "namespaced"),
        kind=kind,
        verbs=texts(entry, "verbs"),
        short_names=texts(entry, "shortNames"),
        categories=texts(entry, "categories"),
        storage_version_hash=text(entry, "storageVersionHash"),
        extra=unknown(entry, _RESOURCE) or NO_EXTRAS,
    )
