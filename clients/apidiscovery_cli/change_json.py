"""A change as one JSON object."""

from datetime import datetime
from typing import TypeAlias

from apidiscovery_client import changes
from apidiscovery_client.changes import Change
from apidiscovery_client.model import Current, Freshness, GroupVersion, Resource


def change_object(change: Change, time: datetime) -> dict[str, object]:
    """Return the object: when, which type of change, what it is about, and the text for people.

    What it is about is named by `group`, empty for the core group, `version`, `resource` and
    `kind`, as far as it goes.
    """
    return {
        "time": time.isoformat(timespec="milliseconds"),
        "type": type(change).__name__,
        **_about(change),
        "text": str(change),
    }


def _about(change: Change) -> dict[str, object]:
    match change:
        case changes.ServerFreshnessChanged(server, before, after):
            return {"server": server, **_freshness(before, after)}
        case changes.FreshnessChanged(gv, before, after):
            return {**_group_version(gv), **_freshness(before, after)}
        case changes.ResourceAdded(resource) | changes.ResourceRemoved(resource):
            return _resource(resource)
        case changes.ResourceChanged(_, after, fields):
            return {**_resource(after), "fields": list(fields)}
        case changes.OrderChanged(kind, of, before, after):
            return {"of": of, "kind": kind, "before": list(before), "after": list(after)}
        case _:
            return _about_versions(change)


_OfVersions: TypeAlias = (
    changes.GroupAdded
    | changes.GroupRemoved
    | changes.GroupChanged
    | changes.VersionAdded
    | changes.VersionRemoved
    | changes.VersionChanged
    | changes.PreferredVersionChanged
)


def _about_versions(change: _OfVersions) -> dict[str, object]:
    match change:
        case changes.GroupAdded(group) | changes.GroupRemoved(group):
            return {"group": group.name, "versions": [version.name for version in group.versions]}
        case changes.GroupChanged(_, after, fields):
            return {"group": after.name, "fields": list(fields)}
        case changes.VersionAdded(version) | changes.VersionRemoved(version):
            names = [resource.name for resource in version.resources]
            return {**_group_version(version.gv), "resources": names}
        case changes.VersionChanged(_, after, fields):
            return {**_group_version(after.gv), "fields": list(fields)}
        case changes.PreferredVersionChanged(group, before, after):
            return {"group": group, "before": before, "after": after}


def _group_version(gv: GroupVersion) -> dict[str, object]:
    return {"group": gv.group, "version": gv.version}


def _resource(resource: Resource) -> dict[str, object]:
    return {**_group_version(resource.gv), "resource": resource.name, "kind": resource.kind}


def _freshness(before: Freshness, after: Freshness) -> dict[str, object]:
    words: dict[str, object] = {"before": type(before).__name__, "after": type(after).__name__}
    return words if isinstance(after, Current) else {**words, "reason": after.reason}
