"""Puts the subresources of an unaggregated list below their resources.

Source: apiserver endpoints/installer.go `ConvertGroupVersionIntoToDiscovery`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from apidiscovery_client.model import (
    NAMESPACED,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
)

_NO_KIND = GroupVersionKind("", "", "")
_CLUSTER = "Cluster"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
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


def folded(entries: Iterable[Entry]) -> tuple[Resource, ...]:
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


def _resource(entry: Entry) -> Resource:
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


def _orphans_parent(name: str, child: Entry) -> Resource:
    return Resource(child.gv, name, "", child.scope, _NO_KIND, ())


def _subresource(name: str, entry: Entry) -> Subresource:
    kind = entry.kind if entry.kind.kind else _NO_KIND
    return Subresource(name, kind, entry.verbs, extra=entry.extra)
