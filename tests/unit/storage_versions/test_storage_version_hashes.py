"""The hash of a storage version, against what Kubernetes publishes for its built-in resources."""

import json
from pathlib import Path
from typing import TypeAlias

import pytest
from apidiscovery_service.core.storage_version_hashes import storage_version_hash
from repository import GOLDEN

PUBLISHED = GOLDEN / "storage_version_hashes.json"
STORED = GOLDEN / "stored_versions.json"

Key: TypeAlias = tuple[str, str]  # group-version and plural


# Resources whose dump is of an older Kubernetes, which stored them in this older version.
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

# A dump of a later commit than the catalogue has this resource.
LATER: Key = ("scheduling.k8s.io/v1alpha3", "compositepodgroups")


def hashed(stored: str) -> str:
    return storage_version_hash(*stored.split("/"))


def recorded(path: Path) -> dict[Key, str]:
    """Return the value of each resource in a golden file."""
    document: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8"))
    return {
        (group_version, plural): value
        for group_version, resources in document.items()
        for plural, value in resources.items()
    }


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("apiextensions.k8s.io/v1/CustomResourceDefinition", "M5uH+AlWATY="),
        ("stable.example.com/v1/CronTab", "EdX2FP+L0js="),
    ],
)
def test_a_resource_outside_the_dumps_has_its_known_hash(stored: str, expected: str) -> None:
    assert hashed(stored) == expected


def test_computed_hashes_are_the_published_ones() -> None:
    """A hash is empty where Kubernetes publishes none."""
    stored = recorded(STORED) | STORED_THEN
    published = {key: hash_ for key, hash_ in recorded(PUBLISHED).items() if key != LATER}
    assert published == {key: hashed(stored[key]) if key in stored else "" for key in published}
