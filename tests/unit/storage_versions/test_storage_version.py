"""The hash of a storage version, against what Kubernetes publishes for its built-in resources."""

import json
from typing import TypeAlias

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


def published_hashes() -> dict[Key, str]:
    """The published hash of each resource; empty where none is published."""
    document: dict[str, dict[str, str]] = json.loads(PUBLISHED.read_text(encoding="utf-8"))
    return {
        (group_version, plural): hash_
        for group_version, resources in document.items()
        for plural, hash_ in resources.items()
    }


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


def test_computed_hashes_are_the_published_ones() -> None:
    storage_versions = load_storage_versions()
    published = {
        key: hash_ for key, hash_ in published_hashes().items() if key not in NOT_IN_CATALOG
    }
    stored = {key: STORED_THEN.get(key, storage_versions.get(key)) for key in published}

    assert published == {key: hashed(gvk) if gvk else "" for key, gvk in stored.items()}
