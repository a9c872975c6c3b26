"""The effects of a report on the objects."""

import asyncio
from datetime import UTC, datetime

import pytest
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.storage_versions.members import NotMember
from apidiscovery_service.storage_versions.model import ServerStorageVersion, status_of
from apidiscovery_service.storage_versions.reports import (
    GroupVersionResource,
    ReportedResource,
    ReportOutcome,
    entries,
)
from apidiscovery_service.store import StoreUnavailable
from apidiscovery_service.store.memory import MemoryStore
from storage_version_replicas import Replica, lease_key, object_key, ticking, writes
from store_wrapper import DisturbedStore, failing, once

INGRESSES = ReportedResource(
    "networking.k8s.io",
    "ingresses",
    "networking.k8s.io/v1",
    ("networking.k8s.io/v1", "networking.k8s.io/v1beta1"),
    ("networking.k8s.io/v1",),
    (
        GroupVersionResource("extensions", "v1beta1", "ingresses"),
        GroupVersionResource("networking.k8s.io", "v1", "ingresses"),
    ),
)
OLD_INGRESSES = ReportedResource(
    "extensions",
    "ingresses",
    "networking.k8s.io/v1",
    ("extensions/v1beta1", "networking.k8s.io/v1"),
    (),
    (
        GroupVersionResource("extensions", "v1beta1", "ingresses"),
        GroupVersionResource("networking.k8s.io", "v1", "ingresses"),
    ),
)
PODS = ReportedResource("", "pods", "v1", ("v1",), ("v1",))


@pytest.fixture
def store() -> DisturbedStore:
    return DisturbedStore(MemoryStore())


@pytest.fixture
def replica(store: DisturbedStore) -> Replica:
    return Replica(store, now=ticking())


def written_objects(store: DisturbedStore) -> list[str]:
    return [key for key in store.puts if key.startswith("storageversions/")]


# Objects.


async def test_the_first_report_makes_the_object(replica: Replica) -> None:
    a = await replica.join("a")
    (result,) = await replica.reports.report(a, [PODS])
    assert (result.name, result.outcome, result.agreed) == (
        "core.pods",
        ReportOutcome.CREATED,
        True,
    )
    value = result.stored.object
    metadata = metadata_of(value)
    assert metadata["name"] == "core.pods"
    assert metadata["resourceVersion"] == str(result.stored.revision)
    assert datetime.fromisoformat(str(metadata["creationTimestamp"])).tzinfo == UTC
    assert len(str(metadata["uid"])) == 36
    assert list(value) == ["kind", "apiVersion", "metadata", "spec", "status"]
    assert value["spec"] == {}
    assert value["status"] == {
        "storageVersions": [
            {
                "apiServerID": a,
                "encodingVersion": "v1",
                "decodableVersions": ["v1"],
                "servedVersions": ["v1"],
            }
        ],
        "commonEncodingVersion": "v1",
        "conditions": [
            {
                "type": "AllEncodingVersionsEqual",
                "status": "True",
                "lastTransitionTime": metadata["creationTimestamp"],
                "reason": "CommonEncodingVersionSet",
                "message": "Common encoding version set",
            }
        ],
    }


async def test_the_same_report_again_writes_nothing(
    replica: Replica, store: DisturbedStore
) -> None:
    a = await replica.join("a")
    first = await replica.reports.report(a, [PODS, INGRESSES])
    again = await replica.reports.report(a, [INGRESSES, PODS])
    assert [each.outcome for each in again] == [ReportOutcome.UNCHANGED] * 2
    assert [each.stored for each in again] == [each.stored for each in first]
    assert len(written_objects(store)) == 2


async def test_only_changed_objects_are_written(replica: Replica, store: DisturbedStore) -> None:
    a = await replica.join("a")
    await replica.reports.report(a, [writes("daemonsets", "v1"), writes("deployments", "v1")])
    results = await replica.reports.report(
        a, [writes("daemonsets", "v1"), writes("deployments", "v2"), writes("jobs", "v1")]
    )
    assert [(each.name, each.outcome) for each in results] == [
        ("apps.daemonsets", ReportOutcome.UNCHANGED),
        ("apps.deployments", ReportOutcome.UPDATED),
        ("apps.jobs", ReportOutcome.CREATED),
    ]
    assert sorted(written_objects(store)[2:]) == [
        object_key("apps.deployments"),
        object_key("apps.jobs"),
    ]


async def test_servers_that_write_different_versions_do_not_agree(replica: Replica) -> None:
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(a, jobs="v1")
    (result,) = await replica.reports.report(b, [writes("jobs", "v2")])
    assert not result.agreed
    assert await replica.written("apps.jobs") == {a: "apps/v1", b: "apps/v2"}


async def test_other_fields_of_the_object_are_kept(replica: Replica) -> None:
    a, b = await replica.join("a"), await replica.join("b")
    (first,) = await replica.reports.report(a, [writes("jobs", "v1")])
    metadata = metadata_of(first.stored.object) | {"labels": {"a": "b"}, "generation": 4}
    await replica.objects.replace(first.stored, first.stored.object | {"metadata": metadata})
    (result,) = await replica.reports.report(b, [writes("jobs", "v1")])
    assert metadata_of(result.stored.object)["labels"] == {"a": "b"}
    condition = status_of(result.stored.object).condition
    assert condition is not None
    assert condition.observed_generation == 4


def test_entries_are_by_group_and_resource_and_equivalents_have_one() -> None:
    made = entries("a", [PODS, INGRESSES, OLD_INGRESSES])
    assert list(made.items()) == [
        ("core.pods", ServerStorageVersion("a", "v1", ("v1",), ("v1",))),
        (
            "extensions.ingresses",
            ServerStorageVersion(
                "a", "networking.k8s.io/v1", ("extensions/v1beta1", "networking.k8s.io/v1")
            ),
        ),
    ]


def test_the_versions_of_equivalents_come_last_and_once() -> None:
    made = entries("a", [INGRESSES])
    assert made["networking.k8s.io.ingresses"].decodable_versions == (
        "networking.k8s.io/v1",
        "networking.k8s.io/v1beta1",
        "extensions/v1beta1",
    )


def test_equal_duplicates_count_once() -> None:
    assert list(entries("a", [PODS, PODS])) == ["core.pods"]


VERSIONS_101 = tuple(f"v{n}" for n in range(1, 102))


def pods(
    *decodable: str,
    group: str = "",
    resource: str = "pods",
    encoding: str = "v1",
    served: tuple[str, ...] = (),
    equivalents: tuple[GroupVersionResource, ...] = (),
) -> ReportedResource:
    return ReportedResource(group, resource, encoding, decodable, served, equivalents)


@pytest.mark.parametrize(
    ("resource", "fields"),
    [
        (pods("v1", resource=""), ["resource"]),
        (pods("v1", resource="Pods"), ["resource"]),
        (pods("v1", resource="pods/status"), ["resource"]),
        (pods("v1", group="core"), ["group"]),
        (pods("v1", group="a_b"), ["group"]),
        (pods("v1", encoding=""), ["encoding_version", "decodable_versions"]),
        (pods("a/b/c", encoding="a/b/c"), ["encoding_version", "decodable_versions[0]"]),
        (pods(), ["decodable_versions"]),
        (pods("v2"), ["decodable_versions"]),
        (pods("v1", "v1"), ["decodable_versions[1]"]),
        (pods("v1", "V2"), ["decodable_versions[1]"]),
        (pods("v1", served=("v1", "v2")), ["served_versions[1]"]),
        (pods(*VERSIONS_101), ["decodable_versions"]),
        (pods(*VERSIONS_101[:100], served=VERSIONS_101), ["served_versions"]),
        (
            pods("v1", equivalents=(GroupVersionResource("a_", "V1", ""),)),
            ["equivalents[0].group", "equivalents[0].resource", "equivalents[0].version"],
        ),
        (pods("v1", equivalents=(GroupVersionResource("a", "v1", "b"),) * 101), ["equivalents"]),
    ],
)
async def test_an_invalid_report_names_each_field_and_writes_nothing(
    replica: Replica, store: DisturbedStore, resource: ReportedResource, fields: list[str]
) -> None:
    a = await replica.join("a")
    with pytest.raises(InvalidFields) as refused:
        await replica.reports.report(a, [INGRESSES, resource])
    assert [each.field for each in refused.value.violations] == [
        f"resources[1].{field}" for field in fields
    ]
    assert written_objects(store) == []


def test_differing_duplicates_are_refused() -> None:
    with pytest.raises(InvalidFields) as refused:
        entries("a", [writes("jobs", "v1"), PODS, writes("jobs", "v2")])
    assert [each.field for each in refused.value.violations] == ["resources[2]"]


def test_five_thousand_resources_are_taken_and_no_more() -> None:
    resources = [writes(f"r{n}", "v1") for n in range(5001)]
    assert len(entries("a", resources[:5000])) == 5000
    with pytest.raises(InvalidFields) as refused:
        entries("a", resources)
    assert [each.field for each in refused.value.violations] == ["resources"]


def test_at_most_fifty_violations_are_reported() -> None:
    with pytest.raises(InvalidFields) as refused:
        entries("a", [ReportedResource("", f"R{n}", "v1", ("v1",)) for n in range(100)])
    assert len(refused.value.violations) == 50


async def test_an_invalid_identity_cannot_report(replica: Replica) -> None:
    with pytest.raises(InvalidFields) as refused:
        await replica.reports.report("a/b", [PODS])
    assert [each.field for each in refused.value.violations] == ["api_server_id"]


# Membership.


async def test_a_server_without_a_lease_cannot_report(
    replica: Replica, store: DisturbedStore
) -> None:
    with pytest.raises(NotMember) as refused:
        await replica.reports.report("apiserver-a", [PODS])
    assert refused.value.api_server_id == "apiserver-a"
    assert store.puts == []


async def test_entries_of_servers_that_are_gone_are_removed_with_the_same_write(
    replica: Replica, store: DisturbedStore
) -> None:
    a, b, c = [await replica.join(name) for name in "abc"]
    for server, version in ((a, "v1"), (b, "v1"), (c, "v2")):
        await replica.says(server, jobs=version)
    await replica.members.depart(c)
    before = len(written_objects(store))
    (result,) = await replica.reports.report(a, [writes("jobs", "v1")])
    assert result.outcome is ReportOutcome.UPDATED
    assert result.agreed
    assert await replica.written("apps.jobs") == {a: "apps/v1", b: "apps/v1"}
    assert len(written_objects(store)) == before + 1


async def test_a_server_whose_lease_cannot_be_read_keeps_its_entry(
    replica: Replica, store: DisturbedStore
) -> None:
    a, b = await replica.join("a"), await replica.join("b")
    await replica.says(b, jobs="v1")
    store.before = failing("get", lease_key(b))
    with pytest.raises(StoreUnavailable):
        await replica.says(a, jobs="v1")
    assert await replica.written("apps.jobs") == {b: "apps/v1"}


# Concurrent writes and failures.


async def test_reports_through_one_process_never_write_in_vain(
    replica: Replica, store: DisturbedStore
) -> None:
    servers = [await replica.join(f"node-{n}") for n in range(8)]
    attempts = 0

    async def before(operation: str, key: str) -> None:
        nonlocal attempts
        attempts += operation == "put" and key.startswith("storageversions/")
        await asyncio.sleep(0)

    store.before = before
    await asyncio.gather(*(replica.says(each, jobs="v1", cronjobs="v1") for each in servers))
    assert attempts == len(written_objects(store)) == 16


async def test_a_report_that_waits_long_does_not_rely_on_a_removed_object(
    replica: Replica, store: DisturbedStore
) -> None:
    """The last write of this process is older than the membership that reports."""
    a, b = await replica.join("a"), await replica.join("b")
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def hold_up_b() -> None:
        reached.set()
        await go_on.wait()

    first = asyncio.create_task(replica.says(a, jobs="v1"))
    await first
    store.before = once("put", object_key("apps.jobs"), hold_up_b)
    second = asyncio.create_task(replica.says(b, jobs="v1"))
    await reached.wait()
    await replica.members.depart(a)
    await store.store.delete(object_key("apps.jobs"))
    a = await replica.join("a")
    third = asyncio.create_task(replica.says(a, jobs="v1"))
    await asyncio.sleep(0.01)
    go_on.set()
    await asyncio.gather(second, third)
    assert await replica.written("apps.jobs") == {a: "apps/v1", b: "apps/v1"}


async def test_a_report_fails_when_the_store_does_and_can_be_sent_again(
    replica: Replica, store: DisturbedStore
) -> None:
    a = await replica.join("a")
    store.before = failing("put", object_key("apps.jobs"))
    resources = [writes(name, "v1") for name in ("cronjobs", "jobs")]
    with pytest.raises(StoreUnavailable):
        await replica.reports.report(a, resources)
    store.before = None
    results = await replica.reports.report(a, resources)
    assert [each.outcome for each in results][1] is ReportOutcome.CREATED
    assert await replica.written("apps.jobs") == {a: "apps/v1"}


async def test_only_one_listing_is_read_however_many_resources(
    replica: Replica, store: DisturbedStore
) -> None:
    a = await replica.join("a")
    resources = [writes(f"r{n}", "v1") for n in range(200)]
    await replica.reports.report(a, resources)
    store.reads.clear()
    await replica.reports.report(a, resources)
    assert store.reads == [lease_key(a), "storageversions/", lease_key(a)]
