"""Finds out which components of several documents are the same, and names those that are not."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apidiscovery_formats.openapi.pointers import unescaped

from apidiscovery_client.openapi.json_documents import Fields, as_object, components
from apidiscovery_client.openapi.places import references

_PREFIX = "#/components/"


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """Names a component: its kind, such as `schemas`, and its name."""

    kind: str
    name: str

    @classmethod
    def of(cls, reference: str) -> "Component | None":
        """Return the component that a reference means, or one that holds what it means."""
        if not reference.startswith(_PREFIX):
            return None
        kind, _, rest = reference.removeprefix(_PREFIX).partition("/")
        return cls(kind, unescaped(rest.partition("/")[0]))


@dataclass(frozen=True, slots=True)
class _Occurrence:
    digest: bytes
    targets: tuple[Component, ...]


Renames = Mapping[Component, str]


class ComponentGroups:
    """The components of several documents, those of one name put into groups of equal ones.

    Two are equal when they have the same text and all that they refer to is equal. It begins with
    equal texts and splits groups until nothing that a member refers to tells it from the others.
    """

    def __init__(self, documents: Sequence[Fields]) -> None:
        self._occurrences: dict[Component, dict[int, _Occurrence]] = {}
        for number, document in enumerate(documents):
            self._read(number, document)
        self._groups = {
            component: dict.fromkeys(found, 0) for component, found in self._occurrences.items()
        }
        self._split_all()
        self._names = self._named()

    @property
    def conflicts(self) -> dict[Component, list[int]]:
        """Return the components that mean several things: the first document of each group."""
        return {
            component: [
                min(number for number, other in groups.items() if other == group)
                for group in sorted(set(groups.values()))
            ]
            for component, groups in sorted(self._groups.items())
            if len(set(groups.values())) > 1
        }

    def renames(self, number: int) -> Renames:
        """Return the new names of a document's components that cannot keep theirs."""
        return {
            component: name
            for component, groups in self._groups.items()
            if number in groups
            and (name := self._names[component, groups[number]]) != component.name
        }

    def _read(self, number: int, document: Fields) -> None:
        for kind in as_object(document.get("components")) or {}:
            for name, value in components(document, kind).items():
                text = json.dumps(value, sort_keys=True).encode()
                targets = filter(None, map(Component.of, sorted(references(value))))
                self._occurrences.setdefault(Component(kind, name), {})[number] = _Occurrence(
                    hashlib.sha256(text).digest(), tuple(targets)
                )

    def _split_all(self) -> None:
        referrers: dict[Component, set[Component]] = {}
        for component, found in self._occurrences.items():
            for occurrence in found.values():
                for target in occurrence.targets:
                    referrers.setdefault(target, set()).add(component)
        pending = dict.fromkeys(self._occurrences)
        while pending:
            component, _ = pending.popitem()
            if self._split(component):
                pending |= dict.fromkeys(referrers.get(component, ()))

    def _split(self, component: Component) -> bool:
        """Put the occurrences of one name into groups again; return whether there are more now."""
        before = len(set(self._groups[component].values()))
        numbers: dict[object, int] = {}
        groups = {
            number: numbers.setdefault(self._seen_from(number, occurrence), len(numbers))
            for number, occurrence in sorted(self._occurrences[component].items())
        }
        self._groups[component] = groups
        return len(numbers) > before

    def _seen_from(self, number: int, occurrence: _Occurrence) -> object:
        """Return what an occurrence is known by: its text and the groups that it refers to."""
        groups = (self._groups.get(target, {}).get(number, -1) for target in occurrence.targets)
        return occurrence.digest, tuple(groups)

    def _named(self) -> dict[tuple[Component, int], str]:
        """Return a name for each group: the first keeps it, others get `_v2`, `_v3` as are free.

        Source: kube-openapi pkg/aggregator/aggregator.go `renameDefinition` for the suffixes.
        """
        names: dict[tuple[Component, int], str] = {}
        taken = set(self._groups)
        for component, groups in sorted(self._groups.items()):
            number = 1
            for group in sorted(set(groups.values())):
                name = component.name
                while group and replace(component, name=name) in taken:
                    number += 1
                    name = f"{component.name}_v{number}"
                taken.add(replace(component, name=name))
                names[component, group] = name
        return names
