"""Limits what is looked at to resources of a verb or scope, as if no others were served."""

from dataclasses import dataclass, replace
from typing import Self

from apidiscovery_client.model import Group, Resource, Snapshot, Version


@dataclass(frozen=True, slots=True)
class Narrowing:
    """What a resource has to be.

    Attributes:
        verb: What it must support; None for anything.
        namespaced: Whether its objects must live in namespaces, or must not; None for either.
        below: A subresource that may support the verb in its place; empty for none.
    """

    verb: str | None = None
    namespaced: bool | None = None
    below: str = ""

    @classmethod
    def of(cls, text: str, verb: str | None, namespaced: bool | None) -> Self:  # noqa: FBT001 - as it is told
        """Return what is asked for beside a text, which may name a subresource at its end."""
        below = text.rpartition("/")[2] if verb is not None and "/" in text else ""
        return cls(verb, namespaced, below)

    def __str__(self) -> str:
        verb = [] if self.verb is None else [f'with the verb "{self.verb}"']
        scopes = {None: [], True: ["in namespaces"], False: ["outside of namespaces"]}
        return " ".join([*verb, *scopes[self.namespaced]])

    def admits(self, resource: Resource) -> bool:
        """Return whether a resource, or that subresource of it, is what is asked for."""
        if self.namespaced not in (None, resource.is_namespaced):
            return False
        if self.verb is None or self.verb in resource.verbs:
            return True
        below = resource.subresource(self.below) if self.below else None
        return below is not None and self.verb in below.verbs

    def applied_to(self, snapshot: Snapshot) -> Snapshot:
        """Return the snapshot without the resources that are not asked for."""
        if self.verb is None and self.namespaced is None:
            return snapshot
        return replace(snapshot, groups=tuple(self._group(group) for group in snapshot.groups))

    def _group(self, group: Group) -> Group:
        return replace(group, versions=tuple(self._version(version) for version in group.versions))

    def _version(self, version: Version) -> Version:
        return replace(version, resources=tuple(filter(self.admits, version.resources)))
