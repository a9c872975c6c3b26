"""Compares the resources of a version, or a group, that both sides serve."""

from collections.abc import Callable, Iterator, Sequence

from apidiscovery_client.model import (
    Group,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)
from apidiscovery_client.resolving import full_name

from apidiscovery_cli.diffing.findings import Finding, Rule
from apidiscovery_cli.diffing.knowledge import Sides
from apidiscovery_cli.diffing.moves import Destinations


def compared_resources(
    before: Version, after: Version, destinations: Destinations
) -> Iterator[Finding]:
    """Yield the differences between the resources of a version.

    Args:
        before: The version as it was.
        after: The version as it is.
        destinations: Where what is removed may be served now.
    """
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


def compared_words(sides: Sides, before: Group, after: Group) -> Iterator[Finding]:
    """Yield which short names and categories the resources of a group have lost or got.

    Versions do not count, for words lead to a resource whatever the version. Nothing is said of a
    group that a side cannot speak for.
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
    if one and other and one != other:
        yield _kind_changed(subject, one, other)
    yield from _verbs(subject, before.verbs, after.verbs)


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
    """Return the words that no resource of the others has, each once, in order."""
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
