"""Facts about releases of Kubernetes agree with recorded servers."""

import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace

import pytest
from ambiguous_cluster import builtin_groups
from apidiscovery_client import InvalidConfiguration, testing
from apidiscovery_client.model import GroupVersion, GroupVersionResource, Resource, Snapshot
from apidiscovery_client.resolving import Resolver
from apidiscovery_client.snapshots.file import dump, load
from apidiscovery_client.snapshots.releases import known_groups, known_releases, release
from snapshot_samples import legacy_held


def by_name(resources: Iterable[Resource]) -> dict[GroupVersionResource, Resource]:
    """Return resources without the fields that releases lack or servers state in several ways."""
    return {one.gvr: simple(one) for one in resources}


def simple(resource: Resource) -> Resource:
    kind = replace(resource.gvk, group="", version="")
    below = tuple(
        replace(found, response_kind=found.response_kind and (
            replace(found.response_kind, group="", version="")))
        for found in sorted(resource.subresources, key=lambda found: found.name)
    )  # fmt: skip
    return replace(
        resource,
        response_kind=kind,
        singular_name=kind.kind.lower(),
        storage_version_hash="",
        subresources=below,
    )


def gvs(found: Snapshot) -> list[str]:
    return [str(version.gv) for version in found.versions]


def test_1_15_is_what_a_server_of_it_answered() -> None:
    recorded = legacy_held("kubernetes-v1.15.0").snapshot
    told = release("1.15")
    assert by_name(told.resources) == by_name(recorded.resources)
    assert gvs(told) == gvs(recorded)


def test_newest_release_is_what_a_server_of_it_serves() -> None:
    """The fake server of the testing package serves its groups."""
    assert release(known_releases()[-1]).groups == testing.builtin_groups()


def test_newest_release_agrees_with_the_documents_of_the_next_one() -> None:
    told = by_name(release("1.36", all_versions=True).resources)
    recorded = by_name(one for group in builtin_groups() for v in group.versions
                       for one in v.resources)  # fmt: skip
    common = told.keys() & recorded.keys()
    assert {name: told[name] for name in common} == {name: recorded[name] for name in common}
    assert len(common) >= 89


def test_groups_of_the_newest_release_are_in_the_order_of_servers() -> None:
    recorded = [group.name for group in builtin_groups()]
    told = [group.name for group in release("1.36", all_versions=True).groups]
    assert [name for name in told if name in recorded] == [n for n in recorded if n in told]


def test_every_minor_from_1_8_to_1_36_is_known() -> None:
    assert known_releases() == tuple(f"1.{minor}" for minor in range(8, 37))


@pytest.mark.parametrize("version", known_releases())
def test_every_release_has_pods_and_can_be_saved(version: str) -> None:
    told = release(version)
    assert Resolver(told).resolve("po").resource.gvr == GroupVersionResource("", "v1", "pods")
    assert load(dump(told), "file").groups == told.groups
    assert told.server == f"kubernetes:{version}"
    assert {group.name for group in told.groups} <= known_groups()
    assert not told.troubled


def test_only_the_minor_version_counts() -> None:
    assert release("v1.30.4") == release("1.30")


@pytest.mark.parametrize("version", ["1.7", "1.37", "latest"])
def test_other_releases_are_refused_with_those_that_are_known(version: str) -> None:
    with pytest.raises(InvalidConfiguration, match=r"1\.8 to 1\.36, such as kubernetes:1\.36"):
        release(version)


@pytest.mark.parametrize(
    ("gv", "last"),
    [
        ("apps/v1beta2", 15),
        ("extensions/v1beta1", 21),
        ("networking.k8s.io/v1beta1", 21),
        ("apiextensions.k8s.io/v1beta1", 21),
        ("rbac.authorization.k8s.io/v1beta1", 21),
        ("batch/v1beta1", 24),
        ("policy/v1beta1", 24),
        ("discovery.k8s.io/v1beta1", 24),
        ("autoscaling/v2beta2", 25),
        ("flowcontrol.apiserver.k8s.io/v1beta2", 28),
        ("flowcontrol.apiserver.k8s.io/v1beta3", 31),
    ],
)
def test_removed_versions_end_as_the_migration_guide_says(gv: str, last: int) -> None:
    assert gv in gvs(release(f"1.{last}"))
    assert gv not in gvs(release(f"1.{last + 1}"))


@pytest.mark.parametrize(
    ("version", "gv", "resource", "is_on"),
    [
        ("1.21", GroupVersion("batch", "v1beta1"), "cronjobs", True),  # beta before 1.24
        ("1.26", GroupVersion("flowcontrol.apiserver.k8s.io", "v1beta3"), "flowschemas", True),
        ("1.28", GroupVersion("admissionregistration.k8s.io", "v1beta1"),
         "validatingadmissionpolicies", False),  # beta since 1.28
        ("1.32", GroupVersion("resource.k8s.io", "v1beta1"), "resourceclaims", False),
        ("1.31", GroupVersion("networking.k8s.io", "v1beta1"), "ipaddresses", False),
        ("1.20", GroupVersion("batch", "v2alpha1"), "cronjobs", False),
    ],
)  # fmt: skip
def test_beta_versions_are_on_when_they_are_old_and_alpha_versions_never(
    version: str, gv: GroupVersion, resource: str, *, is_on: bool
) -> None:
    name = GroupVersionResource(gv.group, gv.version, resource)
    assert (name in by_name(release(version).resources)) == is_on
    assert name in by_name(release(version, all_versions=True).resources)


@pytest.mark.parametrize(
    ("version", "name", "group"),
    [
        ("1.15", "deployments", "extensions"),
        ("1.16", "deployments", "apps"),
        ("1.19", "ing", "extensions"),
        ("1.20", "ing", "networking.k8s.io"),
    ],
)
def test_names_lead_to_the_group_that_servers_of_that_time_preferred(
    version: str, name: str, group: str
) -> None:
    assert Resolver(release(version)).resolve(name).resource.gv.group == group


def test_hpa_is_preferred_in_the_order_of_kubernetes() -> None:
    group = release("1.22").group("autoscaling")
    assert group is not None
    assert [version.name for version in group.versions] == ["v1", "v2beta1", "v2beta2"]
    newer = release("1.23").group("autoscaling")
    assert newer is not None
    assert newer.preferred_version == "v2"


def test_releases_are_read_without_the_network_and_transports() -> None:
    code = (
        "import sys\n"
        "from apidiscovery_client.snapshots.releases import release\n"
        "release('1.30')\n"
        "print(sorted({'grpc', 'ssl', 'asyncio', 'httpx2', 'yaml'} & sys.modules.keys()))"
    )
    told = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=True, capture_output=True, timeout=30
    ).stdout
    assert told == b"[]\n"
