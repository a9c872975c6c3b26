"""The hash of a storage version, against what Kubernetes publishes for its built-in resources."""

import json
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from repository import GOLDEN

PUBLISHED = GOLDEN / "storage_version_hashes.json"
STORED = GOLDEN / "stored_versions.json"

Key: TypeAlias = tuple[str, str]  # group-version and plural


# A dump of an older Kubernetes, where the resource was stored in an older version: that version.
STORED_THEN: dict[Key, str] = {
    # Dump of 1.34 or 1.35, beta stored as alpha; v1 from 1.37.
    (
        "admissionregistration.k8s.io/v1beta1",
        "mutatingadmissionpolicies",
    ): "admissionregistration.k8s.io/v1alpha1/MutatingAdmissionPolicy",
    (
        "admissionregistration.k8s.io/v1beta1",
        "mutatingadmissionpolicybindings",
    ): "admissionregistration.k8s.io/v1alpha1/MutatingAdmissionPolicyBinding",
    # Dump from before v1 was stored, long ago.
    ("discovery.k8s.io/v1", "endpointslices"): "discovery.k8s.io/v1beta1/EndpointSlice",
    # Dump of 1.36, which pinned v1alpha3; v1beta2 in 1.37 is derived, not published.
    ("resource.k8s.io/v1alpha3", "devicetaintrules"): "resource.k8s.io/v1alpha3/DeviceTaintRule",
    # Dumps of 1.32 and 1.33, before there was a v1.
    **{
        (f"resource.k8s.io/{served}", plural): f"resource.k8s.io/v1beta1/{kind}"
        for served in ("v1beta1", "v1beta2")
        for plural, kind in (
            ("deviceclasses", "DeviceClass"),
            ("resourceclaims", "ResourceClaim"),
            ("resourceclaimtemplates", "ResourceClaimTemplate"),
            ("resourceslices", "ResourceSlice"),
        )
    },
}

# In a dump but not in the catalogue: the dump is of a later commit.
NOT_IN_CATALOG: set[Key] = {("scheduling.k8s.io/v1alpha3", "compositepodgroups")}

# In the catalogue but in no dump here: too new, or the only dump is of other resources.
NOT_PUBLISHED: set[Key] = {
    ("admissionregistration.k8s.io/v1alpha1", "mutatingadmissionpolicies"),
    ("admissionregistration.k8s.io/v1alpha1", "mutatingadmissionpolicybindings"),
    ("resource.k8s.io/v1", "devicetaintrules"),
    ("resource.k8s.io/v1beta2", "devicetaintrules"),
}

NOT_PERSISTED: set[Key] = {
    ("authentication.k8s.io/v1", "selfsubjectreviews"),
    ("authentication.k8s.io/v1", "tokenreviews"),
    ("authorization.k8s.io/v1", "localsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectaccessreviews"),
    ("authorization.k8s.io/v1", "selfsubjectrulesreviews"),
    ("authorization.k8s.io/v1", "subjectaccessreviews"),
    ("v1", "bindings"),
    ("v1", "componentstatuses"),
}


def hashed(stored: str) -> str:
    return storage_version_hash(*stored.split("/"))


def load_storage_versions() -> dict[Key, str]:
    text = STORED.read_text(encoding="utf-8")
    document: dict[str, dict[str, str]] = json.loads(text)
    return {
        (group_version, plural): stored
        for group_version, resources in document.items()
        for plural, stored in resources.items()
    }


def catalog_kinds() -> Iterator[tuple[Key, str]]:
    for name in ("api.v2.json", "apis.v2.json"):
        document: dict[str, Any] = json.loads((GOLDEN / "builtin" / name).read_bytes())
        for group in document["items"]:
            for version in group["versions"]:
                group_version = f"{group['metadata'].get('name', '')}/{version['version']}"
                for resource in version["resources"]:
                    key = (group_version.removeprefix("/"), resource["resource"])
                    yield key, resource["responseKind"]["kind"]


def published_hashes() -> dict[Key, str]:
    """The published hash of each resource; empty where none is published."""
    document: dict[str, dict[str, str]] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return {
        (group_version, plural): hash_
        for group_version, resources in document.items()
        for plural, hash_ in resources.items()
    }


@pytest.fixture(scope="module")
def storage_versions() -> dict[Key, str]:
    return load_storage_versions()


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("/v1/Pod", "xPOwRZ+Yhw8="),
        ("/v1/Node", "XwShjMxG9Fs="),
        ("/v1/Service", "0/CO1lhkEBI="),
        ("/v1/Namespace", "Q3oi5N2YM8M="),
        ("apps/v1/Deployment", "8aSe+NMegvE="),
        ("coordination.k8s.io/v1/Lease", "gqkMMb/YqFM="),
        ("apiregistration.k8s.io/v1/APIService", "InPBPD7+PqM="),
        ("apiextensions.k8s.io/v1/CustomResourceDefinition", "M5uH+AlWATY="),
        ("internal.apiserver.k8s.io/v1alpha1/StorageVersion", "c8YZt5U0nPk="),
        ("storagemigration.k8s.io/v1beta1/StorageVersionMigration", "pCjmmKOkLy4="),
        ("stable.example.com/v1/CronTab", "EdX2FP+L0js="),
    ],
)
def test_hash_of_a_storage_version(stored: str, expected: str) -> None:
    assert hashed(stored) == expected


def test_computed_hashes_are_the_published_ones(storage_versions: dict[Key, str]) -> None:
    published = {
        key: hash_ for key, hash_ in published_hashes().items() if key not in NOT_IN_CATALOG
    }
    stored = {key: STORED_THEN.get(key, storage_versions.get(key)) for key in published}

    assert published == {key: hashed(gvk) if gvk else "" for key, gvk in stored.items()}


def test_every_entry_is_published_or_a_known_exception(storage_versions: dict[Key, str]) -> None:
    published = {key for key, hash_ in published_hashes().items() if hash_}

    assert storage_versions.keys() - published == NOT_PUBLISHED
    assert published - storage_versions.keys() == NOT_IN_CATALOG


def test_no_exception_is_stale(storage_versions: dict[Key, str]) -> None:
    assert [key for key, then in STORED_THEN.items() if storage_versions[key] == then] == []


def test_entries_are_the_persisted_resources_of_the_catalog(
    storage_versions: dict[Key, str],
) -> None:
    kinds = {key: kind for key, kind in catalog_kinds() if key not in NOT_PERSISTED}

    assert {key: gvk.split("/")[-1] for key, gvk in storage_versions.items()} == kinds


def test_a_resource_is_stored_once_whatever_version_serves_it(
    storage_versions: dict[Key, str],
) -> None:
    by_resource: dict[Key, set[str]] = {}
    for (group_version, plural), stored in storage_versions.items():
        group = group_version.rpartition("/")[0]
        by_resource.setdefault((group, plural), set()).add(stored)

    assert [resource for resource, stored in by_resource.items() if len(stored) > 1] == []


def test_storage_versions_are_written_sorted() -> None:
    text = STORED.read_text(encoding="utf-8")

    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
