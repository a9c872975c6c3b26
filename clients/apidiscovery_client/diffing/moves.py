"""Where what is removed is served instead."""

from collections.abc import Iterable
from typing import NamedTuple

from apidiscovery_client.model import CURRENT, Resource, Snapshot
from apidiscovery_client.snapshots.releases import known_groups


class Moves(NamedTuple):
    """What becomes of resources that are removed.

    Attributes:
        text: For people; empty when there were no resources.
        targets: The group-versions that serve some of them, in order, each once.
    """

    text: str
    targets: tuple[str, ...]


def moves_of(resources: Iterable[Resource], after: Snapshot) -> Moves:
    """Return where the kinds of resources that are no longer there are served now."""
    kinds: dict[str, list[str]] = {}
    for resource in resources:
        found = destination(resource, after)
        kinds.setdefault(str(found.gv) if found else "", []).append(resource.kind or resource.name)
    gone = kinds.pop("", [])
    told = [f"{_list(names)} {_s(names, 'move')} to {target}" for target, names in kinds.items()]
    if gone:
        told.append(f"{_list(gone)} {'is' if len(gone) == 1 else 'are'} not served any more")
    return Moves("; ".join(told), tuple(kinds))


def destination(resource: Resource, after: Snapshot) -> Resource | None:
    """Return the resource that serves the same objects now; None for none.

    In its own group that is the same kind in the most preferred version that has it. Another group
    counts only where both are groups of Kubernetes, as elsewhere equal names mean nothing.
    """
    candidates = [
        found
        for version in after.versions
        if version.freshness == CURRENT
        for found in version.resources
        if (found.kind, found.name) == (resource.kind, resource.name)
    ]
    own = (found for found in candidates if found.gv.group == resource.gv.group)
    if nearest := next(own, None):
        return nearest
    if not candidates or resource.gv.group not in known_groups():
        return None
    return next((found for found in candidates if found.gv.group in known_groups()), None)


def _list(names: list[str]) -> str:
    return ", ".join(dict.fromkeys(names))


def _s(names: list[str], verb: str) -> str:
    return f"{verb}s" if len(set(names)) == 1 else verb
