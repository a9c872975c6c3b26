"""The groups in their order, and each with its versions, kinds and sources."""

from dataclasses import dataclass

from apidiscovery_service.core.model import Group, Version
from apidiscovery_service.web.name_search import kinds_of
from apidiscovery_service.web.paging import paged
from apidiscovery_service.web.view import Page, View, group_named, not_found

_GROUPS = 100  # of a page


@dataclass(frozen=True, slots=True)
class GroupLine:
    """A group in the list: its versions in their order, and how many kinds it has."""

    name: str
    versions: tuple[Version, ...]
    kinds: int
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VersionLine:
    """A version of a group: the source that serves it, and those that it takes precedence over."""

    version: Version
    source: str
    shadowed: tuple[str, ...]


async def listing(view: View) -> Page:
    """Make the page of all groups."""
    snapshot = view.snapshot.snapshot
    groups = (*snapshot.core.groups, *snapshot.named.groups)
    pages = paged(groups, _GROUPS, view.parameter("page"))
    lines = [_line(view, published.group) for published in pages.items]
    return Page("groups.html", {"groups": lines, "pages": pages})


async def one(view: View) -> Page:
    """Make the page of a group."""
    name = group_named(view.captured["group"])
    group = view.snapshot.group(name)
    in_clusters = {
        cluster: found
        for cluster, known in view.scope.clusters.items()
        for found in known.groups or ()
        if found.name == name
    }
    if group is None and not in_clusters:
        raise not_found(f"No group {name or 'core'} is served here. The groups page lists all.")
    shown = group or next(iter(in_clusters.values()))
    return Page(
        "group.html",
        {
            "group": shown,
            "is_merged": group is not None,
            "versions": _versions(view, shown) if group else _plain_versions(shown),
            "kinds": kinds_of(shown),
            "clusters": {
                cluster: [version.version for version in found.versions]
                for cluster, found in in_clusters.items()
            },
        },
    )


def _line(view: View, group: Group) -> GroupLine:
    sources = sorted(set(view.served.registry.winners(group.name).values()))
    return GroupLine(group.name, group.versions, len(kinds_of(group)), tuple(sources))


def _versions(view: View, group: Group) -> list[VersionLine]:
    registry = view.served.registry
    winners = registry.winners(group.name)
    lines: list[VersionLine] = []
    for version in group.versions:
        source = winners.get(version.version, "")
        others = (
            name
            for name in registry.sources
            if name != source and _offers(view, name, group.name, version.version)
        )
        lines.append(VersionLine(version, source, tuple(others)))
    return lines


def _plain_versions(group: Group) -> list[VersionLine]:
    return [VersionLine(version, "", ()) for version in group.versions]


def _offers(view: View, source: str, group: str, version: str) -> bool:
    contribution = view.served.registry.contribution(source)
    return contribution is not None and any(
        (offer.group, offer.version.version) == (group, version) for offer in contribution.offers
    )
