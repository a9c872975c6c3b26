"""CustomResourceDefinitions as discovery."""

from typing import Any

import pytest
from apidiscovery_service.core.model import (
    Freshness,
    GroupVersionKind,
    Offer,
    Resource,
    Subresource,
)
from apidiscovery_service.sources.crds.discovery import group_offers
from apidiscovery_service.sources.crds.names import statuses
from crd_manifests import CRONTABS, SCHEMA, crd, edited, simple

VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
GROUP = "stable.example.com"


def offers(*documents: dict[str, Any], stale: tuple[str, ...] = ()) -> dict[str, Offer]:
    crds = [crd(document) for document in documents]
    return {o.version.version: o for o in group_offers(crds, statuses(crds), stale)}


def resources(offer: Offer) -> list[str]:
    return [resource.resource for resource in offer.version.resources]


def test_a_definition_is_what_kubernetes_makes_of_it() -> None:
    found = offers(CRONTABS)
    assert list(found) == ["v1", "v1beta1"]
    kind = GroupVersionKind(GROUP, "v1", "CronTab")
    rights = ("get", "patch", "update")
    assert found["v1"].version.resources == (
        Resource(
            "crontabs",
            kind,
            "Namespaced",
            "crontab",
            VERBS,
            ("ct",),
            ("all",),
            (
                Subresource("status", kind, rights),
                Subresource("scale", GroupVersionKind("autoscaling", "v1", "Scale"), rights),
            ),
            "EdX2FP+L0js=",
        ),
    )
    (beta,) = found["v1beta1"].version.resources
    assert beta.response_kind == GroupVersionKind(GROUP, "v1beta1", "CronTab")
    assert (beta.subresources, beta.storage_version_hash) == ((), "EdX2FP+L0js=")
    assert {(o.group, o.group_priority, o.version_priority) for o in found.values()} == {
        (GROUP, 1000, 100)
    }


def test_a_storage_version_that_is_not_served_gives_no_hash() -> None:
    found = offers(edited(CRONTABS, "spec.versions[0].served", value=False))
    assert list(found) == ["v1beta1"]
    assert found["v1beta1"].version.resources[0].storage_version_hash == ""


def test_a_terminating_definition_takes_no_new_objects_or_changes() -> None:
    found = offers(edited(CRONTABS, "metadata.deletionTimestamp", "2026-01-01T00:00:00Z"))
    verbs = ("delete", "deletecollection", "get", "list", "watch")
    assert [o.version.resources[0].verbs for o in found.values()] == [verbs, verbs]


def test_resources_stand_in_the_order_of_their_names() -> None:
    found = offers(simple("dogs"), simple("ants"), simple("cats"))
    assert resources(found["v1"]) == ["ants", "cats", "dogs"]


def test_only_established_definitions_are_served() -> None:
    found = offers(simple("cats", shortNames=["x"]), simple("dogs", shortNames=["x"]))
    assert resources(found["v1"]) == ["cats"]
    established = {"conditions": [{"type": "Established", "status": "False"}]}
    assert offers(simple("cats", status=established)) == {}


def test_accepted_names_are_served_and_the_hash_is_of_the_wanted_kind() -> None:
    names = {"plural": "crontabs", "singular": "s", "kind": "Accepted", "categories": ["c"]}
    condition = {"type": "Established", "status": "True"}
    status = {"acceptedNames": names, "conditions": [condition]}
    (resource,) = offers({**CRONTABS, "status": status})["v1"].version.resources
    assert resource.singular_resource == "s"
    assert resource.response_kind == GroupVersionKind(GROUP, "v1", "Accepted")
    assert (resource.short_names, resource.categories) == ((), ("c",))
    assert resource.storage_version_hash == "EdX2FP+L0js="


@pytest.mark.parametrize("scope", ["Cluster", "Namespaced"])
def test_the_scope_is_kept(scope: str) -> None:
    (found,) = offers(edited(simple("cats"), "spec.scope", scope)).values()
    assert found.version.resources[0].scope == scope


def test_a_version_is_stale_when_one_of_its_definitions_is() -> None:
    two = [
        {"name": "v1", "served": True, "storage": True, "schema": SCHEMA},
        {"name": "v2", "served": True, "storage": False, "schema": SCHEMA},
    ]
    cats = edited(simple("cats"), "spec.versions", two)
    found = offers(cats, simple("dogs"), stale=("dogs.a.example",))
    assert {name: o.version.freshness for name, o in found.items()} == {
        "v1": Freshness.STALE,
        "v2": Freshness.CURRENT,
    }
    assert resources(found["v1"]) == ["cats", "dogs"]
