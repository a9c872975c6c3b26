"""Values of the model are hashable, compare by content, and have a short repr."""

from dataclasses import replace

from apidiscovery_client.model import (
    CURRENT,
    Current,
    Freshness,
    Group,
    GroupVersionKind,
    GroupVersionResource,
    Snapshot,
    Stale,
    Unknown,
    Version,
)
from snapshot_samples import SINCE, builtin_held, crds_held, troubled_held

EXTRA = {"more": {"of": ["it"]}}


def with_extras(snapshot: Snapshot) -> Snapshot:
    """Return one with fields that are not known wherever there can be some."""

    def version(found: Version) -> Version:
        resources = (
            replace(
                resource,
                extra=EXTRA,
                subresources=tuple(replace(below, extra=EXTRA) for below in resource.subresources),
            )
            for resource in found.resources
        )
        return replace(found, extra=EXTRA, resources=tuple(resources))

    def group(found: Group) -> Group:
        return replace(found, extra=EXTRA, versions=tuple(map(version, found.versions)))

    failures = {"/api": "refused"}
    return replace(snapshot, groups=tuple(map(group, snapshot.groups)), failures=failures)


def test_values_are_hashable() -> None:
    for held in (builtin_held(), crds_held(), troubled_held()):
        for snapshot in (held.snapshot, with_extras(held.snapshot)):
            resources = [one for version in snapshot.versions for one in version.resources]
            assert len({*resources}) == len(resources)
            assert {*snapshot.groups, *snapshot.versions}
            assert hash(snapshot) == hash(replace(snapshot))


def test_unknown_fields_make_a_difference() -> None:
    snapshot = builtin_held().snapshot
    assert with_extras(snapshot) != snapshot
    assert with_extras(snapshot) == with_extras(builtin_held().snapshot)


def test_kinds_of_freshness_differ() -> None:
    found: set[Freshness] = {CURRENT, Current(), Stale(SINCE, "x"), Unknown(SINCE, "x")}
    assert len(found) == 3


def test_values_are_no_tuples() -> None:
    snapshot: object = builtin_held().snapshot
    kind: object = GroupVersionKind("apps", "v1", "x")
    assert kind not in (GroupVersionResource("apps", "v1", "x"), ("apps", "v1", "x"))
    assert not hasattr(snapshot, "__len__")
    assert not hasattr(snapshot, "__iter__")
    assert not hasattr(snapshot, "__dict__")


def test_the_repr_of_a_large_snapshot_is_short() -> None:
    held = builtin_held()
    values = (
        held,
        held.snapshot,
        *held.snapshot.groups,
        *held.snapshot.versions,
        *held.snapshot.resources,
    )
    assert max(len(repr(value)) for value in values) < 400
    assert repr(held.snapshot).startswith(f"<Snapshot of {held.snapshot.server}: ")
