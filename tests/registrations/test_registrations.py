"""Registrations on a store in memory: what is taken, refused, seen, and what is left."""

import asyncio
import json
from typing import cast

import pytest
from apidiscovery_service.access import Caller
from apidiscovery_service.errors import InvalidFields
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.model import Freshness, Resource
from apidiscovery_service.sources.registrations.published import (
    PlacedGroup,
    from_json,
    offers_of,
    to_json,
    violations,
)
from apidiscovery_service.sources.registrations.record import Kind, Object, as_list, as_object
from apidiscovery_service.sources.registrations.refusals import (
    Denied,
    LimitExceeded,
    RevisionMismatch,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    Manifest,
    Outcome,
    Publication,
    Query,
    Reference,
    Registered,
    Requester,
    Written,
)
from apidiscovery_service.storage import StoreUnavailable
from apidiscovery_service.storage.memory import MemoryStore
from hypothesis import given
from hypothesis import strategies as st
from registry_server import Replica, following

ANYBODY = Requester()
CURRENT = {"v1": Freshness.CURRENT}


def group(name: str, *versions: str, resources: tuple[str, ...] = ("widgets",)) -> Object:
    listed: list[JSONValue] = [
        {"resource": plural, "scope": "Namespaced", "verbs": ["get", "list"]}
        for plural in resources
    ]
    return {
        "metadata": {"name": name},
        "versions": [
            {"version": v, "resources": listed, "freshness": "Current"} for v in versions or ("v1",)
        ],
    }


def publication(name: str = "east", *groups: PlacedGroup, **others: object) -> Publication:
    placed = groups or (PlacedGroup(group(f"{name}.example.com")),)
    return Publication(name, placed, **others)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]


def crd(plural: str = "widgets", **spec: JSONValue) -> Object:
    singular = plural.removesuffix("s")
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": singular.capitalize()},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }
            ],
            **spec,
        },
    }


def api_service(group_name: str = "metrics.example.com") -> Object:
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group_name}"},
        "spec": {
            "group": group_name,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "service": {"namespace": "default", "name": "metrics"},
            "insecureSkipTLSVerify": True,
        },
    }


def discovery_list(*groups: Object) -> Object:
    return {
        "apiVersion": "apidiscovery.k8s.io/v2",
        "kind": "APIGroupDiscoveryList",
        "items": list(groups),
    }


def manifest(*documents: Object, list_name: str = "", file: str = "") -> Manifest:
    return Manifest("\n---\n".join(map(json.dumps, documents)).encode(), file, list_name)


def with_metadata(document: Object, **metadata: JSONValue) -> Object:
    return {**document, "metadata": {**as_object(document["metadata"]), **metadata}}


async def apply(replica: Replica, *documents: Object, **others: object) -> list[Written]:
    application = Application((manifest(*documents, list_name="lists"),), **others)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    return list(await replica.registrations.apply(application, ANYBODY))


def content(written: Written) -> Object:
    return as_object(written.registered.record.content)


def conditions(written: Written | Registered) -> dict[str, str]:
    registered = written.registered if isinstance(written, Written) else written
    status = as_object(as_object(registered.record.content).get("status"))
    listed = map(as_object, as_list(status.get("conditions")))
    return {str(c["type"]): f"{c['status']} {c['reason']}" for c in listed}


async def stored(replica: Replica, **query: object) -> list[Registered]:
    page = await replica.registrations.list(Query(**query))  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    assert page.next_after is None
    return list(page.registered)


# Publish.


async def test_what_is_published_is_served_once_it_is_acknowledged() -> None:
    async with following(Replica()) as (replica,):
        written = await replica.registrations.publish(publication(), ANYBODY)
        assert written.outcome is Outcome.CREATED
        assert replica.served() == {"east.example.com": CURRENT}
        assert replica.registry.sources == ("registrations:groups/east",)


async def test_other_replicas_serve_it_as_well_and_take_it_away_again() -> None:
    store = MemoryStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await one.registrations.publish(publication("east"), ANYBODY)
        await other.registrations.publish(publication("west"), ANYBODY)
        async with asyncio.timeout(1):
            while one.served() != other.served() or len(one.served()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
        assert one.registry.snapshot.named.etag == other.registry.snapshot.named.etag
        await other.registrations.withdraw([Reference(Kind.GROUPS, "east")], "", ANYBODY)
        assert "east.example.com" not in other.served()
        async with asyncio.timeout(1):
            while "east.example.com" in one.served():  # noqa: ASYNC110
                await asyncio.sleep(0.001)


async def test_a_replica_that_starts_has_everything() -> None:
    store = MemoryStore()
    async with following(Replica(store)) as (first,):
        await first.registrations.publish(publication(), ANYBODY)
        await apply(first, crd(), api_service())
    async with following(Replica(store)) as (second,):
        assert second.registry.snapshot.named.etag == first.registry.snapshot.named.etag
        assert list(second.declarations.api_services) == ["v1.metrics.example.com"]


async def test_the_same_again_changes_nothing_whatever_is_expected() -> None:
    async with following(Replica()) as (replica,):
        first = await replica.registrations.publish(publication(expected=0), ANYBODY)
        for expected in (0, first.registered.revision, 12345, None):
            again = await replica.registrations.publish(publication(expected=expected), ANYBODY)
            assert again.outcome is Outcome.UNCHANGED
            assert again.registered == first.registered


async def test_another_revision_than_expected_is_refused_with_the_present_one() -> None:
    other = PlacedGroup(group("other.example.com"))
    async with following(Replica()) as (replica,):
        with pytest.raises(RevisionMismatch) as caught:
            await replica.registrations.publish(publication(expected=7), ANYBODY)
        assert caught.value.revision == 0
        first = await replica.registrations.publish(publication(), ANYBODY)
        with pytest.raises(RevisionMismatch) as caught:
            await replica.registrations.publish(publication("east", other, expected=0), ANYBODY)
        assert caught.value.revision == first.registered.revision
        assert (caught.value.kind, caught.value.name) == (Kind.GROUPS, "east")
        second = await replica.registrations.publish(
            publication("east", other, expected=first.registered.revision), ANYBODY
        )
        assert second.outcome is Outcome.CONFIGURED
        assert second.registered.record.created == first.registered.record.created
        assert replica.served() == {"other.example.com": CURRENT}


async def test_of_writers_that_expect_the_same_revision_one_wins() -> None:
    async with following(Replica()) as (replica,):
        first = await replica.registrations.publish(publication(), ANYBODY)
        results = await asyncio.gather(
            *(
                replica.registrations.publish(
                    publication(
                        "east",
                        PlacedGroup(group(f"g{n}.example.com")),
                        expected=first.registered.revision,
                    ),
                    ANYBODY,
                )
                for n in range(20)
            ),
            return_exceptions=True,
        )
    won = [result for result in results if isinstance(result, Written)]
    lost = [result for result in results if isinstance(result, RevisionMismatch)]
    assert (len(won), len(lost)) == (1, 19)
    assert {error.revision for error in lost} == {won[0].registered.revision}


async def test_writers_that_expect_nothing_all_succeed_and_the_last_stands() -> None:
    async with following(Replica()) as (replica,):
        results = await asyncio.gather(
            *(
                replica.registrations.publish(
                    publication("east", PlacedGroup(group(f"g{n}.example.com"))), ANYBODY
                )
                for n in range(20)
            )
        )
        last = max(results, key=lambda written: written.registered.revision)
        assert [*replica.served()] == [from_json(last.registered.record.content)[0].name]
        assert len({written.registered.revision for written in results}) == 20


async def test_who_may_not_change_a_group_can_neither_take_nor_replace_it() -> None:
    mine = Requester(Caller("me"), lambda groups: None if groups <= {"me.example.com"} else "no")
    async with following(Replica()) as (replica,):
        await replica.registrations.publish(publication("east"), ANYBODY)
        with pytest.raises(Denied):
            await replica.registrations.publish(publication("west"), mine)
        with pytest.raises(Denied):
            await replica.registrations.publish(
                publication("east", PlacedGroup(group("me.example.com"))), mine
            )
        with pytest.raises(Denied):
            await replica.registrations.withdraw([Reference(Kind.GROUPS, "east")], "", mine)
        await replica.registrations.publish(publication("me"), mine)
        assert [*replica.served()] == ["east.example.com", "me.example.com"]


async def test_a_registration_that_is_too_large_is_refused_by_name() -> None:
    large = PlacedGroup(group("a.example.com", resources=tuple(f"r{n:0500}" for n in range(3000))))
    async with following(Replica()) as (replica,):
        with pytest.raises(InvalidFields) as caught:
            await replica.registrations.publish(publication("east", large), ANYBODY)
    (violation,) = caught.value.violations
    assert violation.field == "groups"
    assert "at most 1048576" in violation.message


# Groups and their places.


def test_every_field_that_is_wrong_is_named() -> None:
    wrong = [
        PlacedGroup(group("Not-a-name"), 0, (5, 6)),
        PlacedGroup(
            {
                "metadata": {"name": "b.example.com"},
                "versions": [
                    {"version": "v1", "resources": [{"resource": "a"}, {"scope": "Cluster"}]},
                    {"version": "1"},
                    {"version": "v2", "resources": [{"resource": "ok", "scope": "Cluster"}]},
                ],
            },
            20_001,
        ),
        PlacedGroup({"metadata": {"name": "c.example.com"}, "versions": []}),
    ]
    assert [violation.field for violation in violations(wrong)] == [
        "groups[0].groupPriorityMinimum",
        "groups[0].versionPriorities",
        "groups[1].groupPriorityMinimum",
        "groups[0].group.metadata.name",
        "groups[1].group.versions[0].resources[0].scope",
        "groups[1].group.versions[0].resources[1].resource",
        "groups[1].group.versions[1].version",
        "groups[2].group.versions",
    ]


def test_a_group_twice_is_named() -> None:
    twice = [PlacedGroup(group("a.example.com")), PlacedGroup(group("a.example.com"))]
    assert [v.field for v in violations(twice)] == ["groups[1].group.metadata.name"]


def test_a_group_without_priority_is_raised_to_those_after_it() -> None:
    offers = offers_of(
        [
            PlacedGroup(group("a.example.com")),
            PlacedGroup(group("b.example.com"), 15_000),
            PlacedGroup(group("c.example.com")),
            PlacedGroup(group("apps"), 10),
            PlacedGroup(group("d.example.com", "v1", "v2"), None, (3, 7)),
        ]
    )
    assert [(o.group, o.group_priority, o.version_priority) for o in offers] == [
        ("a.example.com", 15_000, 15),
        ("b.example.com", 15_000, 15),
        ("c.example.com", 1_000, 15),
        ("apps", 10, 15),
        ("d.example.com", 1_000, 3),
        ("d.example.com", 1_000, 7),
    ]
    assert [offer.group_rank for offer in offers] == [0, 1, 2, 3, 4, 4]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("apps", "batch", "a.example.com", "b.example.com")),
            st.none() | st.integers(1, 20_000),
        ),
        unique_by=lambda drawn: drawn[0],
    )
)
def test_groups_keep_their_places_before_those_without_more(
    drawn: list[tuple[str, int | None]],
) -> None:
    groups = [PlacedGroup(group(name), priority) for name, priority in drawn]
    assert from_json(to_json(groups)) == groups
    offers = offers_of(groups)
    for place, (_, priority) in enumerate(drawn):
        if priority is not None:
            assert offers[place].group_priority == priority
        else:
            assert all(offers[place].group_priority >= o.group_priority for o in offers[place:])


# Apply.


async def test_all_kinds_are_taken_and_answered_in_order() -> None:
    documents = (crd(), api_service(), discovery_list(group("a.example.com")))
    async with following(Replica()) as (replica,):
        written = await apply(replica, *documents, discovery_list(group("b.example.com")))
        assert [(w.registered.kind, w.registered.name, w.outcome) for w in written] == [
            (Kind.CRD, "widgets.example.com", Outcome.CREATED),
            (Kind.API_SERVICE, "v1.metrics.example.com", Outcome.CREATED),
            (Kind.GROUPS, "lists", Outcome.CREATED),
            (Kind.GROUPS, "lists-2", Outcome.CREATED),
        ]
        assert [*replica.served()] == ["a.example.com", "b.example.com", "example.com"]
        again = await apply(replica, *documents)
        assert {w.outcome for w in again} == {Outcome.UNCHANGED}
        assert [w.registered for w in again] == [w.registered for w in written[:3]]


async def test_a_crd_gets_what_the_server_adds_and_its_status() -> None:
    theirs: dict[str, JSONValue] = {
        "uid": "theirs",
        "generation": 77,
        "managedFields": [],
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "labels": {"a": "b"},
    }
    status_given: JSONValue = {
        "acceptedNames": {"plural": "theirs", "kind": "Theirs"},
        "conditions": [{"type": "Established", "status": "False", "reason": "Theirs"}],
    }
    given_one = {**with_metadata(crd(), **theirs), "status": status_given}
    async with following(Replica()) as (replica,):
        (written,) = await apply(replica, given_one)
        metadata = as_object(content(written)["metadata"])
        assert metadata["generation"] == 1
        assert len(str(metadata["uid"])) == 36
        assert str(metadata["creationTimestamp"]) > "2026"
        assert metadata["labels"] == {"a": "b"}
        assert "managedFields" not in metadata
        assert conditions(written) == {
            "NamesAccepted": "True NoConflicts",
            "Established": "True InitialNamesAccepted",
        }
        status = as_object(content(written)["status"])
        assert as_object(status["acceptedNames"])["plural"] == "widgets"
        assert status["storedVersions"] == ["v1"]
        (held,) = await stored(replica)
        assert held == written.registered

        (labelled,) = await apply(replica, with_metadata(crd(), labels={"a": "c"}))
        after = as_object(content(labelled)["metadata"])
        assert (after["generation"], after["uid"]) == (1, metadata["uid"])
        assert content(labelled)["status"] == status
        names = {**as_object(as_object(crd()["spec"])["names"]), "shortNames": ["wd"]}
        (renamed,) = await apply(replica, crd(names=names))
        assert as_object(content(renamed)["metadata"])["generation"] == 2
        accepted = as_object(as_object(content(renamed)["status"])["acceptedNames"])
        assert accepted["shortNames"] == ["wd"]


async def test_a_new_storage_version_joins_the_stored_ones() -> None:
    (first,) = cast("list[Object]", as_object(crd()["spec"])["versions"])
    two: JSONValue = [{**first, "storage": False}, {**first, "name": "v2"}]
    async with following(Replica()) as (replica,):
        await apply(replica, crd())
        (written,) = await apply(replica, crd(versions=two))
        assert as_object(content(written)["status"])["storedVersions"] == ["v1", "v2"]


async def test_a_name_that_becomes_free_goes_to_who_wanted_it() -> None:
    taken: JSONValue = {"plural": "gadgets", "singular": "gadget", "kind": "Widget"}
    async with following(Replica()) as (replica,):
        (winner,) = await apply(replica, crd())
        (loser,) = await apply(replica, crd("gadgets", names=taken))
        assert conditions(winner)["NamesAccepted"] == "True NoConflicts"
        assert conditions(loser)["Established"] == "False NotAccepted"
        assert [r.resource for r in _resources(replica)] == ["widgets"]
        reference = Reference(Kind.CRD, "widgets.example.com")
        await replica.registrations.withdraw([reference], "", ANYBODY)
        assert [r.resource for r in _resources(replica)] == ["gadgets"]
        (held,) = await stored(replica)
        assert conditions(held) == {
            "NamesAccepted": "True NoConflicts",
            "Established": "True InitialNamesAccepted",
        }


def _resources(replica: Replica) -> tuple[Resource, ...]:
    (published,) = replica.registry.snapshot.named.groups
    return published.group.versions[0].resources


async def test_a_crd_that_is_established_stays_so_on_every_replica() -> None:
    names = as_object(as_object(crd()["spec"])["names"])
    gadgets: JSONValue = {"plural": "gadgets", "kind": "Gadget", "shortNames": ["g"]}
    store = MemoryStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await apply(one, crd(names={**names, "shortNames": ["w"]}), crd("gadgets", names=gadgets))
        (written,) = await apply(other, crd(names={**names, "shortNames": ["g"], "singular": "a"}))
        assert conditions(written) == {
            "NamesAccepted": "False ShortNamesConflict",
            "Established": "True InitialNamesAccepted",
        }
        accepted = as_object(as_object(content(written)["status"])["acceptedNames"])
        assert (accepted["shortNames"], accepted["singular"]) == (["w"], "a")
        late = Replica(store)
        await late.registrations.load()
        await _agree(one, other, late)
        assert [(r.resource, r.short_names) for r in _resources(late)] == [
            ("gadgets", ("g",)),
            ("widgets", ("w",)),
        ]
        reference = Reference(Kind.CRD, "gadgets.example.com")
        await one.registrations.withdraw([reference], "", ANYBODY)
        await _agree(one, other)
        assert [(r.resource, r.short_names) for r in _resources(other)] == [("widgets", ("g",))]
        (held,) = await stored(other)
        assert conditions(held) == {
            "NamesAccepted": "True NoConflicts",
            "Established": "True InitialNamesAccepted",
        }


async def _agree(*replicas: Replica) -> None:
    """See that replicas come to the same, in what they serve and in what they say of it."""

    def differ() -> bool:
        first, *others = [
            (
                replica.registry.snapshot.named.etag,
                replica.declarations.group_statuses("example.com"),
            )
            for replica in replicas
        ]
        return any(other != first for other in others)

    async with asyncio.timeout(1):
        while differ():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.001)


async def test_a_status_that_is_sent_decides_nothing_and_need_not_be_valid() -> None:
    condition: Object = {"type": "Established", "status": "False"}
    statuses: list[JSONValue] = ["text", {"conditions": [condition], "storedVersions": ["v9"]}]
    for status in statuses:
        async with following(Replica()) as (replica,):
            document: Object = {**with_metadata(crd(), deletionTimestamp=1), "status": status}
            (written,) = await apply(replica, document)
            assert conditions(written)["Established"] == "True InitialNamesAccepted"
            assert as_object(content(written)["status"])["storedVersions"] == ["v1"]
            assert [r.resource for r in _resources(replica)] == ["widgets"]


async def test_a_list_has_the_name_that_it_says() -> None:
    named: Object = {**discovery_list(group("a.example.com")), "metadata": {"name": "east"}}
    async with following(Replica()) as (replica,):
        written = await apply(replica, named, discovery_list(group("b.example.com")))
        assert [one.registered.name for one in written] == ["east", "lists-2"]
        with pytest.raises(InvalidFields) as caught:
            await apply(replica, {**named, "metadata": {"name": "East!"}})
    (violation,) = caught.value.violations
    assert violation.field == "manifests[0].documents[0].metadata.name"


async def test_a_transition_keeps_its_time_unless_the_status_of_the_condition_changes() -> None:
    now = 1_000_000_000.0
    replica = Replica()
    replica.registrations = type(replica.registrations)(
        replica.store, replica.declarations, lambda: now
    )
    async with following(replica):
        (first,) = await apply(replica, crd())
        now += 100
        names = {**as_object(as_object(crd()["spec"])["names"]), "shortNames": ["wd"]}
        (second,) = await apply(replica, crd(names=names))
    listed = [as_list(as_object(content(w)["status"])["conditions"]) for w in (first, second)]
    assert listed[0] == listed[1]
    assert {str(as_object(c)["lastTransitionTime"]) for c in listed[0]} == {"2001-09-09T01:46:40Z"}


async def test_documents_that_are_wrong_are_all_named_and_nothing_is_taken() -> None:
    wrong_scope = crd("gadgets", scope="Everywhere")
    broken = with_metadata(api_service(), name="nonsense")
    also_wrong = crd("gears", scope="Everywhere")
    async with following(Replica()) as (replica,):
        with pytest.raises(InvalidFields) as caught:
            await replica.registrations.apply(
                Application(
                    (
                        manifest(crd(), wrong_scope, also_wrong, file="first.yaml"),
                        manifest(broken),
                        Manifest(b"\xff"),
                    )
                ),
                ANYBODY,
            )
        assert replica.served() == {}
        assert await stored(replica) == []
    fields = {v.field: v.message for v in caught.value.violations}
    assert fields["manifests[0].documents[1].spec.scope"].startswith("first.yaml:3: ")
    assert fields["manifests[0].documents[2].spec.scope"].startswith("first.yaml:5: ")
    assert any(f.startswith("manifests[1].documents[0].") for f in fields)
    assert "manifests[2].content" in fields


@pytest.mark.parametrize(
    ("application", "field"),
    [
        pytest.param(
            Application((manifest(discovery_list(group("a.example.com"))),)),
            "manifests[0].list_name",
            id="a list without a name",
        ),
        pytest.param(
            Application((manifest(crd()), manifest(crd()))),
            "manifests[1].documents[0].metadata.name",
            id="the same twice",
        ),
        pytest.param(
            Application((manifest(with_metadata(crd(), resourceVersion="new")),)),
            "manifests[0].documents[0].metadata.resourceVersion",
            id="no revision",
        ),
        pytest.param(
            Application((manifest(crd()),), expected=(Reference(Kind.GROUPS, "x", 1),)),
            "expected[0]",
            id="an expectation of something else",
        ),
    ],
)
async def test_requests_that_cannot_be_meant(application: Application, field: str) -> None:
    async with following(Replica()) as (replica,):
        with pytest.raises(InvalidFields) as caught:
            await replica.registrations.apply(application, ANYBODY)
    assert [violation.field for violation in caught.value.violations] == [field]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("---\nkind: nothing\n" * 10_002, id="documents"),
        pytest.param(
            json.dumps({"apiVersion": "v1", "kind": "List", "items": [discovery_list()] * 10_001}),
            id="items of a list",
        ),
    ],
)
async def test_too_many_documents_are_refused(text: str) -> None:
    application = Application((Manifest(text.encode(), list_name="lists"),))
    async with following(Replica()) as (replica,):
        with pytest.raises(LimitExceeded, match="10000"):
            await replica.registrations.apply(application, ANYBODY)


async def test_expectations_of_an_apply() -> None:
    name = "widgets.example.com"
    changed = with_metadata(crd(), labels={"a": "b"})
    async with following(Replica()) as (replica,):
        (first,) = await apply(replica, crd(), expected=(Reference(Kind.CRD, name, 0),))
        revision = first.registered.revision
        with pytest.raises(RevisionMismatch):
            await apply(replica, changed, expected=(Reference(Kind.CRD, name, revision + 1),))
        with pytest.raises(RevisionMismatch):
            await apply(replica, api_service(), with_metadata(changed, resourceVersion="1"))
        assert len(await stored(replica)) == 1
        current = with_metadata(changed, resourceVersion=str(revision))
        (second,) = await apply(replica, current)
        assert second.outcome is Outcome.CONFIGURED
        (again,) = await apply(replica, current)
        assert again.outcome is Outcome.UNCHANGED


async def test_a_dry_run_tells_and_changes_nothing() -> None:
    async with following(Replica()) as (replica,):
        (told,) = await apply(replica, crd(), dry_run=True, owner="me")
        assert (told.outcome, told.registered.revision) == (Outcome.CREATED, 0)
        assert (await replica.store.list("")).entries == ()
        await apply(replica, crd())
        (told,) = await apply(replica, crd(scope="Namespaced"), dry_run=True)
        assert told.outcome is Outcome.UNCHANGED
        (told,) = await apply(replica, with_metadata(crd(), labels={"a": "b"}), dry_run=True)
        assert told.outcome is Outcome.CONFIGURED
        assert as_object(content(told)["metadata"])["labels"] == {"a": "b"}
        (held,) = await stored(replica)
        assert "labels" not in as_object(as_object(held.record.content)["metadata"])


async def test_what_a_crd_may_not_change() -> None:
    async with following(Replica()) as (replica,):
        await apply(replica, crd())
        with pytest.raises(InvalidFields) as caught:
            await apply(replica, crd(scope="Cluster"))
    (violation,) = caught.value.violations
    assert violation.field == "manifests[0].documents[0].spec.scope"
    assert violation.message == 'Invalid value: "Cluster": field is immutable'


async def test_a_crd_with_finalizers_stays_terminating_until_they_are_gone() -> None:
    held_back = with_metadata(crd(), finalizers=["example.com/clean-up"])
    reference = Reference(Kind.CRD, "widgets.example.com")
    async with following(Replica()) as (replica,):
        await apply(replica, held_back)
        (removed,) = await replica.registrations.withdraw([reference], "", ANYBODY)
        assert removed.name == "widgets.example.com"
        (left,) = await stored(replica)
        metadata = as_object(as_object(left.record.content)["metadata"])
        assert metadata["generation"] == 2
        assert metadata["deletionTimestamp"]
        assert conditions(left)["Terminating"].startswith("True")
        assert "create" not in (_resources(replica)[0].verbs or ())
        assert len(await replica.registrations.withdraw([reference], "", ANYBODY)) == 1
        with pytest.raises(InvalidFields) as caught:
            await apply(replica, with_metadata(crd(), finalizers=["new"]))
        assert caught.value.violations[0].field.endswith("metadata.finalizers")
        (gone,) = await apply(replica, crd())
        assert gone.outcome is Outcome.CONFIGURED
        assert await stored(replica) == []
        assert replica.served() == {}
        assert await replica.registrations.withdraw([reference], "", ANYBODY) == []


# Withdraw.


async def test_withdraw_tells_what_was_there_and_passes_over_what_was_not() -> None:
    async with following(Replica()) as (replica,):
        written = await replica.registrations.publish(publication(), ANYBODY)
        references = [Reference(Kind.GROUPS, "east"), Reference(Kind.CRD, "none.example.com", 5)]
        removed = await replica.registrations.withdraw(references, "", ANYBODY)
        assert removed == [Reference(Kind.GROUPS, "east", written.registered.revision)]
        assert replica.served() == {}
        assert await replica.registrations.withdraw(references, "", ANYBODY) == []


async def test_withdraw_of_another_revision_removes_nothing() -> None:
    async with following(Replica()) as (replica,):
        await replica.registrations.publish(publication("east"), ANYBODY)
        west = await replica.registrations.publish(publication("west"), ANYBODY)
        references = [Reference(Kind.GROUPS, "east"), Reference(Kind.GROUPS, "west", 999)]
        with pytest.raises(RevisionMismatch) as caught:
            await replica.registrations.withdraw(references, "", ANYBODY)
        assert caught.value.revision == west.registered.revision
        assert len(replica.served()) == 2


# List.


async def test_lists_are_sorted_filtered_and_paged() -> None:
    async with following(Replica()) as (replica,):
        await apply(replica, api_service(), crd("b"), crd("a"))
        for name in ("north", "east", "west"):
            await replica.registrations.publish(publication(name, owner="me"), ANYBODY)
        every = [(one.kind, one.name) for one in await stored(replica)]
        assert every == [
            (Kind.GROUPS, "east"),
            (Kind.GROUPS, "north"),
            (Kind.GROUPS, "west"),
            (Kind.CRD, "a.example.com"),
            (Kind.CRD, "b.example.com"),
            (Kind.API_SERVICE, "v1.metrics.example.com"),
        ]
        crds = await stored(replica, kinds=frozenset([Kind.CRD]))
        assert [one.name for one in crds] == ["a.example.com", "b.example.com"]
        assert len(await stored(replica, owner="me")) == 3
        named = await stored(replica, names=frozenset(["east", "a.example.com"]))
        assert [one.name for one in named] == ["east", "a.example.com"]

        paged: list[tuple[Kind, str]] = []
        after: tuple[Kind, str] | None = None
        for _ in range(10):
            page = await replica.registrations.list(Query(size=2, after=after))
            paged += [(one.kind, one.name) for one in page.registered]
            after = page.next_after
            if after is None:
                break
            # What comes before the place does not move what comes after it.
            await replica.registrations.publish(publication("aaa"), ANYBODY)
        assert paged == every


async def test_a_page_is_no_larger_than_clients_take() -> None:
    large = tuple(f"r{n:0400}" for n in range(1800))
    async with following(Replica()) as (replica,):
        for n in range(5):
            placed = PlacedGroup(group(f"g{n}.example.com", resources=large))
            await replica.registrations.publish(publication(f"n{n}", placed), ANYBODY)
        page = await replica.registrations.list(Query())
        assert 0 < len(page.registered) < 5
        rest = await replica.registrations.list(Query(after=page.next_after))
        assert len(page.registered) + len(rest.registered) == 5


# The store.


async def test_what_cannot_be_read_leaves_what_was_there_and_is_told() -> None:
    async with following(Replica()) as (replica,):
        await replica.registrations.publish(publication(), ANYBODY)
        await replica.store.put("registrations/groups/east", b'{"format":2}')
        await replica.store.put("registrations/groups/west", b"nonsense")
        await replica.registrations.publish(publication("north"), ANYBODY)
        assert [*replica.served()] == ["east.example.com", "north.example.com"]
        assert len(replica.registrations.warnings()) == 2
        await replica.store.delete("registrations/groups/west")
        await replica.registrations.publish(publication("south"), ANYBODY)
        (warning,) = replica.registrations.warnings()
        assert "want format 1, got 2" in warning


async def test_forgotten_changes_are_made_up_for() -> None:
    store = MemoryStore(history=3)
    writer, reader = Replica(store), Replica(store)
    async with following(writer):
        for name in ("east", "west"):
            await writer.registrations.publish(publication(name), ANYBODY)
        await reader.registrations.load()
        for name in ("a", "b", "c", "d"):
            await writer.registrations.publish(publication(name), ANYBODY)
        await writer.registrations.withdraw([Reference(Kind.GROUPS, "east")], "", ANYBODY)
        task = asyncio.create_task(reader.registrations.follow())
        try:
            async with asyncio.timeout(3):
                while reader.served() != writer.served():  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        finally:
            task.cancel()
    assert len(reader.served()) == 5


async def test_nothing_is_acknowledged_without_the_store() -> None:
    async with following(Replica()) as (replica,):
        await cast("MemoryStore", replica.store).close()
        with pytest.raises(StoreUnavailable):
            await replica.registrations.publish(publication(), ANYBODY)
