"""The schemas of a document that is made from discovery: kinds by name, open to any field."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import orjson

from apidiscovery_service.core.model import GroupVersionKind
from apidiscovery_service.openapi import json_text, meta_components
from apidiscovery_service.openapi.json_text import Fragment

# What holds nothing back: discovery does not tell the fields.
OPEN: Final[Mapping[str, object]] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}

_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class Given:
    """What is known of a kind beside its name.

    Attributes:
        list_kind: Kind of its lists.
        schema: JSON of its schema, with what it is; None leaves it open.
    """

    list_kind: str
    schema: bytes | None = None


class UniqueNames:
    """Gives out names, each once; it takes as long as there are names, however many are alike."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._numbers: dict[str, int] = {}

    def free(self, name: str) -> str:
        """Return the name if nobody has it, else with the first number behind it that is free."""
        number = self._numbers.get(name, 1)
        free = name if number == 1 else f"{name}_{number}"
        while free in self._taken:
            number += 1
            free = f"{name}_{number}"
        self._numbers[name] = number
        self._taken.add(free)
        return free


class Schemas:
    """The schemas of one document, each under a name that no other one has.

    Names are made of the labels of groups in reverse order, as those of CustomResourceDefinitions
    are. A group without a domain is one of Kubernetes' own, which are in `io.k8s.api`.
    """

    def __init__(self, given: Mapping[GroupVersionKind, Given]) -> None:
        self._given = given
        self._meta = _meta()
        self._unique = UniqueNames(self._meta)
        self._made: dict[str, object] = {}
        self._names: dict[GroupVersionKind, str] = {_SCALE: meta_components.SCALE}

    def reference(self, kind: GroupVersionKind | None) -> Mapping[str, object]:
        """Return the schema of what has a kind; an open one for None."""
        return OPEN if kind is None else meta_components.reference(self._named(kind))

    def _named(self, kind: GroupVersionKind) -> str:
        """Return the name of the schema of a kind, which is there then."""
        if kind not in self._names:
            name = self._names[kind] = self._unique.free(_name(kind))
            given = self._given.get(kind)
            self._made[name] = Fragment(given.schema) if given and given.schema else _object(kind)
        return self._names[kind]

    def list_reference(self, kind: GroupVersionKind | None, plural: str) -> Mapping[str, object]:
        """Return the schema of a list of what has a kind; an open one for None."""
        if kind is None:
            return OPEN
        given = self._given.get(kind)
        list_kind = given.list_kind if given else f"{kind.kind}List"
        of_list = GroupVersionKind(kind.group, kind.version, list_kind)
        if of_list not in self._names:
            item = self._named(kind)
            name = self._names[of_list] = self._unique.free(_name(of_list))
            self._made[name] = _list(of_list, kind, plural, item)
        return meta_components.reference(self._names[of_list])

    def all(self, more: Mapping[str, Fragment]) -> dict[str, object]:
        """Return every schema of the document by name, sorted, with some more."""
        found: dict[str, object] = {**self._meta, **more, **self._made}
        return {name: found[name] for name in sorted(found)}


@cache
def _meta() -> Mapping[str, Fragment]:
    """Return the schemas of Kubernetes' own types that operations and objects refer to."""
    found = meta_components.components(scale=True)
    return {
        name: Fragment(json_text.dumps(meta_components.without_empty_defaults(orjson.loads(text))))
        for name, text in found.items()
    }


def _name(kind: GroupVersionKind) -> str:
    labels = kind.group.split(".")[::-1]
    if len(labels) == 1:
        labels = ["io", "k8s", "api", kind.group or "core"]
    text = ".".join((*labels, kind.version, kind.kind))
    # OpenAPI 3.0, Components Object: ^[a-zA-Z0-9\.\-_]+$
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "_" for c in text)


def gvk(kind: GroupVersionKind) -> dict[str, str]:
    """Return a kind as operations state it, in the order of the Go struct."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _gvks(kind: GroupVersionKind) -> list[dict[str, str]]:
    """Return a kind as schemas state it, which is a map, and so sorted."""
    return [{"group": kind.group, "kind": kind.kind, "version": kind.version}]


def _object(kind: GroupVersionKind) -> dict[str, object]:
    type_meta = meta_components.type_meta()
    return {
        "type": "object",
        "properties": {**type_meta, "metadata": meta_components.object_meta()},
        "x-kubernetes-group-version-kind": _gvks(kind),
        "x-kubernetes-preserve-unknown-fields": True,
    }


def _list(
    kind: GroupVersionKind, of: GroupVersionKind, plural: str, model: str
) -> dict[str, object]:
    type_meta = meta_components.type_meta()
    return {
        "description": f"{kind.kind} is a list of {of.kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": type_meta["apiVersion"],
            "items": meta_components.items(plural, model),
            "kind": type_meta["kind"],
            "metadata": meta_components.list_meta(),
        },
        "x-kubernetes-group-version-kind": _gvks(kind),
    }
