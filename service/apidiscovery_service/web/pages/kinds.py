"""One kind: its names, where it is served, its fields as a tree, and an example."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass

from apidiscovery_client.model import GroupVersion
from apidiscovery_client.openapi.asking import key_of
from apidiscovery_formats.openapi.traversal import Object

from apidiscovery_service.core.model import Group, Resource, Version
from apidiscovery_service.errors import DiscoveryError
from apidiscovery_service.web import descriptions
from apidiscovery_service.web.descriptions import visible_text
from apidiscovery_service.web.example import Named, NoExample, manifest
from apidiscovery_service.web.field_schemas import Schemas
from apidiscovery_service.web.field_tree import Field, FieldTree, Level
from apidiscovery_service.web.view import CORE, Page, View, group_named, not_found

_OPEN_AT_FIRST = "spec"
_MAX_SHOWN_PATH = 200
_MAX_DIGITS = 8


@dataclass(frozen=True, slots=True)
class Place:
    """A kind, and where it is looked at.

    Attributes:
        cluster: Empty for the merged APIs.
        resources: The resources with objects of the kind, at least one.
    """

    group: str
    version: Version
    kind: str
    cluster: str
    resources: tuple[Resource, ...]

    @property
    def api_version(self) -> str:
        """Return what objects of the kind have as their apiVersion."""
        name = self.version.version
        return f"{self.group}/{name}" if self.group else name

    @property
    def schema_path(self) -> str:
        """Return the path of the JSON Schema of the kind."""
        below = f"/clusters/{self.cluster}" if self.cluster else ""
        kind = self.kind.lower()
        return f"{below}/schemas/{self.group or CORE}/{kind}_{self.version.version}.json"


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """Clusters that serve a kind in the same versions.

    Attributes:
        versions: In their order; empty where the kind is not served.
        is_known: Whether their groups are known.
        names: Of the clusters.
    """

    versions: tuple[str, ...]
    is_known: bool
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """The fields of a kind.

    Attributes:
        description: Of the kind.
        tree: The fields.
        path: Of the open field; empty without one.
        missing: The path that was asked for, if there is no such field.
        example: A manifest; empty if none can be made.
        no_example: Why not.
    """

    description: str
    tree: Level
    path: str
    missing: str
    example: str
    no_example: str


async def page(view: View) -> Page:
    """Make the page, or the part of the tree that a script asks for."""
    place = _place(view)
    try:
        schemas = await _schemas(view, place)
    except DiscoveryError as error:
        schemas, reason = None, str(error)
    else:
        reason = "" if schemas else _why_none(place)
    version = place.version.version
    root = schemas.of_kind(place.group, version, place.kind) if schemas else None
    if schemas and root is None:
        reason = f"The OpenAPI document of {place.api_version} has no schema of this kind."
    if view.is_fragment and "field" in view.parameters:
        if schemas is None or root is None:
            raise not_found(reason)
        return await asyncio.to_thread(_part, view, place, FieldTree(schemas, root))
    shown = None
    if schemas is not None and root is not None:
        shown = await asyncio.to_thread(_shown, view, place, schemas, root)
    return Page(
        "kind.html",
        {
            "place": place,
            "versions": _versions(view, place),
            "clusters": _cluster_lines(view, place),
            "is_fleet": bool(view.scope.clusters),
            "shown": shown,
            "reason": visible_text(reason),
            **_links(view, place),
        },
    )


def _place(view: View) -> Place:
    """Return the kind that the path and the cluster name; the merged APIs come first.

    Raises:
        PageError: There is no such kind.
    """
    group, cluster = group_named(view.captured["group"]), view.parameter("cluster")
    version, kind = view.captured["version"], view.captured["kind"]
    if cluster and cluster not in view.scope.clusters:
        raise not_found(f"There is no cluster {cluster}. The fleet page lists all.")
    merged = view.snapshot.group(group)
    if not cluster:
        found = merged and _in_group(merged, version, kind)
        if found:
            return Place(group, found[0], kind, "", found[1])
    for name, known in view.scope.clusters.items():
        if cluster in ("", name):
            for each in known.groups or ():
                found = _in_group(each, version, kind) if each.name == group else None
                if found:
                    return Place(group, found[0], kind, name, found[1])
    api_version = f"{group}/{version}" if group else version
    where = f"in cluster {cluster}" if cluster else "here"
    message = f"No kind {kind} of {api_version} is served {where}."
    raise not_found(f"{message} Search for its name, or see the page of its group.")


def _in_group(group: Group, version: str, kind: str) -> tuple[Version, tuple[Resource, ...]] | None:
    for each in group.versions:
        if each.version == version and (found := _resources(each, kind)):
            return each, found
    return None


def _resources(version: Version, kind: str) -> tuple[Resource, ...]:
    return tuple(
        resource
        for resource in version.resources
        if resource.response_kind is not None
        and resource.response_kind.kind == kind
        and not resource.is_made_up
    )


def _versions(view: View, place: Place) -> list[Version]:
    """Return the versions with the kind, where it is looked at."""
    if place.cluster:
        return _versions_in(view.scope.clusters[place.cluster].groups or (), place)
    merged = view.snapshot.group(place.group)
    return _versions_in((merged,) if merged else (), place)


def _versions_in(groups: Iterable[Group], place: Place) -> list[Version]:
    return [
        version
        for group in groups
        if group.name == place.group
        for version in group.versions
        if _resources(version, place.kind)
    ]


def _cluster_lines(view: View, place: Place) -> list[ClusterLine]:
    """Return the clusters by the versions in which they serve the kind, the most first."""
    names: dict[tuple[bool, tuple[str, ...]], list[str]] = {}
    for name, cluster in view.scope.clusters.items():
        versions = tuple(each.version for each in _versions_in(cluster.groups or (), place))
        names.setdefault((cluster.groups is not None, versions), []).append(name)
    lines = [
        ClusterLine(versions, known, tuple(found)) for (known, versions), found in names.items()
    ]
    return sorted(
        lines, key=lambda line: (bool(line.versions), line.is_known, len(line.names)), reverse=True
    )


async def _schemas(view: View, place: Place) -> Schemas | None:
    documents = view.documents(place.cluster)
    if documents is None:
        return None
    key = key_of(GroupVersion(place.group, place.version.version))
    return await view.served.schemas.of(documents, key)


def _why_none(place: Place) -> str:
    if place.cluster:
        return f"Cluster {place.cluster} has not published its OpenAPI documents, or not yet."
    return f"There is no OpenAPI document of {place.api_version} here."


def _shown(view: View, place: Place, schemas: Schemas, root: Object) -> Shown:
    tree = FieldTree(schemas, root)
    path = view.parameters.get("field", _OPEN_AT_FIRST)
    names = tree.find(path)
    found = ".".join(names)
    is_missing = path != found and "field" in view.parameters
    text = schemas.whole(root).get("description")
    example = no_example = ""
    resource = place.resources[0]
    named = Named(place.api_version, place.kind, resource.scope != "Cluster")
    try:
        example = visible_text(manifest(schemas, root, named))
    except NoExample as error:
        no_example = visible_text(str(error))
    return Shown(
        descriptions.whole(text if isinstance(text, str) else ""),
        tree.tree(names, _start(view)),
        found,
        visible_text(path[:_MAX_SHOWN_PATH]) if is_missing else "",
        example,
        no_example,
    )


def _part(view: View, place: Place, tree: FieldTree) -> Page:
    """Make one field, or the next fields of a level, for an open page."""
    path = view.parameters["field"]
    names = tree.find(path)
    if ".".join(names) != path:
        raise not_found(f"There is no field {path[:_MAX_SHOWN_PATH]}.")
    start = _start(view)
    level: Level | None = None
    field: Field | None = None
    if start is not None or not names:
        level = tree.level(names, start or 0)
    else:
        field = tree.field(names, is_open=view.parameter("open") != "no")
    values = {"place": place, "field": field, "level": level, **_links(view, place)}
    return Page("kind_fields.html", values)


def _links(view: View, place: Place) -> dict[str, object]:
    """Return the values from which templates make the links of fields."""
    cluster = view.parameter("cluster")
    return {
        "here": view.root + view.path,
        "chosen": {"cluster": cluster} if cluster else {},
        "explained": place.resources[0].resource,
    }


def _start(view: View) -> int | None:
    text = view.parameter("from")
    return int(text) if text.isascii() and text.isdigit() and len(text) < _MAX_DIGITS else None
