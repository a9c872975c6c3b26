"""Documents made from discovery alone, for group-versions whose source publishes none.

Paths, operations and kinds are as discovery tells them, fields are not known: whatever reads such
a document finds each resource, and may send any field. Operations are named, described and given
parameters as k8s.io/apiserver pkg/endpoints/installer.go does it. Watch paths are left out: they
are deprecated, and documents of CustomResourceDefinitions have none either.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

import orjson

from apidiscovery_service.core.model import CORE_GROUP, GroupVersionKind, Resource, Scope, Version
from apidiscovery_service.openapi import json_text, meta_components
from apidiscovery_service.openapi.json_text import Fragment
from apidiscovery_service.openapi.operation_ids import camel, description, operation_id, tag

MARK: Final = "x-apidiscovery-generated"

_BODIES: Final = ("application/json", "application/yaml")
# Not the strategic merge patch: it needs the fields.
_PATCHES: Final = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
# What cannot stand in a path template.
_RESERVED: Final = frozenset("/{}?#%")


@dataclass(frozen=True, slots=True)
class _Kind:
    """What a verb of discovery does over HTTP.

    Attributes:
        action: As `x-kubernetes-action` has it.
        stem: What the operation's name begins with.
        codes: Of the answers that have content.
    """

    method: str
    action: str
    stem: str
    codes: tuple[str, ...]


_LIST: Final = {"list": _Kind("get", "list", "list", ("200",))}
# In the order of methods in a path item.
_OF_MANY: Final = {
    **_LIST,
    "create": _Kind("post", "post", "create", ("200", "201", "202")),
    "deletecollection": _Kind("delete", "deletecollection", "deletecollection", ("200",)),
}
_OF_ONE: Final = {
    "get": _Kind("get", "get", "read", ("200",)),
    "update": _Kind("put", "put", "replace", ("200", "201")),
    "delete": _Kind("delete", "delete", "delete", ("200", "202")),
    "patch": _Kind("patch", "patch", "patch", ("200",)),
}
_BELOW_ONE: Final = {
    "get": _OF_ONE["get"],
    "update": _OF_ONE["update"],
    "create": _OF_MANY["create"],
    "delete": _OF_ONE["delete"],
    "patch": _OF_ONE["patch"],
}
_CODES: Final = {"200": "OK", "201": "Created", "202": "Accepted"}


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


_NO_KINDS: Final[Mapping[GroupVersionKind, Given]] = {}


def generated_document(
    group: str,
    version: Version,
    why: str,
    kinds: Mapping[GroupVersionKind, Given] = _NO_KINDS,
) -> bytes:
    """Return the OpenAPI v3 document of a group-version as canonical JSON.

    Args:
        group: Empty for the core group.
        version: What it serves; resources whose name cannot stand in a path are left out.
        why: Why it is made from discovery, which its mark says; empty for no mark.
        kinds: What is known of kinds, with their group and version; others are open.
    """
    made = _Document(group, version.version, kinds)
    for resource in version.resources:
        if resource.resource and _RESERVED.isdisjoint(resource.resource):
            made.add(resource)
    return made.text(why)


@dataclass(frozen=True, slots=True)
class _Place:
    """Paths of one resource: what operations there have in common.

    Attributes:
        label: What the names of operations call it, such as `CronTab`.
        kind: None when discovery does not tell.
        namespaced: `Namespaced` where the path has a namespace, else empty.
    """

    resource: Resource
    label: str
    kind: GroupVersionKind | None
    namespaced: str
    subresource: str = ""
    suffix: str = ""

    def stem(self, operation: _Kind) -> str:
        """Return the operation without its group, such as `replaceNamespacedCronTabStatus`."""
        below = camel(self.subresource, capital=True)
        return f"{operation.stem}{self.namespaced}{self.label}{below}{self.suffix}"


class _Document:
    """A document in the making."""

    def __init__(self, group: str, version: str, kinds: Mapping[GroupVersionKind, Given]) -> None:
        self._group, self._version = group, version
        # Names of operations and tags call the core group so.
        self._called = group or "core"
        self._schemas = Schemas(kinds)
        own = f"/apis/{group}/{version}" if group != CORE_GROUP else f"/api/{version}"
        list_id = operation_id("getAPIResources", self._called, version)
        # Resources may share a kind, and then operations are called the same.
        self._operation_ids = UniqueNames({list_id})
        self._root = own
        self._paths = {f"{own}/": meta_components.resource_list(self._tag, list_id)}

    @property
    def _tag(self) -> str:
        return tag(self._called, self._version)

    def text(self, why: str) -> bytes:
        """Return the document."""
        return json_text.dumps(
            {
                "openapi": "3.0.0",
                "info": meta_components.INFO,
                "paths": {path: self._paths[path] for path in sorted(self._paths)},
                "components": {
                    "schemas": self._schemas.all(meta_components.list_schemas()),
                    "securitySchemes": meta_components.SECURITY_SCHEMES,
                },
                **({MARK: why} if why else {}),
            }
        )

    def add(self, resource: Resource) -> None:
        """Add the paths of a resource and its subresources."""
        plural, verbs = resource.resource, resource.verbs or ()
        kind = self._full(resource.response_kind)
        label = kind.kind if kind else camel(resource.singular_resource or plural, capital=True)
        if kind:
            self._schemas.reference(kind)
        many, namespaced = f"{self._root}/{plural}", ""
        if resource.scope == Scope.NAMESPACED:
            everywhere = _Place(resource, label, kind, "", suffix="ForAllNamespaces")
            self._add_path(many, everywhere, _LIST, verbs)
            many, namespaced = f"{self._root}/namespaces/{{namespace}}/{plural}", "Namespaced"
        place = _Place(resource, label, kind, namespaced)
        self._add_path(many, place, _OF_MANY, verbs)
        self._add_path(f"{many}/{{name}}", place, _OF_ONE, verbs)
        for below in resource.subresources:
            if below.subresource and _RESERVED.isdisjoint(below.subresource):
                its_kind = self._full(below.response_kind)
                there = _Place(resource, label, its_kind, namespaced, below.subresource)
                path = f"{many}/{{name}}/{below.subresource}"
                self._add_path(path, there, _BELOW_ONE, below.verbs or ())

    def _full(self, kind: GroupVersionKind | None) -> GroupVersionKind | None:
        """Return a kind with its group and version; None when it has no name."""
        if kind is None or not kind.kind:
            return None
        if kind.version:
            return kind
        return GroupVersionKind(kind.group or self._group, self._version, kind.kind)

    def _add_path(
        self, path: str, place: _Place, operations: Mapping[str, _Kind], verbs: tuple[str, ...]
    ) -> None:
        """Add a path with the operations that verbs stand for, if there are any."""
        present = [operation for verb, operation in operations.items() if verb in verbs]
        if not present or path in self._paths:
            return
        item: dict[str, object] = {
            operation.method: self._operation(place, operation) for operation in present
        }
        self._paths[path] = {**item, "parameters": list(_path_parameters(path, place.label))}

    def _operation(self, place: _Place, operation: _Kind) -> dict[str, object]:
        parameters = meta_components.parameters()[operation.action]
        verb = operation.stem
        made: dict[str, object] = {
            "tags": [self._tag],
            "description": description(verb, place.label, place.subresource),
            "operationId": self._operation_ids.free(
                operation_id(place.stem(operation), self._called, self._version)
            ),
            "parameters": parameters,
            **self._body(place, operation),
            "responses": self._responses(place, operation),
            "x-kubernetes-action": operation.action,
        }
        if place.kind:
            made["x-kubernetes-group-version-kind"] = gvk(place.kind)
        return made

    def _body(self, place: _Place, operation: _Kind) -> dict[str, object]:
        match operation.action:
            case "post" | "put":
                content = _content(self._schemas.reference(place.kind), _BODIES)
            case "patch":
                patch = meta_components.reference(meta_components.PATCH)
                content = _content(patch, _PATCHES)
            case "delete":
                options = meta_components.reference(meta_components.DELETE_OPTIONS)
                return {"requestBody": {"content": _content(options, _BODIES)}}
            case _:
                return {}
        return {"requestBody": {"content": content, "required": True}}

    def _responses(self, place: _Place, operation: _Kind) -> dict[str, object]:
        match operation.action:
            case "list":
                schema = self._schemas.list_reference(place.kind, place.resource.resource)
            case "delete" | "deletecollection":
                schema = meta_components.reference(meta_components.STATUS)
            case _:
                schema = self._schemas.reference(place.kind)
        content = _content(schema, _BODIES)
        answers = {
            code: {"description": _CODES[code], "content": content} for code in operation.codes
        }
        return {**answers, "401": {"description": "Unauthorized"}}


def _content(schema: Mapping[str, object], types: tuple[str, ...]) -> dict[str, object]:
    return {media_type: {"schema": schema} for media_type in types}


def _path_parameters(path: str, label: str) -> Iterator[Mapping[str, object]]:
    """Yield the parameters of all operations of a path, by name.

    Those of single operations stay with these, even when they are alone: clients look for
    `fieldValidation` there (k8s.io/cli-runtime pkg/resource/query_param_verifier_v3.go).
    """
    shared = meta_components.parameters()
    if "{name}" in path:
        yield {
            "name": "name",
            "in": "path",
            "description": f"name of the {label}",
            "required": True,
            "schema": {"type": "string", "uniqueItems": True},
        }
    if "{namespace}" in path:
        yield from shared["namespace"]
    yield from shared["pretty"]
