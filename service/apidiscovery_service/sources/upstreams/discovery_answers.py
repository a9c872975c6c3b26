"""Reads the discovery documents that upstreams send.

As lenient as Go's decoder: unknown fields are ignored, null means absent, a field of the wrong type
is an error. Groups and versions with an invalid or repeated name are left out with a warning, so
that one odd group does not make the others unusable.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from apidiscovery_formats.go_json import without_surrogates

from apidiscovery_service.core.model import (
    Freshness,
    Group,
    GroupVersionKind,
    Resource,
    Scope,
    Subresource,
    Version,
)
from apidiscovery_service.kube.objects.formats import is_dns1035_label, is_dns_subdomain
from apidiscovery_service.sources.upstreams.body import Body, parsed
from apidiscovery_service.sources.upstreams.failure import Reason, UpstreamFailed, shown
from apidiscovery_service.sources.upstreams.spec import UpstreamLimits, VersionFilter

T = TypeVar("T")

_NO_KIND = GroupVersionKind("", "", "")

MAX_WARNINGS = 20
_MAX_WARNING = 200


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group of an unaggregated list, with its versions in order of preference."""

    name: str
    versions: tuple[str, ...]


@dataclass(slots=True)
class Reading:
    """How a document is read, and the warnings about it.

    Attributes:
        core: Whether it must have the core group only, or named groups only.
        is_record: Whether it is a record of our own: it has storage version hashes and the order
            of lists, and its names are not checked again.
        warnings: The parts that are left out, the first `MAX_WARNINGS`.
        has_creation_timestamps: Whether a group has `"creationTimestamp":null`.
    """

    limits: UpstreamLimits = field(default_factory=UpstreamLimits)
    filter: VersionFilter = field(default_factory=VersionFilter)
    core: bool = False
    is_record: bool = False
    warnings: list[str] = field(default_factory=list[str])
    has_creation_timestamps: bool = False
    _versions: int = 0

    def warn(self, text: str) -> None:
        """Add a warning, unless there are too many."""
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(shown(text, _MAX_WARNING))

    def count_version(self) -> None:
        """Count one more group-version of the document.

        Raises:
            UpstreamFailed: The document has too many.
        """
        self._versions += 1
        if self._versions > self.limits.group_versions:
            raise UpstreamFailed(
                Reason.TOO_LARGE, f"more than {self.limits.group_versions} group-versions"
            )

    def takes_group(self, name: str) -> bool:
        """Tell whether a group is accepted; warn if its name is not valid here."""
        valid = self.is_record or (not name if self.core else is_dns_subdomain(name))
        if not valid:
            self.warn(f"group {name!r} left out: not a valid name here")
        return valid

    def takes_version(self, group: str, name: str) -> bool:
        """Tell whether a version is accepted; warn if its name is not valid."""
        if self.is_record:
            return True
        if not is_dns1035_label(name):
            self.warn(f"version {name!r} of group {group!r} left out: not a valid name")
            return False
        return self.filter.takes(group, name)


def read_with(
    reader: Callable[[Body, Reading], T], reading: Reading, body: Body
) -> tuple[T, Reading]:
    """Return the result of a reader, and `reading` with its warnings: a worker has a copy."""
    return reader(body, reading), reading


def read_aggregated(body: Body, reading: Reading) -> tuple[Group, ...]:
    """Return the groups of an APIGroupDiscoveryList (v2 or v2beta1), in its order.

    Raises:
        UpstreamFailed: It cannot be read, or is too large.
    """
    items = _document(body, "APIGroupDiscoveryList", "items").get("items")
    groups: dict[str, Group] = {}
    for place, item in enumerate(_list(items, "items")):
        group = _group(item, reading, f"items[{place}]")
        if not reading.takes_group(group.name):
            continue
        if groups.setdefault(group.name, group) is not group:
            reading.warn(f"group {group.name!r} is listed twice; the first counts")
    return tuple(group for group in groups.values() if group.versions or reading.is_record)


def _document(body: Body, kind: str, content: str) -> Mapping[str, object]:
    """Return the fields of a document of a kind."""
    fields = _object(parsed(body), "the document")
    found = fields.get("kind")
    if found not in (kind, None, ""):
        raise UpstreamFailed(Reason.MALFORMED, f"want kind {kind}, got {found!r}")
    if not fields.keys() & {"kind", content}:
        raise UpstreamFailed(Reason.MALFORMED, f"want a document of kind {kind}, got another")
    return fields


def _group(value: object, reading: Reading, where: str) -> Group:
    fields = _object(value, where)
    metadata = _object(fields.get("metadata", {}), f"{where}.metadata")
    name = _text(metadata, "name", where)
    reading.has_creation_timestamps |= "creationTimestamp" in metadata
    versions: dict[str, Version] = {}
    for place, item in enumerate(_list(fields.get("versions"), f"{where}.versions")):
        reading.count_version()
        version = _version(item, reading, f"{where}.versions[{place}]")
        if not reading.takes_version(name, version.version):
            continue
        if versions.setdefault(version.version, version) is not version:
            reading.warn(
                f"version {version.version!r} of {name!r} is listed twice; the first counts"
            )
    return Group(name, tuple(versions.values()))


def _version(value: object, reading: Reading, where: str) -> Version:
    fields = _object(value, where)
    items = _list(fields.get("resources"), f"{where}.resources")
    return Version(
        version=_text(fields, "version", where),
        resources=tuple(
            _resource(item, f"{where}.resources[{place}]", reading)
            for place, item in enumerate(items)
        ),
        freshness=_text(fields, "freshness", where),
        listed=(_texts(fields, "listed", where) or ()) if reading.is_record else (),
    )


def _resource(value: object, where: str, reading: Reading) -> Resource:
    fields = _object(value, where)
    subresources = fields.get("subresources")
    return Resource(
        resource=_text(fields, "resource", where),
        response_kind=_response_kind(fields, where, reading),
        scope=_text(fields, "scope", where),
        singular_resource=_text(fields, "singularResource", where),
        verbs=_texts(fields, "verbs", where),
        short_names=_texts(fields, "shortNames", where) or (),
        categories=_texts(fields, "categories", where) or (),
        subresources=tuple(
            _subresource(subresource, f"{where}.subresources[{place}]", reading)
            for place, subresource in enumerate(_list(subresources, f"{where}.subresources"))
        ),
        storage_version_hash=_text(fields, "storageVersionHash", where)
        if reading.is_record
        else "",
    )


def _subresource(value: object, where: str, reading: Reading) -> Subresource:
    fields = _object(value, where)
    accepted = _list(fields.get("acceptedTypes"), f"{where}.acceptedTypes")
    return Subresource(
        subresource=_text(fields, "subresource", where),
        response_kind=_response_kind(fields, where, reading),
        verbs=_texts(fields, "verbs", where),
        accepted_types=tuple(_kind(kind, where) for kind in accepted),
    )


def _response_kind(
    fields: Mapping[str, object], where: str, reading: Reading
) -> GroupVersionKind | None:
    """Return a kind as `_kind`; one that is missing in a record is None."""
    value = fields.get("responseKind")
    return None if value is None and reading.is_record else _kind(value, where)


def _kind(value: object, where: str) -> GroupVersionKind:
    """Return a kind; a missing one has three empty strings, because old clients do not check."""
    if value is None:
        return _NO_KIND
    fields = _object(value, where)
    return GroupVersionKind(*(_text(fields, name, where) for name in ("group", "version", "kind")))


def read_group_list(body: Body, reading: Reading) -> tuple[ListedGroup, ...]:
    """Return the groups of an APIGroupList in its order, each with the preferred version first.

    Raises:
        UpstreamFailed: It cannot be read, or is too large.
    """
    items = _document(body, "APIGroupList", "groups").get("groups")
    groups: dict[str, ListedGroup] = {}
    for place, item in enumerate(_list(items, "groups")):
        group = _listed(item, f"groups[{place}]", reading)
        if not reading.takes_group(group.name):
            continue
        if groups.setdefault(group.name, group) is not group:
            reading.warn(f"group {group.name!r} is listed twice; the first counts")
    return tuple(group for group in groups.values() if group.versions)


def _listed(value: object, where: str, reading: Reading) -> ListedGroup:
    fields = _object(value, where)
    name = _text(fields, "name", where)
    entries = _list(fields.get("versions"), f"{where}.versions")
    versions = [_text(_object(entry, f"{where}.versions"), "version", where) for entry in entries]
    preferred = _object(fields.get("preferredVersion") or {}, f"{where}.preferredVersion")
    first = _text(preferred, "version", where)
    if first in versions:
        versions.insert(0, first)
    return ListedGroup(name, _taken(name, dict.fromkeys(versions), reading))


def _taken(group: str, versions: Iterable[str], reading: Reading) -> tuple[str, ...]:
    taken: list[str] = []
    for version in versions:
        reading.count_version()
        if reading.takes_version(group, version):
            taken.append(version)
    return tuple(taken)


def read_core_versions(body: Body, reading: Reading) -> tuple[ListedGroup, ...]:
    """Return the core group of an APIVersions, in its order; nothing when it has no version.

    Raises:
        UpstreamFailed: It cannot be read, or is too large.
    """
    names = _texts(_document(body, "APIVersions", "versions"), "versions", "") or ()
    versions = _taken("", dict.fromkeys(names), reading)
    return (ListedGroup("", versions),) if versions else ()


def read_resource_list(version: str, body: Body) -> Version:
    """Return an APIResourceList as kube-apiserver converts it to an aggregated version.

    Entries with a slash become subresources of the part before it; a parent that is not listed is
    made up and put after the others. Storage version hashes and the order are read as well.

    Raises:
        UpstreamFailed: It cannot be read, or a subresource is in another scope than its parent.

    Source: k8s.io/apiserver pkg/endpoints/installer.go:ConvertGroupVersionIntoToDiscovery.
    """
    items = _list(_document(body, "APIResourceList", "resources").get("resources"), "resources")
    entries = [_object(item, f"resources[{place}]") for place, item in enumerate(items)]
    resources = _converted(entries)
    names = tuple(_text(entry, "name", f"resources[{i}]") for i, entry in enumerate(entries))
    listed = () if names == tuple(list_lines(resources)) else names
    return Version(version, resources, Freshness.CURRENT, listed)


def list_lines(resources: Iterable[Resource]) -> Iterator[str]:
    """Yield the names of the lines of a list that is in the order of the resources."""
    for resource in resources:
        if not resource.is_made_up:
            yield resource.resource
        for subresource in resource.subresources:
            yield f"{resource.resource}/{subresource.subresource}"


@dataclass(slots=True)
class _Parent:
    resource: Resource
    subresources: list[Subresource] = field(default_factory=list[Subresource])


def _converted(entries: list[Mapping[str, object]]) -> tuple[Resource, ...]:
    named = [(_text(entry, "name", f"resources[{i}]"), entry) for i, entry in enumerate(entries)]
    parents = [_Parent(_whole(name, entry)) for name, entry in named if "/" not in name]
    by_name = {parent.resource.resource: parent for parent in parents}
    for name, entry in named:
        parent_name, slash, subresource = name.partition("/")
        if not slash:
            continue
        scope = _scope(entry, name)
        if parent_name not in by_name:
            made_up = Resource(parent_name, _NO_KIND, scope, "", None)
            by_name[parent_name] = _Parent(made_up)
            parents.append(by_name[parent_name])
        parent = by_name[parent_name]
        if parent.resource.scope != scope:
            message = f"{name} is {scope}, but {parent_name} is {parent.resource.scope}"
            raise UpstreamFailed(Reason.MALFORMED, message)
        kind, verbs = _kind(entry, name), _texts(entry, "verbs", name)
        parent.subresources.append(Subresource(subresource, kind, verbs))
    return tuple(_with_subresources(parent) for parent in parents)


def _whole(name: str, entry: Mapping[str, object]) -> Resource:
    return Resource(
        resource=name,
        response_kind=_kind(entry, name),
        scope=_scope(entry, name),
        singular_resource=_text(entry, "singularName", name),
        verbs=_texts(entry, "verbs", name),
        short_names=_texts(entry, "shortNames", name) or (),
        categories=_texts(entry, "categories", name) or (),
        storage_version_hash=_text(entry, "storageVersionHash", name),
    )


def _with_subresources(parent: _Parent) -> Resource:
    if not parent.subresources:
        return parent.resource
    return replace(parent.resource, subresources=tuple(parent.subresources))


def _scope(entry: Mapping[str, object], where: str) -> Scope:
    namespaced = entry.get("namespaced")
    if namespaced is not None and not isinstance(namespaced, bool):
        raise _wrong_type(f"{where}.namespaced", "true or false", namespaced)
    return Scope.NAMESPACED if namespaced else Scope.CLUSTER


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise _wrong_type(where, "an object", value)
    return cast("dict[str, object]", value)


def _list(value: object, where: str) -> list[object]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong_type(where, "a list", value)
    return cast("list[object]", value)


def _text(fields: Mapping[str, object], name: str, where: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong_type(f"{where}.{name}", "a string", value)
    # Few different texts make up most of a document; the parser makes each of them anew.
    return sys.intern(without_surrogates(value))


def _texts(fields: Mapping[str, object], name: str, where: str) -> tuple[str, ...] | None:
    value = fields.get(name)
    if value is None:
        return None
    elements = _list(value, f"{where}.{name}")
    return tuple([_text({name: element}, name, where) for element in elements])


def _wrong_type(where: str, wanted: str, value: object) -> UpstreamFailed:
    return UpstreamFailed(Reason.MALFORMED, f"{where}: want {wanted}, got {type(value).__name__}")
