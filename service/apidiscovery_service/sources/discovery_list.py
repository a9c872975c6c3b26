"""`APIGroupDiscoveryList` documents as a person or a server wrote them, into the model.

Unknown fields are errors, since a misspelt field would otherwise vanish without a word; of
`metadata` only the name counts, and the rest of ObjectMeta is passed over, so that a saved answer
of any server can be used as it is.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeGuard, TypeVar, cast

from apidiscovery_service.core.model import (
    Freshness,
    GroupVersionKind,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.kube.objects.formats import is_dns1035_label, is_dns_subdomain
from apidiscovery_service.openapi.crd.structural import field_path

API_VERSIONS = ("apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1")
KIND = "APIGroupDiscoveryList"

# The field of a CustomResourceDefinition within which paths are written differently.
_SCHEMA = "openAPIV3Schema"

# Longer integers are not shown; Python refuses to write those of some thousand digits at all.
_MAX_SHOWN_BITS = 64

Path: TypeAlias = tuple[str | int, ...]
T = TypeVar("T")


class InvalidField(Exception):
    """A field of a document is not as it must be.

    Attributes:
        path: Keys and indices from the document to the field.
        others: Further fields that are wrong, where the reader goes on to find them.
    """

    def __init__(self, path: Path, message: str, others: "tuple[InvalidField, ...]" = ()) -> None:
        super().__init__(message)
        self.path = path
        self.others = others


def path_text(path: Path) -> str:
    """Write a path as Kubernetes' validation errors do: `items[0].versions[1].version`.

    Within schemas what their authors name is in brackets: `...openAPIV3Schema.properties[spec]`.
    """
    start = path.index(_SCHEMA) if _SCHEMA in path else len(path)
    text = ""
    for step in path[:start]:
        if isinstance(step, int) or "." in step:
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return ".".join(filter(None, (text, field_path(path[start:]))))


def _is_mapping(value: object) -> TypeGuard[dict[object, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


class Node:
    """A value in a document, and where it stands."""

    def __init__(self, value: object, path: Path = ()) -> None:
        self.value = value
        self.path = path

    def fail(self, message: str) -> InvalidField:
        return InvalidField(self.path, message)

    def mapping(self, *known: str) -> "Mapping[str, Node]":
        """Return the fields that are set; null is the same as absent, as it is to Go.

        Args:
            known: Names that may occur; none at all means any.
        """
        fields = self.value
        if not _is_mapping(fields):
            raise self.fail(f"want an object, got {self.seen()}")
        for name in fields:
            if not isinstance(name, str):
                raise self.fail(f"want field names, got {name!r}")
            if known and name not in known:
                raise InvalidField(
                    (*self.path, name), f"unknown field; known here are {', '.join(known)}"
                )
        return {
            cast("str", name): Node(value, (*self.path, cast("str", name)))
            for name, value in fields.items()
            if value is not None
        }

    def items(self, read: "Callable[[Node], T]") -> tuple[T, ...]:
        """Return each element of a list as `read` makes it."""
        elements = self.value
        if not _is_list(elements):
            raise self.fail(f"want a list, got {self.seen()}")
        return tuple(read(Node(value, (*self.path, i))) for i, value in enumerate(elements))

    def text(self) -> str:
        if not isinstance(self.value, str):
            raise self.fail(f"want a string, got {self.seen()}")
        return self.value

    def seen(self) -> str:
        """Return what the value is, for an error."""
        for kind, name in ((dict, "an object"), (list, "a list"), (str, "a string")):
            if isinstance(self.value, kind):
                return name
        if self.value is None:
            return "null"
        if isinstance(self.value, int) and self.value.bit_length() > _MAX_SHOWN_BITS:
            return f"int of {self.value.bit_length()} bits"
        return f"{type(self.value).__name__} {self.value!r}"


def _required(node: Node, fields: Mapping[str, Node], name: str) -> Node:
    if name not in fields:
        raise InvalidField((*node.path, name), "required")
    return fields[name]


def _text(fields: Mapping[str, Node], name: str) -> str:
    return fields[name].text() if name in fields else ""


def _texts(fields: Mapping[str, Node], name: str) -> tuple[str, ...]:
    return fields[name].items(Node.text) if name in fields else ()


def _verbs(fields: Mapping[str, Node]) -> tuple[str, ...] | None:
    return fields["verbs"].items(Node.text) if "verbs" in fields else None


def read_list(document: Node) -> list[tuple[str, tuple[Version, ...]]]:
    """Return the groups of a list with their versions, in the order of the document.

    Raises:
        InvalidField: A field is unknown, missing, of the wrong type or not a valid name; a group
            or a version of it stands there twice.
    """
    fields = document.mapping("kind", "apiVersion", "metadata", "items")
    groups = _required(document, fields, "items").items(_group)
    seen: set[str] = set()
    for place, (name, _) in enumerate(groups):
        if name in seen:
            path = (*document.path, "items", place, "metadata", "name")
            raise InvalidField(path, f"group {name!r} is there twice")
        seen.add(name)
    return list(groups)


def _group(item: Node) -> tuple[str, tuple[Version, ...]]:
    fields = item.mapping("kind", "apiVersion", "metadata", "versions")
    metadata: Mapping[str, Node] = fields["metadata"].mapping() if "metadata" in fields else {}
    name = _text(metadata, "name")
    if name and not is_dns_subdomain(name):
        raise metadata["name"].fail(f"want a DNS name in lower case, got {name!r}")
    versions_node = _required(item, fields, "versions")
    versions = versions_node.items(_version)
    if not versions:
        raise versions_node.fail("want at least one version")
    _refuse_twice(item, "versions", "version", [version.version for version in versions])
    return name, versions


def _refuse_twice(node: Node, field: str, name_field: str, names: list[str]) -> None:
    """Raise if two elements of a list have the same name."""
    seen: set[str] = set()
    for place, name in enumerate(names):
        if name in seen:
            path = (*node.path, field, place, name_field)
            raise InvalidField(path, f"{name_field} {name!r} is there twice")
        seen.add(name)


def _version(node: Node) -> Version:
    fields = node.mapping("version", "resources", "freshness")
    version = _required(node, fields, "version")
    if not is_dns1035_label(version.text()):
        raise version.fail(f"want a name such as v1 or v1beta1, got {version.value!r}")
    freshness = _text(fields, "freshness")
    if freshness and freshness not in tuple(Freshness):
        raise fields["freshness"].fail(f"want {' or '.join(Freshness)}, got {freshness!r}")
    resources = fields["resources"].items(_resource) if "resources" in fields else ()
    _refuse_twice(node, "resources", "resource", [r.resource for r in resources])
    return Version(version.text(), resources, freshness)


def _resource(node: Node) -> Resource:
    fields = node.mapping(
        "resource",
        "responseKind",
        "scope",
        "singularResource",
        "verbs",
        "shortNames",
        "categories",
        "subresources",
    )
    name = _required(node, fields, "resource")
    if not name.text() or "/" in name.text():
        raise name.fail(f"want a plural name without a slash, got {name.value!r}")
    scope = _required(node, fields, "scope")
    if scope.text() not in tuple(Scope):
        raise scope.fail(f"want {' or '.join(Scope)}, got {scope.value!r}")
    subresources = fields["subresources"].items(_subresource) if "subresources" in fields else ()
    _refuse_twice(node, "subresources", "subresource", [s.subresource for s in subresources])
    return Resource(
        resource=name.text(),
        response_kind=_kind(fields),
        scope=scope.text(),
        singular_resource=_text(fields, "singularResource"),
        verbs=_verbs(fields),
        short_names=_texts(fields, "shortNames"),
        categories=_texts(fields, "categories"),
        subresources=subresources,
    )


def _subresource(node: Node) -> Subresource:
    fields = node.mapping("subresource", "responseKind", "acceptedTypes", "verbs")
    name = _required(node, fields, "subresource")
    if not name.text():
        raise name.fail("want a name, got an empty string")
    return Subresource(
        subresource=name.text(),
        response_kind=_kind(fields),
        verbs=_verbs(fields),
        accepted_types=fields["acceptedTypes"].items(_kind_of) if "acceptedTypes" in fields else (),
    )


def _kind(fields: Mapping[str, Node]) -> GroupVersionKind | None:
    return _kind_of(fields["responseKind"]) if "responseKind" in fields else None


def _kind_of(node: Node) -> GroupVersionKind:
    fields = node.mapping("group", "version", "kind")
    return GroupVersionKind(_text(fields, "group"), _text(fields, "version"), _text(fields, "kind"))
