"""Reads `APIGroupDiscoveryList` in JSON, of v2 and of v2beta1, which are the same."""

from datetime import datetime

from apidiscovery_client._fields import (
    Fields,
    each,
    inner,
    present,
    required_text,
    text,
    texts,
    unknown,
)
from apidiscovery_client._reading.parsed import freshness
from apidiscovery_client.model import (
    NO_EXTRAS,
    Group,
    GroupVersion,
    GroupVersionKind,
    Resource,
    Subresource,
    Version,
)

_GROUP = frozenset({"kind", "apiVersion", "metadata", "versions"})
_METADATA = frozenset({"name", "creationTimestamp"})  # the latter is null before 1.34
_VERSION = frozenset({"version", "resources", "freshness"})
_RESOURCE = frozenset(
    {
        "resource",
        "responseKind",
        "scope",
        "singularResource",
        "verbs",
        "shortNames",
        "categories",
        "subresources",
    }
)
_SUBRESOURCE = frozenset({"subresource", "responseKind", "acceptedTypes", "verbs"})


def read_groups(document: Fields, now: datetime) -> tuple[Group, ...]:
    """Return the groups in the order of the document; raise `MisshapenError`."""
    present(document, "items")
    return each(document, "items", lambda item: _group(item, now))


def _group(item: Fields, now: datetime) -> Group:
    metadata = inner(item, "metadata") or {}
    name = text(metadata, "name")
    extra = unknown(item, _GROUP)
    if more := unknown(metadata, _METADATA):
        extra = {"metadata": more, **extra}
    versions = each(item, "versions", lambda version: _version(name, version, now))
    return Group(name, versions, extra=extra or NO_EXTRAS)


def _version(group: str, version: Fields, now: datetime) -> Version:
    gv = GroupVersion(group, required_text(version, "version"))
    resources = each(version, "resources", lambda resource: _resource(gv, resource))
    stated = text(version, "freshness")
    return Version(
        gv=gv,
        resources=resources,
        freshness=freshness(gv, stated, now, has_resources=bool(resources)),
        stated_freshness=stated,
        extra=unknown(version, _VERSION) or NO_EXTRAS,
    )


def _resource(gv: GroupVersion, resource: Fields) -> Resource:
    return Resource(
        gv=gv,
        name=required_text(resource, "resource"),
        singular_name=text(resource, "singularResource"),
        scope=text(resource, "scope"),
        response_kind=_response_kind(resource),
        verbs=texts(resource, "verbs"),
        short_names=texts(resource, "shortNames"),
        categories=texts(resource, "categories"),
        subresources=each(resource, "subresources", _subresource),
        extra=unknown(resource, _RESOURCE) or NO_EXTRAS,
    )


def _subresource(subresource: Fields) -> Subresource:
    return Subresource(
        name=required_text(subresource, "subresource"),
        response_kind=_response_kind(subresource),
        verbs=texts(subresource, "verbs"),
        accepted_types=each(subresource, "acceptedTypes", _kind),
        extra=unknown(subresource, _SUBRESOURCE) or NO_EXTRAS,
    )


def _response_kind(fields: Fields) -> GroupVersionKind | None:
    kind = inner(fields, "responseKind")
    return None if kind is None else _kind(kind)


def _kind(kind: Fields) -> GroupVersionKind:
    return GroupVersionKind(text(kind, "group"), text(kind, "version"), text(kind, "kind"))
