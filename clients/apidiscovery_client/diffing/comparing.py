"""Compares what two servers, releases or saved snapshots serve, for clients of the first."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.diffing.findings import Finding, Report, Rule
from apidiscovery_client.diffing.sides import Destinations, Names, Sides
from apidiscovery_client.model import (
    CURRENT,
    Group,
    GroupVersionKind,
    Resource,
    Snapshot,
    Subresource,
    Version,
)
from apidiscovery_client.resolving import Resolver, full_name
from apidiscovery_client.resolving.index import Index


def compare(
    before: Snapshot, after: Snapshot, names: Names | None = None, *, resolves: bool = True
) -> Report:
    """Return what changes for clients of `before` when they meet `after`.

    Only what both sides know is compared: parts and versions that one side does not know are
    findings where the other side knows them, otherwise doubts; they never count as removed. Where
    one side is a release of Kubernetes, groups that no release has are left out. Fields that a side
    lacks, such as hashes of storage versions, are not compared.

    Args:
        before: The first side.
        after: The second side.
        names: Their names in the report, by default their servers, which are the same for a
            server and its saved snapshot.
        resolves: Whether names are compared that lead from one group to another; false for sides
            that are parts of servers.
    """
    names = names or Names(before.server, after.server)
    sides = Sides(before, after, names)
    resolved = _name_findings(sides) if resolves else ()
    findings = chain(sides.findings(), _groups(sides), resolved)
    return Report(names.before, names.after, tuple(findings), sides.doubts)


def _groups(sides: Sides) -> Iterator[Finding]:
    for group in sides.before.groups:
        if found := sides.group_after(group.name):
            yield from _versions(sides, group, found)
            yield from _compared_words(sides, group, found)
        else:
            yield from _group_removed(sides, group)
    for group in sides.after.groups:
        if sides.group_before(group.name) is None:
            versions = ", ".join(version.name for version in group.versions)
            message = f"added with {versions or 'no versions'}"
            yield Finding(Rule.GROUP_ADDED, _group_name(group), message)


def _group_removed(sides: Sides, group: Group) -> Iterator[Finding]:
    current = [version for version in group.versions if version.freshness == CURRENT]
    if current or not group.versions:  # stale versions are among the doubts
        moves = sides.destinations.moves_of(_resources(current))
        versions = ", ".join(version.name for version in group.versions) or "no versions"
        message = f"removed, with {versions}{_and(moves.text)}"
        yield Finding(Rule.GROUP_REMOVED, _group_name(group), message, moves_to=moves.targets)


def _versions(sides: Sides, before: Group, after: Group) -> Iterator[Finding]:
    for version in before.versions:
        found = after.version(version.name)
        if found is None:
            yield from _version_removed(sides, version)
        elif sides.is_certain(version.gv):
            yield from _compared_resources(version, found, sides.destinations)
        elif freshness := sides.freshness(version.gv):
            yield freshness
    for version in after.versions:
        if before.version(version.name) is None:
            kinds = ", ".join(resource.kind or resource.name for resource in version.resources)
            yield Finding(
                Rule.VERSION_ADDED, str(version.gv), f"added with {kinds or 'no resources'}"
            )
    yield from _preference(before, after)


def _version_removed(sides: Sides, version: Version) -> Iterator[Finding]:
    if version.freshness == CURRENT:
        moves = sides.destinations.moves_of(version.resources)
        message = f"removed{_and(moves.text)}"
        yield Finding(Rule.VERSION_REMOVED, str(version.gv), message, moves_to=moves.targets)


def _preference(before: Group, after: Group) -> Iterator[Finding]:
    was, now = before.preferred_version, after.preferred_version
    still = after.version(was)
    if was != now and still and still.freshness == CURRENT:
        yield Finding(
            Rule.PREFERRED_VERSION_CHANGED,
            _group_name(before),
            f"prefers {now}, and preferred {was}",
            was,
            now,
        )


def _resources(versions: Iterable[Version]) -> list[Resource]:
    """Return each resource once, in the most preferred version."""
    found: dict[str, Resource] = {}
    for version in versions:
        for resource in version.resources:
            found.setdefault(resource.name, resource)
    return list(found.values())


def _group_name(group: Group) -> str:
    return group.name or "core"


def _and(text: str) -> str:
    return f": {text}" if text else ""


def _compared_resources(
    before: Version, after: Version, destinations: Destinations
) -> Iterator[Finding]:
    """Yield the differences between the resources of a version."""
    now = {resource.name: resource for resource in after.resources}
    was = {resource.name: resource for resource in before.resources}
    for name, resource in was.items():
        if found := now.get(name):
            yield from _resource(resource, found)
        else:
            moves = destinations.moves_of([resource])
            message = f"removed: {moves.text}"
            subject = full_name(resource)
            yield Finding(Rule.RESOURCE_REMOVED, subject, message, moves_to=moves.targets)
    for name, resource in now.items():
        if name not in was:
            message = f"added: {resource.kind or 'no kind'}"
            yield Finding(Rule.RESOURCE_ADDED, full_name(resource), message)


def _compared_words(sides: Sides, before: Group, after: Group) -> Iterator[Finding]:
    """Yield the short names and categories that the resources of a group lost or gained.

    Versions are ignored: a word resolves to a resource in any version. A group that is not current
    on both sides is skipped.
    """
    if sides.is_doubtful(before.name):
        return
    was, now = _by_name(before), _by_name(after)
    for name in was:
        if name in now:
            yield from _words(was[name], now[name])


def _resource(before: Resource, after: Resource) -> Iterator[Finding]:
    subject = full_name(before)
    if before.gvk != after.gvk:
        yield _kind_changed(subject, before.gvk, after.gvk)
    if before.is_namespaced != after.is_namespaced:
        yield _changed(Rule.SCOPE_CHANGED, subject, "scope", before.scope, after.scope)
    yield from _verbs(subject, before.verbs, after.verbs)
    yield from _subresources(before, after)
    old, new = before.storage_version_hash, after.storage_version_hash
    if old and new and old != new:
        yield _changed(Rule.STORAGE_VERSION_CHANGED, subject, "storage version hash", old, new)


def _subresources(before: Resource, after: Resource) -> Iterator[Finding]:
    was, now = ({found.name: found for found in side.subresources} for side in (before, after))
    for name, found in was.items():
        subject = f"{full_name(before)}/{name}"
        if name in now:
            yield from _subresource(subject, found, now[name])
        else:
            yield Finding(Rule.SUBRESOURCE_REMOVED, subject, "removed")
    for name in now:
        if name not in was:
            yield Finding(Rule.SUBRESOURCE_ADDED, f"{full_name(after)}/{name}", "added")


def _subresource(subject: str, before: Subresource, after: Subresource) -> Iterator[Finding]:
    one, other = before.response_kind, after.response_kind
    if one and other and one != other and not _is_less_told(one, other):
        yield _kind_changed(subject, one, other)
    yield from _verbs(subject, before.verbs, after.verbs)


def _is_less_told(one: GroupVersionKind, other: GroupVersionKind) -> bool:
    """Return whether two kinds are the same, and one of them is without group and version."""
    is_bare = any(not (kind.group or kind.version) for kind in (one, other))
    return is_bare and one.kind == other.kind


def _verbs(subject: str, before: Sequence[str], after: Sequence[str]) -> Iterator[Finding]:
    for verb in before:
        if verb not in after:
            yield Finding(Rule.VERB_REMOVED, subject, f"no longer supports {verb}", verb)
    for verb in after:
        if verb not in before:
            yield Finding(Rule.VERB_ADDED, subject, f"supports {verb}", after=verb)


def _by_name(group: Group) -> dict[str, list[Resource]]:
    found: dict[str, list[Resource]] = {}
    for version in group.versions:
        for resource in version.resources:
            found.setdefault(resource.name, []).append(resource)
    return found


def _words(before: list[Resource], after: list[Resource]) -> Iterator[Finding]:
    subject = before[0].gvr.group_resource
    for word in _lacking(before, after, lambda one: one.short_names):
        message = f"no longer has the short name {word}"
        yield Finding(Rule.SHORT_NAME_REMOVED, subject, message, word)
    for word in _lacking(after, before, lambda one: one.short_names):
        yield Finding(Rule.SHORT_NAME_ADDED, subject, f"has the short name {word}", after=word)
    for word in _lacking(before, after, lambda one: one.categories):
        message = f"no longer in the category {word}"
        yield Finding(Rule.CATEGORY_REMOVED, subject, message, word)
    for word in _lacking(after, before, lambda one: one.categories):
        yield Finding(Rule.CATEGORY_ADDED, subject, f"in the category {word}", after=word)


def _lacking(
    having: list[Resource], others: list[Resource], words: Callable[[Resource], Sequence[str]]
) -> list[str]:
    """Return the words that no resource of the others has, in order, without duplicates."""
    known = {word for resource in others for word in words(resource)}
    return [
        word
        for word in dict.fromkeys(word for resource in having for word in words(resource))
        if word not in known
    ]


def _changed(rule: Rule, subject: str, what: str, before: str, after: str) -> Finding:
    return Finding(rule, subject, f"{what} is {after}, and was {before}", before, after)


def _kind_changed(subject: str, before: GroupVersionKind, after: GroupVersionKind) -> Finding:
    """Return the finding for two kinds; another version of the same kind breaks nothing."""
    if before.kind != after.kind:
        return _changed(Rule.KIND_CHANGED, subject, "kind", before.kind, after.kind)
    is_version = before.group == after.group
    rule = Rule.KIND_VERSION_CHANGED if is_version else Rule.KIND_CHANGED
    return _changed(rule, subject, "kind", str(before), str(after))


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    is_short: bool


def _name_findings(sides: Sides) -> Iterator[Finding]:
    """Yield the names of the first side that resolve differently on the second, in resource order.

    The names of a removed resource that resolve to nothing are left out: the removal is a finding.
    """
    before, after = Resolver(sides.before), Resolver(sides.after)
    served = {resource.gvr.group_resource for resource in sides.after.resources}
    one, other = Index(sides.before), Index(sides.after)
    for name in _resource_names(sides.before):
        if "." not in name.text and _bearers(one, name.text) == _bearers(other, name.text):
            continue
        was = _meant(before, name.text)
        if was is None or _is_uncertain(sides, was):
            continue
        now = _meant(after, name.text)
        if now is None or now.gvr.group_resource != was.gvr.group_resource:
            yield from _name_finding(name, was, now, is_served=was.gvr.group_resource in served)


def _bearers(index: Index, text: str) -> object:
    """Return which resources bear a name without dots, and in which order: its meaning follows."""
    tables = (index.words, index.short_names, index.odd_kinds, index.categories, index.parents)
    found = [table.get(text, ()) for table in tables]
    versions = {one.gv for some in found for one in some}
    groups = {gv.group: [table.version.gv for table in index.groups[gv.group]] for gv in versions}
    return (
        [[(one.gv, one.name, one.kind) for one in some] for some in found],
        sorted(versions, key=lambda gv: index.tables[gv].rank),
        groups,
    )


def _resource_names(side: Snapshot) -> dict[_Name, None]:
    """Return each name once; a short name that is also a full name counts as the latter."""
    names: dict[str, bool] = {}
    for resource in side.resources:
        whole = (resource.name, resource.singular_name, resource.kind.lower())
        names |= {text: False for text in whole if text}
        for text in resource.short_names:
            names.setdefault(text, True)
    return {_Name(text, is_short): None for text, is_short in names.items()}


def _meant(resolver: Resolver, text: str) -> Resource | None:
    try:
        return resolver.resolve(text).resource
    except DiscoveryError:
        return None


def _is_uncertain(sides: Sides, was: Resource) -> bool:
    """Return whether the group of the resource that a name meant is not current on a side."""
    version = sides.version_before(was.gv)
    is_stale = version is not None and version.freshness != CURRENT
    return is_stale or sides.is_doubtful(was.gv.group)


def _name_finding(
    name: _Name, was: Resource, now: Resource | None, *, is_served: bool
) -> Iterator[Finding]:
    old = was.gvr.group_resource
    if now is None:
        if is_served and not name.is_short:  # short names are compared with the resource
            yield Finding(Rule.NAME_REMOVED, name.text, f"it no longer leads to {old}", old)
        return
    new = now.gvr.group_resource
    if not is_served and now.kind == was.kind:
        message = f"it now means {new}, for {old} is removed"
        yield Finding(Rule.NAME_MOVED, name.text, message, old, new)
        return
    rule = Rule.SHORT_NAME_STOLEN if name.is_short else Rule.NAME_RESOLVES_ELSEWHERE
    yield Finding(rule, name.text, f"it now means {new}, and meant {old}", old, new)
