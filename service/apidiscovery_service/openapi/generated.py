"""Documents generated from discovery, for group-versions whose source publishes none.

Discovery has paths, operations and kinds, but no fields: clients find each resource, and may send
any field. Watch paths are left out: they are deprecated, and documents of CustomResourceDefinitions
have none either.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import orjson

from apidiscovery_service.core.model import CORE_GROUP, GroupVersionKind, Resource, Scope, Version
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi import meta_components, operations
from apidiscovery_service.openapi.json_text import Fragment
from apidiscovery_service.openapi.meta_components import kinds_extension
from apidiscovery_service.openapi.operations import Route, Subject, camel, operation_id, tag
from apidiscovery_service.openapi.references import UniqueNames

MARK: Final = "x-apidiscovery-generated"

# In the order of methods in a path item.
_SUBRESOURCE: Final = (
    operations.READ,
    operations.REPLACE,
    operations.CREATE,
    operations.DELETE,
    operations.PATCH,
)
# Characters that cannot be in a path template.
_RESERVED: Final = frozenset("/{}?#%")


# Allows any field: discovery has none.
OPEN: Final[Mapping[str, object]] = {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": True,
}

_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


@dataclass(frozen=True, slots=True)
class Given:
    """A kind that is declared with more than its name.

    Attributes:
        list_kind: Kind of its lists.
        schema: JSON of its schema with its extensions; None for an open one.
    """

    list_kind: str
    schema: bytes | None = None


class Schemas:
    """The schemas of one document, each under a name that no other one has.

    Names have the labels of the group in reverse order, as those of CustomResourceDefinitions. A
    group without a domain is one of Kubernetes' own, whose names begin with `io.k8s.api`.
    """

    def __init__(self, given: Mapping[GroupVersionKind, Given]) -> None:
        self._given = given
        self._meta = _meta()
        self._unique = UniqueNames(self._meta, "_")
        self._made: dict[str, object] = {}
        self._names: dict[GroupVersionKind, str] = {_SCALE: meta_components.SCALE}

    def reference(self, kind: GroupVersionKind | None) -> Mapping[str, object]:
        """Return a reference to the schema of a kind; an open schema for None."""
        return OPEN if kind is None else meta_components.reference(self._named(kind))

    def _named(self, kind: GroupVersionKind) -> str:
        """Return the name of the schema of a kind, and make the schema if need be."""
        if kind not in self._names:
            name = self._names[kind] = self._unique.free(_name(kind))
            given = self._given.get(kind)
            self._made[name] = Fragment(given.schema) if given and given.schema else _object(kind)
        return self._names[kind]

    def list_reference(self, kind: GroupVersionKind | None, plural: str) -> Mapping[str, object]:
        """Return a reference to the schema of a kind's list; an open schema for None."""
        if kind is None:
            return OPEN
        given = self._given.get(kind)
        list_kind = given.list_kind if given else f"{kind.kind}List"
        of_list = GroupVersionKind(kind.group, kind.version, list_kind)
        if of_list not in self._names:
            item = self._named(kind)
            name = self._names[of_list] = self._unique.free(_name(of_list))
            schema = meta_components.list_schema(list_kind, kind.kind, plural, item)
            self._made[name] = schema | kinds_extension(of_list)
        return meta_components.reference(self._names[of_list])

    def all(self, more: Mapping[str, Fragment]) -> dict[str, object]:
        """Return every schema of the document by name, sorted, with more schemas."""
        found: dict[str, object] = {**self._meta, **more, **self._made}
        return {name: found[name] for name in sorted(found)}


@cache
def _meta() -> Mapping[str, Fragment]:
    """Return the schemas of meta types that operations and objects refer to."""
    found = meta_components.components(scale=True)
    return {
        name: Fragment(go_json.dumps(meta_components.without_empty_defaults(orjson.loads(text))))
        for name, text in found.items()
    }


def _name(kind: GroupVersionKind) -> str:
    labels = kind.group.split(".")[::-1]
    if len(labels) == 1:
        labels = ["io", "k8s", "api", kind.group or "core"]
    text = ".".join((*labels, kind.version, kind.kind))
    # OpenAPI 3.0, Components Object: ^[a-zA-Z0-9\.\-_]+$
    return "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "_" for c in text)


def _object(kind: GroupVersionKind) -> dict[str, object]:
    type_meta = meta_components.type_meta()
    return {
        "type": "object",
        "properties": {**type_meta, "metadata": meta_components.object_meta()},
        **kinds_extension(kind),
        "x-kubernetes-preserve-unknown-fields": True,
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
        version: What it serves; resources whose name cannot be in a path are left out.
        why: Why it is generated, which its mark says; empty for no mark.
        kinds: Declared kinds, with their group and version; others are open.
    """
    made = _Document(group, version.version, kinds)
    for resource in version.resources:
        if resource.resource and _RESERVED.isdisjoint(resource.resource):
            made.add(resource)
    return made.text(why)


class _Document:
    """A document that is being made."""

    def __init__(self, group: str, version: str, kinds: Mapping[GroupVersionKind, Given]) -> None:
        self._group, self._version = group, version
        # The name of the core group in operationIds and tags.
        self._called = group or "core"
        self._schemas = Schemas(kinds)
        own = f"/apis/{group}/{version}" if group != CORE_GROUP else f"/api/{version}"
        list_id = operation_id("getAPIResources", self._called, version)
        # Resources that share a kind would have the same operationIds.
        self._operation_ids = UniqueNames({list_id}, "_")
        self._root = own
        self._paths = {f"{own}/": meta_components.resource_list(self._tag, list_id)}

    @property
    def _tag(self) -> str:
        return tag(self._called, self._version)

    def text(self, why: str) -> bytes:
        """Return the document."""
        return go_json.dumps(
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
        many = f"{self._root}/{plural}"
        subject = Subject(self._called, self._version, label, kind)
        if resource.scope == Scope.NAMESPACED:
            everywhere = replace(subject, suffix="ForAllNamespaces")
            self._add_path(many, everywhere, plural, (operations.LIST,), verbs)
            many = f"{self._root}/namespaces/{{namespace}}/{plural}"
            subject = replace(subject, scope="Namespaced")
        self._add_path(many, subject, plural, operations.COLLECTION, verbs)
        self._add_path(f"{many}/{{name}}", subject, plural, operations.ITEM, verbs)
        for below in resource.subresources:
            if below.subresource and _RESERVED.isdisjoint(below.subresource):
                its_kind = self._full(below.response_kind)
                there = replace(subject, kind=its_kind, subresource=below.subresource)
                path = f"{many}/{{name}}/{below.subresource}"
                self._add_path(path, there, plural, _SUBRESOURCE, below.verbs or ())

    def _full(self, kind: GroupVersionKind | None) -> GroupVersionKind | None:
        """Return a kind with its group and version; None when it has no name."""
        if kind is None or not kind.kind:
            return None
        if kind.version:
            return kind
        return GroupVersionKind(kind.group or self._group, self._version, kind.kind)

    def _add_path(
        self,
        path: str,
        subject: Subject,
        plural: str,
        routes: tuple[Route, ...],
        verbs: tuple[str, ...],
    ) -> None:
        """Add a path with the operations of some verbs, if there are any."""
        present = [route for route in routes if route.discovery_verb in verbs]
        if not present or path in self._paths:
            return
        item: dict[str, object] = {
            route.method: operations.operation(
                route,
                subject,
                self._operation_ids.free(subject.operation_id(route)),
                meta_components.parameters()[route.action],
                self._model(route, subject, plural),
            )
            for route in present
        }
        self._paths[path] = {**item, "parameters": list(_path_parameters(path, subject.label))}

    def _model(self, route: Route, subject: Subject, plural: str) -> Mapping[str, object]:
        """Return the schema of what an operation reads or writes, and add it to the document."""
        if route.method == "delete":
            return OPEN
        if route is operations.LIST:
            return self._schemas.list_reference(subject.kind, plural)
        return self._schemas.reference(subject.kind)


def _path_parameters(path: str, label: str) -> Iterator[Mapping[str, object]]:
    """Yield the parameters of all operations of a path, by name.

    Those of single operations stay with these, even when they are alone: clients look for
    `fieldValidation` there (k8s.io/cli-runtime pkg/resource/query_param_verifier_v3.go).
    """
    shared = meta_components.parameters()
    if "{name}" in path:
        yield operations.name_parameter(label)
    if "{namespace}" in path:
        yield from shared["namespace"]
    yield from shared["pretty"]
