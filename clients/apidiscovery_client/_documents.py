"""What was discovered, as frozen facts, and how the documents of a server are read into it.

Everything is kept in the order of the documents: that order is the server's preference.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar
from urllib.parse import quote

from apidiscovery_client._fields import (
    Fields,
    MisshapenError,
    as_fields,
    each,
    flag,
    inner,
    present,
    required_text,
    text,
    texts,
)
from apidiscovery_client._negotiation import Promise, UnpromisedError, promised

CORE_VERSIONS = "APIVersions"  # kinds of the unaggregated documents
GROUP_LIST = "APIGroupList"
RESOURCE_LIST = "APIResourceList"

T = TypeVar("T")


class UnreadableError(ValueError):
    """A body is not the document that its Content-Type promises."""


class GroupVersion(NamedTuple):
    """Names a version of a group; the core group is the empty string.

    >>> str(GroupVersion("apps", "v1")), str(GroupVersion("", "v1"))
    ('apps/v1', 'v1')
    """

    group: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def path(self) -> str:
        """Return the path of its unaggregated document, quoted."""
        group, version = (quote(name, safe="", errors="replace") for name in self)
        return f"/apis/{group}/{version}" if self.group else f"/api/{version}"


@dataclass(frozen=True, slots=True)
class Group:
    """A group and what is served of it.

    Attributes:
        versions: The most preferred first; those that could not be discovered are left out where
            the server itself says so.
        preferred_version: Empty when there is none.
    """

    name: str
    versions: tuple[str, ...]
    preferred_version: str

    @property
    def group_versions(self) -> tuple[GroupVersion, ...]:
        """Return `versions` with the group's name."""
        return tuple(GroupVersion(self.name, version) for version in self.versions)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of object, or a subresource of it when the name has a slash.

    Attributes:
        group: Of the kind; empty together with `version` when those of the group-version.
        storage_version_hash: Only in unaggregated documents.
    """

    name: str
    singular_name: str
    namespaced: bool
    kind: str
    verbs: tuple[str, ...]
    group: str = ""
    version: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    storage_version_hash: str = ""


@dataclass(frozen=True, slots=True)
class Half:
    """What one of `/api` and `/apis` tells.

    Attributes:
        resources: None when the server told the groups only.
        failures: Why a version is in neither `groups` nor `resources`.
    """

    groups: tuple[Group, ...] = ()
    resources: Mapping[GroupVersion, tuple[Resource, ...]] | None = None
    failures: Mapping[GroupVersion, str] = field(default_factory=dict[GroupVersion, str])


@dataclass(frozen=True, slots=True)
class Discovery:
    """What a server serves.

    Attributes:
        groups: The core group first, then the others in the server's order.
        resources: Those of each group-version that could be discovered.
        failures: Why each other group-version could not.
    """

    groups: tuple[Group, ...]
    resources: Mapping[GroupVersion, tuple[Resource, ...]]
    failures: Mapping[GroupVersion, str]


def read_core(content_type: str | None, body: bytes) -> Half:
    """Return what the answer of `/api` tells; raise `UnreadableError`."""
    promise, document = _open(content_type, body, CORE_VERSIONS)
    return _read(_aggregated if promise.aggregated else _core_versions, document)


def read_groups(content_type: str | None, body: bytes) -> Half:
    """Return what the answer of `/apis` tells; raise `UnreadableError`."""
    promise, document = _open(content_type, body, GROUP_LIST)
    return _read(_aggregated if promise.aggregated else _group_list, document)


def read_resources(content_type: str | None, body: bytes) -> tuple[Resource, ...]:
    """Return what the answer for one group-version tells; raise `UnreadableError`."""
    promise, document = _open(content_type, body, RESOURCE_LIST)
    if promise.aggregated:
        raise UnreadableError(f"the content type {content_type!r} is not of one group-version")
    return _read(_resource_list, document)


def status_message(body: bytes) -> str:
    """Return the message of a `Status` document; empty when the body is none."""
    try:
        status = as_fields(json.loads(body))
        return text(status, "message") if text(status, "kind") == "Status" else ""
    except (ValueError, RecursionError):
        return ""


def _open(content_type: str | None, body: bytes, plain_kind: str) -> tuple[Promise, Fields]:
    """Return the document once its kind is known to be the promised one.

    Decoding into a type whose fields all have defaults would take any JSON object, such as a
    `Status` or the document of an older server, for an empty discovery.
    """
    try:
        promise = promised(content_type, plain_kind)
        document = as_fields(json.loads(body))
        kind, api_version = text(document, "kind"), text(document, "apiVersion")
    except RecursionError:
        raise UnreadableError("the body is nested too deeply") from None
    except (UnpromisedError, MisshapenError) as error:
        raise UnreadableError(str(error)) from None
    except ValueError as error:
        raise UnreadableError(f"the body is not JSON: {error}") from None
    if kind != promise.kind or promise.api_version not in (None, api_version):
        wanted = f"{promise.kind} {promise.api_version or ''}".rstrip()
        seen = f"{kind} {api_version}".strip() or "of no kind"
        raise UnreadableError(
            f"the content type {content_type!r} promises {wanted}, but the body is {seen}"
        )
    return promise, document


def _read(read: Callable[[Fields], T], document: Fields) -> T:
    try:
        return read(document)
    except MisshapenError as error:
        raise UnreadableError(str(error)) from None


def _core_versions(document: Fields) -> Half:
    """Read `APIVersions`; the first version is the preferred one (`apiVersionsToAPIGroup`)."""
    present(document, "versions")
    versions = texts(document, "versions")
    return Half((Group("", versions, versions[0]),) if versions else ())


def _group_list(document: Fields) -> Half:
    present(document, "groups")
    return Half(each(document, "groups", _plain_group))


def _plain_group(group: Fields) -> Group:
    versions = each(group, "versions", lambda version: required_text(version, "version"))
    preferred = inner(group, "preferredVersion") or {}
    return Group(required_text(group, "name"), versions, text(preferred, "version"))


def _resource_list(document: Fields) -> tuple[Resource, ...]:
    present(document, "resources")
    return each(document, "resources", _plain_resource)


def _plain_resource(resource: Fields) -> Resource:
    return Resource(
        name=required_text(resource, "name"),
        singular_name=text(resource, "singularName"),
        namespaced=flag(resource, "namespaced"),
        kind=text(resource, "kind"),
        verbs=texts(resource, "verbs"),
        group=text(resource, "group"),
        version=text(resource, "version"),
        short_names=texts(resource, "shortNames"),
        categories=texts(resource, "categories"),
        storage_version_hash=text(resource, "storageVersionHash"),
    )


def _aggregated(document: Fields) -> Half:
    """Read `APIGroupDiscoveryList`, by the rules of client-go discovery/aggregated_discovery.go."""
    present(document, "items")
    read = each(document, "items", _aggregated_group)
    return Half(
        groups=tuple(group for group, _ in read),
        resources={
            GroupVersion(group.name, version.name): version.resources
            for group, versions in read
            for version in versions
            if not version.stale
        },
        failures={
            gv: f"stale GroupVersion discovery: {gv}"
            for group, versions in read
            for gv in (
                GroupVersion(group.name, version.name) for version in versions if version.stale
            )
        },
    )


class _AggregatedVersion(NamedTuple):
    name: str
    stale: bool
    resources: tuple[Resource, ...]


def _aggregated_group(item: Fields) -> tuple[Group, tuple[_AggregatedVersion, ...]]:
    """Read a group and its versions; a stale version is not among those of the `Group`."""
    versions = each(item, "versions", _aggregated_version)
    names = tuple(version.name for version in versions if not version.stale)
    name = text(inner(item, "metadata") or {}, "name")
    return Group(name, names, names[0] if names else ""), versions


def _aggregated_version(version: Fields) -> _AggregatedVersion:
    resources = each(version, "resources", _aggregated_resource)
    return _AggregatedVersion(
        name=required_text(version, "version"),
        stale=text(version, "freshness") == "Stale",
        resources=tuple(resource for family in resources for resource in family),
    )


def _aggregated_resource(resource: Fields) -> tuple[Resource, ...]:
    """Read a resource and its subresources; those without a kind are left out, each for itself."""
    parent = _with_kind(
        resource,
        Resource(
            name=required_text(resource, "resource"),
            singular_name=text(resource, "singularResource"),
            namespaced=text(resource, "scope") == "Namespaced",
            kind="",
            verbs=texts(resource, "verbs"),
            short_names=texts(resource, "shortNames"),
            categories=texts(resource, "categories"),
        ),
    )

    def subresource(fields: Fields) -> Resource | None:
        return _with_kind(
            fields,
            Resource(
                name=f"{text(resource, 'resource')}/{required_text(fields, 'subresource')}",
                singular_name=text(resource, "singularResource"),
                namespaced=text(resource, "scope") == "Namespaced",
                kind="",
                verbs=texts(fields, "verbs"),
            ),
        )

    family = (parent, *each(resource, "subresources", subresource))
    return tuple(member for member in family if member is not None)


def _with_kind(fields: Fields, resource: Resource) -> Resource | None:
    """Return `resource` with its response kind; None when that is absent or of empty strings."""
    kind = inner(fields, "responseKind") or {}
    named = text(kind, "group"), text(kind, "version"), text(kind, "kind")
    if not any(named):
        return None
    return replace(resource, group=named[0], version=named[1], kind=named[2])
