"""One group as the JSON value in an aggregated document.

v2 and v2beta1 have the same items. The order of keys and the rules of omission are those of the Go
structs and their `omitempty` tags (k8s.io/api apidiscovery/v2/types.go). The ETag covers them, so
the value depends on nothing but the group.
"""

from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Subresource, Version
from apidiscovery_service.kube.go_json import JSONValue


def kind_value(kind: GroupVersionKind) -> dict[str, JSONValue]:
    """Return a responseKind; its three fields are never omitted."""
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _subresource_value(subresource: Subresource) -> dict[str, JSONValue]:
    value: dict[str, JSONValue] = {"subresource": subresource.subresource}
    if subresource.response_kind is not None:
        value["responseKind"] = kind_value(subresource.response_kind)
    if subresource.accepted_types:
        value["acceptedTypes"] = [kind_value(kind) for kind in subresource.accepted_types]
    value["verbs"] = subresource.verbs
    return value


def _resource_value(resource: Resource) -> dict[str, JSONValue]:
    value: dict[str, JSONValue] = {"resource": resource.resource}
    if resource.response_kind is not None:
        value["responseKind"] = kind_value(resource.response_kind)
    value["scope"] = resource.scope
    value["singularResource"] = resource.singular_resource
    value["verbs"] = resource.verbs
    if resource.short_names:
        value["shortNames"] = resource.short_names
    if resource.categories:
        value["categories"] = resource.categories
    if resource.subresources:
        value["subresources"] = [_subresource_value(s) for s in resource.subresources]
    return value


def _version_value(version: Version) -> dict[str, JSONValue]:
    value: dict[str, JSONValue] = {"version": version.version}
    if version.resources:
        value["resources"] = [_resource_value(resource) for resource in version.resources]
    if version.freshness:
        value["freshness"] = version.freshness
    return value


def group_value(group: Group, *, has_creation_timestamp: bool = False) -> dict[str, JSONValue]:
    """Return the item of an aggregated document; the core group has no name.

    Args:
        group: The group.
        has_creation_timestamp: Whether its metadata has a null, as of kube-apiserver up to 1.33.
    """
    metadata: dict[str, JSONValue] = {"name": group.name} if group.name else {}
    if has_creation_timestamp:
        metadata["creationTimestamp"] = None
    value: dict[str, JSONValue] = {"metadata": metadata}
    if group.versions:
        value["versions"] = [_version_value(version) for version in group.versions]
    return value
