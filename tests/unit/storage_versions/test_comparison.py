"""Comparison of the hash in discovery with the storage version that API servers report."""

import pytest
from apidiscovery_service.core.model import Group, GroupVersionKind, Resource, Scope, Version
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.storage_versions.comparison import (
    HashComparison,
    HashVerdict,
    compare,
)
from apidiscovery_service.storage_versions.model import ServerStorageVersion, Status, with_status
from groups import document_of

V1 = storage_version_hash("apps", "v1", "Deployment")
V2 = storage_version_hash("apps", "v2", "Deployment")


def resource(plural: str, kind: GroupVersionKind | None, storage_version: str = "") -> Resource:
    return Resource(
        plural, kind, Scope.NAMESPACED, "", ("get",), storage_version_hash=storage_version
    )


def snapshot(published: str = V1) -> Snapshot:
    pods = resource(
        "pods", GroupVersionKind("", "v1", "Pod"), storage_version_hash("", "v1", "Pod")
    )
    kind = GroupVersionKind("", "", "Deployment")
    apps = Group(
        "apps",
        (
            Version("v2", (resource("deployments", kind),)),
            Version(
                "v1", (resource("jobs", None, "hash"), resource("deployments", kind, published))
            ),
        ),
    )
    return Snapshot(document_of(Group("", (Version("v1", (pods,)),))), document_of(apps))


def common(version: str | None) -> Object:
    entries = () if version is None else (ServerStorageVersion("a", version),)
    return with_status({"metadata": {}}, Status(entries, version))


@pytest.mark.parametrize(
    ("published", "version", "expected", "verdict"),
    [
        pytest.param(V1, "apps/v1", (V1, V1), HashVerdict.SAME, id="same"),
        pytest.param(V1, "apps/v2", (V1, V2), HashVerdict.DIFFERENT, id="another version"),
        pytest.param(V1, None, (V1, ""), HashVerdict.UNKNOWN, id="no common version"),
        pytest.param("", "apps/v1", ("", V1), HashVerdict.UNKNOWN, id="no hash"),
        pytest.param("", None, ("", ""), HashVerdict.UNKNOWN, id="neither"),
    ],
)
def test_the_hash_of_the_common_version_is_compared_with_the_published_one(
    published: str, version: str | None, expected: tuple[str, str], verdict: HashVerdict
) -> None:
    name = "apps.deployments"
    (found,) = compare([(name, common(version))], snapshot(published))
    assert found == HashComparison(name, *expected)
    assert found.verdict is verdict


def test_the_core_group_is_compared_too() -> None:
    (found,) = compare([("core.pods", common("v1"))], snapshot())
    assert found.verdict is HashVerdict.SAME


def test_a_resource_stored_in_another_group_has_the_hash_of_that_group() -> None:
    (found,) = compare([("apps.deployments", common("extensions/v1beta1"))], snapshot())
    assert found.reported_hash == storage_version_hash("extensions", "v1beta1", "Deployment")


def test_a_resource_of_unknown_kind_has_no_hash_to_compare() -> None:
    (found,) = compare([("apps.jobs", common("apps/v1"))], snapshot())
    assert found == HashComparison("apps.jobs", "hash", "")


def test_resources_unknown_to_discovery_are_left_out() -> None:
    names = ["core.pods", "apps.none", "other.deployments", "apps.deployments", "core.deployments"]
    found = compare([(name, common("v1")) for name in names], snapshot())
    assert [each.name for each in found] == ["core.pods", "apps.deployments"]
