"""`APIGroupDiscoveryList` documents as a person or a server wrote them, into the model.

Unknown fields are errors, since a misspelt field would otherwise be lost without a word. Of
`metadata` only the name counts, and the rest of ObjectMeta is ignored, so that a saved answer of
any server can be used as it is.
"""

from collections.abc import Sequence

from apidiscovery_service.core.model import (
    Freshness,
    GroupVersionKind,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.kube.objects.formats import is_dns1035_label, is_dns_subdomain
from apidiscovery_service.sources.fields import Fields, Findings, Node

API_VERSIONS = ("apidiscovery.k8s.io/v2", "apidiscovery.k8s.io/v2beta1")
KIND = "APIGroupDiscoveryList"

_KIND = ("group", "version", "kind")


def read_list(document: Node) -> list[tuple[str, tuple[Version, ...]]]:
    """Return the groups of a list with their versions, in the order of the document.

    Raises:
        InvalidField: A field is unknown, missing, of the wrong type or not a valid name, or a group
            or one of its parts is duplicate; `others` has the further errors.
    """
    findings = Findings()
    top = Fields(document, findings, ("kind", "apiVersion", "metadata", "items"))
    _require(top, "items")
    groups = list(map(_group, top.objects("items", "kind", "apiVersion", "metadata", "versions")))
    if not findings.count:  # otherwise groups may lack their names
        seen: set[str] = set()
        for place, (name, _) in enumerate(groups):
            if name in seen:
                path = top.at("items", place, "metadata", "name")
                findings.add(path, f"group {name!r} is there twice")
            seen.add(name)
    findings.raise_any()
    return groups


def _group(group: Fields) -> tuple[str, tuple[Version, ...]]:
    metadata = group.object("metadata")
    name = metadata.text("name") if metadata else ""
    if metadata and name and not is_dns_subdomain(name):
        message = f"want a DNS name in lower case, got {name!r}"
        group.findings.add(metadata.at("name"), message)
    versions = tuple(map(_version, group.objects("versions", "version", "resources", "freshness")))
    if _require(group, "versions") and not versions:
        group.findings.add(group.at("versions"), "want at least one version")
    _refuse_twice(group, "versions", "version", [version.version for version in versions])
    return name, versions


def _require(fields: Fields, name: str) -> bool:
    """Note a field that is missing; return whether it is there."""
    if name not in fields and isinstance(fields.value, dict):
        fields.findings.add(fields.at(name), "required")
    return name in fields


def _refuse_twice(fields: Fields, name: str, name_field: str, names: Sequence[str]) -> None:
    """Note elements of a list that have the name of an earlier one."""
    seen: set[str] = set()
    for place, element in enumerate(names):
        if element and element in seen:  # an empty name is an error already
            path = fields.at(name, place, name_field)
            fields.findings.add(path, f"{name_field} {element!r} is there twice")
        seen.add(element)


def _version(version: Fields) -> Version:
    name = version.text("version")
    if _require(version, "version") and not is_dns1035_label(name):
        message = f"want a name such as v1 or v1beta1, got {name!r}"
        version.findings.add(version.at("version"), message)
    freshness = version.text("freshness")
    if freshness and freshness not in tuple(Freshness):
        message = f"want {' or '.join(Freshness)}, got {freshness!r}"
        version.findings.add(version.at("freshness"), message)
    resources = version.objects(
        "resources",
        "resource",
        "responseKind",
        "scope",
        "singularResource",
        "verbs",
        "shortNames",
        "categories",
        "subresources",
    )
    read = tuple(map(_resource, resources))
    _refuse_twice(version, "resources", "resource", [resource.resource for resource in read])
    return Version(name, read, freshness)


def _resource(resource: Fields) -> Resource:
    name, scope = resource.text("resource"), resource.text("scope")
    if _require(resource, "resource") and (not name or "/" in name):
        message = f"want a plural name without a slash, got {name!r}"
        resource.findings.add(resource.at("resource"), message)
    if _require(resource, "scope") and scope not in tuple(Scope):
        message = f"want {' or '.join(Scope)}, got {scope!r}"
        resource.findings.add(resource.at("scope"), message)
    subresources = tuple(
        map(
            _subresource,
            resource.objects(
                "subresources", "subresource", "responseKind", "acceptedTypes", "verbs"
            ),
        )
    )
    names = [subresource.subresource for subresource in subresources]
    _refuse_twice(resource, "subresources", "subresource", names)
    return Resource(
        resource=name,
        response_kind=_response_kind(resource),
        scope=scope,
        singular_resource=resource.text("singularResource"),
        verbs=_verbs(resource),
        short_names=resource.texts("shortNames"),
        categories=resource.texts("categories"),
        subresources=subresources,
    )


def _subresource(subresource: Fields) -> Subresource:
    name = subresource.text("subresource")
    if _require(subresource, "subresource") and not name:
        message = "want a name, got an empty string"
        subresource.findings.add(subresource.at("subresource"), message)
    return Subresource(
        subresource=name,
        response_kind=_response_kind(subresource),
        verbs=_verbs(subresource),
        accepted_types=tuple(map(_kind, subresource.objects("acceptedTypes", *_KIND))),
    )


def _verbs(fields: Fields) -> tuple[str, ...] | None:
    return fields.texts("verbs") if "verbs" in fields else None


def _response_kind(fields: Fields) -> GroupVersionKind | None:
    kind = fields.object("responseKind", *_KIND)
    return _kind(kind) if kind else None


def _kind(kind: Fields) -> GroupVersionKind:
    return GroupVersionKind(kind.text("group"), kind.text("version"), kind.text("kind"))
