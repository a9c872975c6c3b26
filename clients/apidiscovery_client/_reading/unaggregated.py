"""Reads `APIVersions`, `APIGroupList` and `APIResourceList` in JSON; subresources are nested.

Source for nesting: apiserver endpoints/installer.go `ConvertGroupVersionIntoToDiscovery`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
from apidiscovery_client._reading.parsed import NOT_READ, check_group_version
from apidiscovery_client.model import (
    NAMESPACED,
    NO_EXTRAS,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedResource:
    """An `APIResource`, which is a subresource when its name has a slash.

    Attributes:
        kind: With empty group and version where those are the list's.
    """

    gv: GroupVersion
    name: str
    singular_name: str
    namespaced: bool
    kind: GroupVersionKind
    verbs: tuple[str, ...]
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    storage_version_hash: str
    extra: Mapping[str, object]

    @property
    def scope(self) -> str:
        """Return the word that aggregated documents have for it."""
        return NAMESPACED if self.namespaced else _CLUSTER


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


def _entry(gv: GroupVersion, entry: Fields) -> ListedResource:
    kind = GroupVersionKind(text(entry, "group"), text(entry, "version"), text(entry, "kind"))
    return ListedResource(
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


_NO_KIND = GroupVersionKind("", "", "")
_CLUSTER = "Cluster"


def folded(entries: Iterable[ListedResource]) -> tuple[Resource, ...]:
    """Return the resources in order, then those that are known by their subresources only.

    A name that is there twice stays there twice, and the later one has the subresources. Other
    than in apiserver, a subresource of another scope than its resource is not an error: clients
    take the scope from the resource anyway, and the rest of the group-version is of use.
    """
    entries = tuple(entries)
    resources = [_resource(entry) for entry in entries if "/" not in entry.name]
    places = {resource.name: place for place, resource in enumerate(resources)}
    children: dict[int, list[Subresource]] = {}
    for entry in entries:
        parent, slash, name = entry.name.partition("/")
        if not slash:
            continue
        if parent not in places:
            places[parent] = len(resources)
            resources.append(_orphans_parent(parent, entry))
        children.setdefault(places[parent], []).append(_subresource(name, entry))
    for place, subresources in children.items():
        resources[place] = replace(resources[place], subresources=tuple(subresources))
    return tuple(resources)


def _resource(entry: ListedResource) -> Resource:
    return Resource(
        gv=entry.gv,
        name=entry.name,
        singular_name=entry.singular_name,
        scope=entry.scope,
        response_kind=entry.kind,
        verbs=entry.verbs,
        short_names=entry.short_names,
        categories=entry.categories,
        storage_version_hash=entry.storage_version_hash,
        extra=entry.extra,
    )


def _orphans_parent(name: str, child: ListedResource) -> Resource:
    return Resource(child.gv, name, "", child.scope, _NO_KIND, ())


def _subresource(name: str, entry: ListedResource) -> Subresource:
    kind = entry.kind if entry.kind.kind else _NO_KIND
    return Subresource(name, kind, entry.verbs, extra=entry.extra)
