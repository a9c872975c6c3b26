"""Declarations of several origins in one registry."""

import time
from typing import Any

import pytest
from apidiscovery_service.core.model import Freshness
from apidiscovery_service.core.registry import Registry
from apidiscovery_service.core.snapshot import Snapshot
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.api_service import ApiService, read_api_service
from apidiscovery_service.sources.crds import names as crd_names
from apidiscovery_service.sources.declarations import Declarations, Declared
from apidiscovery_service.sources.fields import Node
from crd_manifests import API_SERVICE, CRONTABS, crd, edited, simple
from groups import offer

GROUPS, CRDS = 600, 5

# Some ten times the cost of one update; with a cost that grew with the number of definitions an
# update would take thirty times as long as it does.
ONE_UPDATE_S = 0.01


def api_service(priority: int = 2000) -> ApiService:
    document = edited(API_SERVICE, "spec.groupPriorityMinimum", priority)
    return read_api_service(Node(document))


def of(*documents: dict[str, Any], stale: bool = False) -> Declared:
    return Declared(crds=tuple(map(crd, documents)), stale=stale)


@pytest.fixture
def registry() -> Registry:
    return Registry()


@pytest.fixture
def declarations(registry: Registry) -> Declarations:
    return Declarations(registry)


def served(registry: Registry) -> dict[str, list[str]]:
    """Return `group/version` with the names of its resources."""
    return {
        f"{g.name}/{v.version}": [resource.resource for resource in v.resources]
        for g in registry.snapshot.named.groups
        for v in g.group.versions
    }


def accepted_names(declarations: Declarations, name: str) -> JSONValue:
    status = declarations.statuses(name.partition(".")[2])[name]
    return crd_names.status_value(status)["acceptedNames"]


def test_one_update_is_one_snapshot(declarations: Declarations, registry: Registry) -> None:
    heard: list[Snapshot] = []
    registry.subscribe(heard.append)
    declarations.update(
        {
            "manifests:a": Declared(offers=(offer("b.example/v1"),), crds=(crd(simple("cats")),)),
            "manifests:b": of(simple("dogs"), CRONTABS),
        }
    )
    assert served(registry) == {
        "a.example/v1": ["cats", "dogs"],
        "b.example/v1": [],
        "stable.example.com/v1": ["crontabs"],
        "stable.example.com/v1beta1": ["crontabs"],
    }
    declarations.update({"manifests:a": of(simple("cats"))}, ["manifests:b", "manifests:unknown"])
    assert served(registry) == {"a.example/v1": ["cats"]}
    assert len(heard) == 2
    assert registry.sources == ("crds:a.example",)


def test_an_update_without_a_change_keeps_the_snapshot(
    declarations: Declarations, registry: Registry
) -> None:
    declarations.update({"manifests:a": of(CRONTABS, simple("cats"))})
    before = registry.snapshot
    declarations.update({"manifests:a": of(CRONTABS, simple("cats"))}, ["manifests:b"])
    assert registry.snapshot is before


def test_the_first_origin_of_a_name_is_in_force_then_the_next(
    declarations: Declarations, registry: Registry
) -> None:
    ours = edited(simple("cats"), "spec.versions[0].name", "v9")
    declarations.update({"registrations:crds/cats.a.example": of(simple("cats"))})
    declarations.update({"manifests:z": of(ours)})
    assert served(registry) == {"a.example/v9": ["cats"]}
    assert declarations.crd("cats.a.example") == crd(ours)
    assert declarations.conflicts() == [
        (
            "CustomResourceDefinition cats.a.example is declared by manifests:z and "
            "registrations:crds/cats.a.example; the first is in force"
        )
    ]
    declarations.update({}, ["manifests:z"])
    assert served(registry) == {"a.example/v1": ["cats"]}
    assert declarations.conflicts() == []


def test_freed_names_go_to_the_definitions_that_remain(
    declarations: Declarations, registry: Registry
) -> None:
    declarations.update(
        {
            "manifests:a": of(simple("cats", shortNames=["x"])),
            "manifests:b": of(simple("dogs", shortNames=["x"])),
        }
    )
    assert served(registry) == {"a.example/v1": ["cats"]}
    assert accepted_names(declarations, "dogs.a.example") == {
        "plural": "dogs",
        "singular": "dog",
        "kind": "Dog",
        "listKind": "DogList",
    }
    declarations.update({}, ["manifests:a"])
    assert served(registry) == {"a.example/v1": ["dogs"]}
    assert list(declarations.statuses("a.example")) == ["dogs.a.example"]
    assert declarations.statuses("none.example") == {}
    with pytest.raises(KeyError):
        accepted_names(declarations, "cats.a.example")


def test_stale_declarations_keep_their_resources(
    declarations: Declarations, registry: Registry
) -> None:
    lists = Declared(offers=(offer("b.example/v1"),), stale=True)
    declarations.update({"r:a": of(simple("cats"), stale=True), "r:b": lists, "r:c": of(CRONTABS)})
    freshness = {
        g.name: {v.freshness for v in g.group.versions} for g in registry.snapshot.named.groups
    }
    assert freshness == {
        "a.example": {Freshness.STALE},
        "b.example": {Freshness.STALE},
        "stable.example.com": {Freshness.CURRENT},
    }
    assert served(registry)["a.example/v1"] == ["cats"]
    declarations.update({"r:a": of(simple("cats"))})
    versions = registry.snapshot.named.by_name["a.example"].group.versions
    assert versions[0].freshness == Freshness.CURRENT


def test_listeners_hear_of_api_services_which_offer_nothing(
    declarations: Declarations, registry: Registry
) -> None:
    heard: list[dict[str, ApiService]] = []
    declarations.on_api_services(lambda: heard.append(dict(declarations.api_services)))
    declarations.update({"manifests:b": Declared(api_services=(api_service(),))})
    declarations.update({"manifests:b": Declared(api_services=(api_service(),))})
    declarations.update({"manifests:a": Declared(api_services=(api_service(1),))})
    declarations.update({"manifests:c": of(CRONTABS)})
    declarations.update({}, ["manifests:a"])
    name = "v1.remote.example.com"
    assert heard == [{name: api_service()}, {name: api_service(1)}, {name: api_service()}]
    assert declarations.api_services == {name: api_service()}
    assert not any("remote" in group for group in served(registry))


def test_the_cost_of_a_change_depends_on_its_group_alone() -> None:
    """One of 3 000 definitions in 600 groups is changed."""
    registry = Registry()
    declarations = Declarations(registry)
    declarations.update(
        {
            f"registrations:crds/r{i}s.g{group}.example": of(simple(f"r{i}s", f"g{group}.example"))
            for group in range(GROUPS)
            for i in range(CRDS)
        }
    )
    changed = of(simple("r0s", "g7.example", shortNames=["new"]))
    took: list[float] = []
    for declared in [changed, of(simple("r0s", "g7.example"))] * 5:
        started = time.perf_counter()
        declarations.update({"registrations:crds/r0s.g7.example": declared})
        took.append(time.perf_counter() - started)
    assert min(took) < ONE_UPDATE_S
