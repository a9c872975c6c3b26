"""Where what is removed is served instead."""

from collections.abc import Iterable
from dataclasses import dataclass

from apidiscovery_client.model import CURRENT, Resource, Snapshot
from apidiscovery_client.snapshots.releases import known_groups


@dataclass(frozen=True, slots=True)
class Moves:
    """What becomes of resources that are removed.

    Attributes:
        text: For people; empty when there were no resources.
        targets: The group-versions that serve some of them, in order, each once.
    """

    text: str
    targets: tuple[str, ...]


class Destinations:
    """Where each kind of a snapshot is served."""

    def __init__(self, after: Snapshot) -> None:
        self._found: dict[tuple[str, str], list[Resource]] = {}
        for version in after.versions:
            if version.freshness == CURRENT:
                for resource in version.resources:
                    self._found.setdefault((resource.kind, resource.name), []).append(resource)

    def moves_of(self, resources: Iterable[Resource]) -> Moves:
        """Return where the kinds of resources that are no longer there are served now."""
        kinds: dict[str, list[str]] = {}
        for resource in resources:
            found = self.of(resource)
            name = resource.kind or resource.name
            kinds.setdefault(str(found.gv) if found else "", []).append(name)
        gone = kinds.pop("", [])
        told = [f"{_list(names)} {_s(names, 'move')} to {gv}" for gv, names in kinds.items()]
        if gone:
            told.append(f"{_list(gone)} {'is' if len(gone) == 1 else 'are'} not served any more")
        return Moves("; ".join(told), tuple(kinds))

    def of(self, resource: Resource) -> Resource | None:
        """Return the resource that serves the same objects; None for none.

        In its own group that is the same kind in the most preferred version that has it. Another
        group counts only where both are groups of Kubernetes, as elsewhere equal names mean
        nothing.
        """
        candidates = self._found.get((resource.kind, resource.name), [])
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
