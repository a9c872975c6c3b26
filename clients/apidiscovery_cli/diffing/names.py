"""Which names mean something else now: every name that leads somewhere is tried on both sides."""

from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery_client import DiscoveryError
from apidiscovery_client.model import CURRENT, Resource, Snapshot
from apidiscovery_client.resolving import Resolver

from apidiscovery_cli.diffing.findings import Finding, Rule
from apidiscovery_cli.diffing.knowledge import Sides


@dataclass(frozen=True, slots=True)
class _Name:
    text: str
    is_short: bool


def name_findings(sides: Sides) -> Iterator[Finding]:
    """Yield what became of the plain names of the first side, in the order of its resources.

    A name of what is removed, and leads nowhere now, is not told: the removal is.
    """
    before, after = Resolver(sides.before), Resolver(sides.after)
    served = {resource.gvr.group_resource for resource in sides.after.resources}
    for name in _names(sides.before):
        was = _meant(before, name.text)
        if was is None or _is_uncertain(sides, was):
            continue
        now = _meant(after, name.text)
        if now is None or now.gvr.group_resource != was.gvr.group_resource:
            yield from _told(name, was, now, is_served=was.gvr.group_resource in served)


def _names(side: Snapshot) -> dict[_Name, None]:
    """Return each name once; one that is also a whole name is not a short name."""
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
    """Whether nothing can be said of what a name meant, for a side cannot speak for its group."""
    version = sides.version_before(was.gv)
    is_stale = version is not None and version.freshness != CURRENT
    return is_stale or sides.is_doubtful(was.gv.group)


def _told(
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
