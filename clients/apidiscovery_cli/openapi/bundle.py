"""Merges documents into one without losing anything.

Components that differ under one name get names of their own, and every reference follows.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from apidiscovery_client.openapi.json_documents import (
    Component,
    Fields,
    Object,
    UnsoundDocument,
    as_list,
    as_object,
    components,
    is_list,
    is_object,
    references,
    rewritten,
)
from apidiscovery_formats.openapi.pointers import escaped
from apidiscovery_formats.openapi.rules import METHODS


@dataclass(frozen=True, slots=True)
class _Occurrence:
    digest: bytes
    targets: tuple[Component, ...]


Renames = Mapping[Component, str]


class ComponentGroups:
    """The components of several documents, those of one name put into groups of equal ones.

    Two are equal when they have the same text and all that they refer to is equal. It begins with
    equal texts and splits groups until all members of each group refer to equal components.
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
        for kind in as_object(document.get("components")):
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


_VERSION = re.compile(r"3\.0\.\d+")
_INFO: Mapping[str, object] = {"title": "Kubernetes", "version": "unversioned"}


@dataclass(frozen=True, slots=True)
class Part:
    """A document with the key that it has in the index."""

    key: str
    document: Fields


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two or more things of one name; the text is one line.

    Attributes:
        problem: What differs, and between which documents.
        solution: What it is called in the bundle.
    """

    problem: str
    solution: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.solution}"


@dataclass(slots=True)
class Bundle:
    """Several documents as one.

    Attributes:
        document: Sound if they were; keys in the order of the specification, names sorted.
        conflicts: What differed under one name, in order of the names.
    """

    document: Object
    conflicts: list[Conflict] = field(default_factory=list[Conflict])


def bundle(parts: Iterable[Part]) -> Bundle:
    """Return the documents as one; the result does not depend on their order.

    Raises:
        UnsoundDocument: One is not OpenAPI 3.0, or two have different operations at one path.
    """
    ordered = sorted(parts, key=lambda part: part.key)
    for part in ordered:
        if not _VERSION.fullmatch(str(part.document.get("openapi"))):
            raise UnsoundDocument(f"the document of {part.key} is not in OpenAPI 3.0")
    groups = ComponentGroups([part.document for part in ordered])
    merging = _Merging(_shared_extensions(ordered))
    renames = [groups.renames(number) for number in range(len(ordered))]
    merging.conflicts += _conflicts(groups, ordered, renames)
    for part, names in zip(ordered, renames, strict=True):
        merging.add(part, names)
    return Bundle(merging.result(ordered), merging.conflicts)


def _conflicts(
    groups: ComponentGroups, parts: Sequence[Part], renames: Sequence[Renames]
) -> Iterator[Conflict]:
    for component, numbers in groups.conflicts.items():
        first, *others = (parts[number].key for number in numbers)
        renamed = (
            f"that of {parts[number].key} is {renames[number][component]}" for number in numbers[1:]
        )
        yield Conflict(
            f"components.{component.kind}.{component.name} differs between {first}"
            f" and {', '.join(others)}",
            f"that of {first} keeps its name, {', '.join(renamed)}",
        )


class _Merging:
    """What was merged so far."""

    def __init__(self, shared: Fields) -> None:
        self.conflicts: list[Conflict] = []
        self._shared = shared
        self._paths: dict[str, Object] = {}
        self._origins: dict[str, str] = {}
        self._components: dict[str, Object] = {}
        self._tags: dict[str, object] = {}
        self._operation_ids: dict[str, str] = {}

    def add(self, part: Part, renames: Renames) -> None:
        renaming = _Renaming(renames, self._operation_names(part.document))
        document = as_object(rewritten(part.document, renaming))
        for kind in as_object(document.get("components")):
            named = self._components.setdefault(kind, {})
            for name, value in components(document, kind).items():
                named[renames.get(Component(kind, name), name)] = value
        self._add_tags(document)
        for path, item in sorted(as_object(document.get("paths")).items()):
            if is_object(item):
                self._add_path(part.key, path, _with_own(document, self._shared, item))

    def _add_tags(self, document: Fields) -> None:
        for tag in as_list(document.get("tags")):
            self._tags.setdefault(str(as_object(tag).get("name")), tag)

    def _add_path(self, key: str, path: str, item: Object) -> None:
        """Add a path; one that is there must say the same of what both say."""
        there = self._paths.setdefault(path, {})
        for name in item:
            if name in there and there[name] != item[name]:
                raise UnsoundDocument(
                    f"{name} of {path} differs between {self._origins[path]} and {key}:"
                    " one document cannot have both"
                )
        there |= item
        self._origins.setdefault(path, key)

    def _operation_names(self, document: Fields) -> dict[str, str]:
        """Return a new id for each operation whose own is that of an operation at another place."""
        renamed: dict[str, str] = {}
        for place, wanted in _operations(document):
            chosen, number = wanted, 1
            while self._operation_ids.setdefault(chosen, place) != place:
                number += 1
                chosen = f"{wanted}_v{number}"
            if chosen != wanted:
                renamed[wanted] = chosen
                taken = f"operationId {wanted} is that of {self._operation_ids[wanted]} and {place}"
                self.conflicts.append(Conflict(taken, f"the latter is {chosen}"))
        return renamed

    def result(self, parts: Sequence[Part]) -> Object:
        infos = [part.document.get("info") for part in parts]
        same_info = infos and all(info == infos[0] for info in infos)
        tags = [self._tags[name] for name in sorted(self._tags)]
        return {
            "openapi": max((str(part.document["openapi"]) for part in parts), default="3.0.0"),
            "info": infos[0] if same_info else dict(_INFO),
            **({"tags": tags} if tags else {}),
            "paths": dict(sorted(self._paths.items())),
            "components": {
                kind: dict(sorted(named.items()))
                for kind, named in sorted(self._components.items())
            },
            **self._shared,
        }


class _Renaming:
    """Makes the objects of one document use the new names of components and operations."""

    def __init__(self, renames: Renames, operation_names: Mapping[str, str]) -> None:
        self._renames = renames
        self._operation_names = operation_names

    def __call__(self, fields: Object) -> Object:
        if isinstance(reference := fields.get("$ref"), str):
            fields["$ref"] = self._reference(reference)
        if is_object(discriminator := fields.get("discriminator")):
            fields["discriminator"] = self._discriminator(discriminator)
        if is_list(security := fields.get("security")):
            fields["security"] = [self._requirement(item) for item in security]
        if isinstance(name := fields.get("operationId"), str):  # of an operation or a link
            fields["operationId"] = self._operation_names.get(name, name)
        return fields

    def _reference(self, reference: str) -> str:
        component = Component.of(reference)
        if component is None or component not in self._renames:
            return reference
        below = "/".join(reference.split("/")[4:])
        renamed = f"#/components/{component.kind}/{escaped(self._renames[component])}"
        return f"{renamed}/{below}" if below else renamed

    def _discriminator(self, discriminator: Object) -> Object:
        mapping = discriminator.get("mapping")
        if not is_object(mapping):
            return discriminator
        return {**discriminator, "mapping": {k: self._target(v) for k, v in mapping.items()}}

    def _target(self, target: object) -> object:
        """Return what a discriminator maps to: a reference, or the name of a schema."""
        name = self._renames.get(Component("schemas", str(target)))
        return name or (self._reference(target) if isinstance(target, str) else target)

    def _requirement(self, requirement: object) -> object:
        if not is_object(requirement):
            return requirement
        renames = self._renames
        return {renames.get(Component("securitySchemes", k), k): v for k, v in requirement.items()}


def _operations(document: Fields) -> Iterator[tuple[str, str]]:
    """Yield where each operation with an id is, and its id."""
    for path, item in sorted(as_object(document.get("paths")).items()):
        for method in METHODS:
            operation = as_object(as_object(item).get(method))
            if isinstance(name := operation.get("operationId"), str):
                yield f"{method} {path}", name


def _shared_extensions(parts: Sequence[Part]) -> Object:
    """Return the extensions that all documents have at their top with the same value."""
    if not parts:
        return {}
    return {
        name: value
        for name, value in parts[0].document.items()
        if name.startswith("x-")
        and all(name in part.document and part.document[name] == value for part in parts)
    }


def _with_own(document: Fields, shared: Fields, item: Object) -> Object:
    """Return a path with what its document says of all paths: servers, security, extensions."""
    own = {k: v for k, v in document.items() if k.startswith("x-") and k not in shared}
    if "servers" in document:
        own["servers"] = document["servers"]
    return {**own, **{name: _with_security(document, name, v) for name, v in item.items()}}


def _with_security(document: Fields, name: str, value: object) -> object:
    if name not in METHODS or not is_object(value):
        return value
    if "security" not in document or "security" in value:
        return value
    return {**value, "security": document["security"]}
