"""Apply on a store in memory: results, defaults of the server, and refusals."""

import json
from dataclasses import replace
from typing import cast

import pytest
from apidiscovery_formats.json_values import as_list, as_object
from apidiscovery_service.core.model import Resource
from apidiscovery_service.errors import FieldViolation, InvalidFields
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.sources.registrations.published import MAX_VIOLATIONS
from apidiscovery_service.sources.registrations.record import (
    Object,
    RegistrationKind,
    encode,
    record_of,
)
from apidiscovery_service.sources.registrations.requests import (
    Application,
    ApplyOutcome,
    LimitExceeded,
    Manifest,
    Reference,
    RevisionMismatch,
)
from apidiscovery_service.store.memory import MemoryStore
from registration_setup import (
    ANYBODY,
    api_service,
    apply,
    conditions,
    content,
    crd,
    discovery_list,
    group,
    manifest,
    stored,
    with_metadata,
)
from registry_server import Replica, following
from waiting import until

NAMES = as_object(as_object(crd()["spec"])["names"])
ESTABLISHED = {
    "NamesAccepted": "True NoConflicts",
    "Established": "True InitialNamesAccepted",
}


async def test_all_kinds_are_registered_and_returned_in_order(replica: Replica) -> None:
    documents = (crd(), api_service(), discovery_list(group("a.example.com")))
    written = await apply(replica, *documents, discovery_list(group("b.example.com")))
    assert [(w.registered.kind, w.registered.name, w.outcome) for w in written] == [
        (RegistrationKind.CRD, "widgets.example.com", ApplyOutcome.CREATED),
        (RegistrationKind.API_SERVICE, "v1.metrics.example.com", ApplyOutcome.CREATED),
        (RegistrationKind.GROUPS, "lists", ApplyOutcome.CREATED),
        (RegistrationKind.GROUPS, "lists-2", ApplyOutcome.CREATED),
    ]
    assert [*replica.served()] == ["a.example.com", "b.example.com", "example.com"]
    again = await apply(replica, *documents)
    assert {w.outcome for w in again} == {ApplyOutcome.UNCHANGED}
    assert [w.registered for w in again] == [w.registered for w in written[:3]]


async def test_a_crd_gets_the_metadata_and_status_that_the_server_sets(replica: Replica) -> None:
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
    (written,) = await apply(replica, given_one)
    metadata = as_object(content(written)["metadata"])
    assert metadata["generation"] == 1
    assert len(str(metadata["uid"])) == 36
    assert str(metadata["creationTimestamp"]) > "2026"
    assert metadata["labels"] == {"a": "b"}
    assert "managedFields" not in metadata
    assert conditions(written) == ESTABLISHED
    status = as_object(content(written)["status"])
    assert as_object(status["acceptedNames"])["plural"] == "widgets"
    assert status["storedVersions"] == ["v1"]
    (held,) = await stored(replica)
    assert held == written.registered

    (labelled,) = await apply(replica, with_metadata(crd(), labels={"a": "c"}))
    after = as_object(content(labelled)["metadata"])
    assert (after["generation"], after["uid"]) == (1, metadata["uid"])
    assert content(labelled)["status"] == status
    names = {**NAMES, "shortNames": ["wd"]}
    (renamed,) = await apply(replica, crd(names=names))
    assert as_object(content(renamed)["metadata"])["generation"] == 2
    accepted = as_object(as_object(content(renamed)["status"])["acceptedNames"])
    assert accepted["shortNames"] == ["wd"]


async def test_a_new_storage_version_joins_the_stored_ones(replica: Replica) -> None:
    (first,) = cast("list[Object]", as_object(crd()["spec"])["versions"])
    two: JSONValue = [{**first, "storage": False}, {**first, "name": "v2"}]
    await apply(replica, crd())
    (written,) = await apply(replica, crd(versions=two))
    assert as_object(content(written)["status"])["storedVersions"] == ["v1", "v2"]


async def test_a_freed_name_goes_to_the_crd_that_wants_it(replica: Replica) -> None:
    taken: JSONValue = {"plural": "gadgets", "singular": "gadget", "kind": "Widget"}
    (winner,) = await apply(replica, crd())
    (loser,) = await apply(replica, crd("gadgets", names=taken))
    assert conditions(winner)["NamesAccepted"] == "True NoConflicts"
    assert conditions(loser)["Established"] == "False NotAccepted"
    assert [r.resource for r in _resources(replica)] == ["widgets"]
    reference = Reference(RegistrationKind.CRD, "widgets.example.com")
    await replica.registrations.withdraw([reference], "", ANYBODY)
    assert [r.resource for r in _resources(replica)] == ["gadgets"]
    (held,) = await stored(replica)
    assert conditions(held) == ESTABLISHED


def _resources(replica: Replica) -> tuple[Resource, ...]:
    (published,) = replica.registry.snapshot.named.groups
    return published.group.versions[0].resources


async def test_an_established_crd_stays_established_on_every_replica() -> None:
    gadgets: JSONValue = {"plural": "gadgets", "kind": "Gadget", "shortNames": ["g"]}
    store = MemoryStore()
    async with following(Replica(store), Replica(store)) as (one, other):
        await apply(one, crd(names={**NAMES, "shortNames": ["w"]}), crd("gadgets", names=gadgets))
        (written,) = await apply(other, crd(names={**NAMES, "shortNames": ["g"], "singular": "a"}))
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
        reference = Reference(RegistrationKind.CRD, "gadgets.example.com")
        await one.registrations.withdraw([reference], "", ANYBODY)
        await _agree(one, other)
        assert [(r.resource, r.short_names) for r in _resources(other)] == [("widgets", ("g",))]
        (held,) = await stored(other)
        assert conditions(held) == ESTABLISHED


async def _agree(*replicas: Replica) -> None:
    """Wait until replicas have the same documents and statuses."""

    def agree() -> bool:
        first, *others = [
            (replica.registry.snapshot.named.etag, replica.declarations.statuses("example.com"))
            for replica in replicas
        ]
        return all(other == first for other in others)

    await until(agree)


async def test_the_status_of_a_manifest_is_ignored() -> None:
    condition: Object = {"type": "Established", "status": "False"}
    statuses: list[JSONValue] = ["text", {"conditions": [condition], "storedVersions": ["v9"]}]
    for status in statuses:
        async with following(Replica()) as (replica,):
            document: Object = {**with_metadata(crd(), deletionTimestamp=1), "status": status}
            (written,) = await apply(replica, document)
            assert conditions(written)["Established"] == "True InitialNamesAccepted"
            assert as_object(content(written)["status"])["storedVersions"] == ["v1"]
            assert [r.resource for r in _resources(replica)] == ["widgets"]


async def test_a_list_is_registered_under_its_own_name(replica: Replica) -> None:
    named: Object = {**discovery_list(group("a.example.com")), "metadata": {"name": "east"}}
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
        names = {**NAMES, "shortNames": ["wd"]}
        (second,) = await apply(replica, crd(names=names))
    listed = [as_list(as_object(content(w)["status"])["conditions"]) for w in (first, second)]
    assert listed[0] == listed[1]
    assert {str(as_object(c)["lastTransitionTime"]) for c in listed[0]} == {"2001-09-09T01:46:40Z"}


async def test_every_invalid_document_is_reported_and_none_registered(replica: Replica) -> None:
    wrong_scope = crd("gadgets", scope="Everywhere")
    broken = with_metadata(api_service(), name="nonsense")
    also_wrong = crd("gears", scope="Everywhere")
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


def _with_schema(schema: JSONValue, **metadata: JSONValue) -> Object:
    version: Object = {"name": "v1", "served": True, "storage": True}
    version["schema"] = {"openAPIV3Schema": schema}
    return with_metadata(crd(versions=[version]), **metadata)


NOT_STRUCTURAL: Object = {"type": "object", "properties": {"spec": {}}}


async def test_a_crd_without_a_structural_schema_is_refused(replica: Replica) -> None:
    with pytest.raises(InvalidFields) as caught:
        await apply(replica, crd("gadgets"), _with_schema(NOT_STRUCTURAL), dry_run=True)
    with pytest.raises(InvalidFields) as again:
        await apply(replica, crd("gadgets"), _with_schema(NOT_STRUCTURAL))
    assert replica.served() == {}
    assert caught.value.violations == again.value.violations
    (violation,) = again.value.violations
    assert violation.field == (
        "manifests[0].documents[1].spec.versions[0].schema.openAPIV3Schema.properties[spec].type"
    )
    assert violation.message == (
        "manifests[0]:3: Required value: must not be empty for specified object fields"
    )


async def test_a_stored_crd_with_an_invalid_schema_is_served_but_not_applied(
    replica: Replica,
) -> None:
    await apply(replica, crd())
    (entry,) = (await replica.store.list("registrations/crds/")).entries
    held = record_of(entry)
    wrong = {**as_object(held.content), "spec": _with_schema(NOT_STRUCTURAL)["spec"]}
    await replica.store.put(entry.key, encode(replace(held, content=wrong)))
    late = Replica(replica.store)
    await late.registrations.load()
    assert [r.resource for r in _resources(late)] == ["widgets"]
    with pytest.raises(InvalidFields):
        await apply(replica, _with_schema(NOT_STRUCTURAL, labels={"a": "b"}))
    (mended,) = await apply(replica, crd())
    assert mended.outcome is ApplyOutcome.CONFIGURED


async def test_the_last_error_says_that_there_are_more(replica: Replica) -> None:
    for count in (MAX_VIOLATIONS, MAX_VIOLATIONS + 1):
        fields: Object = {f"f{n}": {} for n in range(count)}
        with pytest.raises(InvalidFields) as caught:
            await apply(replica, _with_schema({"type": "object", "properties": fields}))
        assert len(caught.value.violations) == MAX_VIOLATIONS
        last = caught.value.violations[-1]
        more = f"have more errors than the {MAX_VIOLATIONS - 1} that are shown"
        assert (last == FieldViolation("manifests", more)) is (count > MAX_VIOLATIONS)


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
            Application((manifest(crd()),), expected=(Reference(RegistrationKind.GROUPS, "x", 1),)),
            "expected[0]",
            id="an expectation of something else",
        ),
    ],
)
async def test_inconsistent_requests_are_refused(
    replica: Replica, application: Application, field: str
) -> None:
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
async def test_too_many_documents_are_refused(replica: Replica, text: str) -> None:
    application = Application((Manifest(text.encode(), list_name="lists"),))
    with pytest.raises(LimitExceeded, match="10000"):
        await replica.registrations.apply(application, ANYBODY)


async def test_an_apply_is_refused_at_an_unexpected_revision(replica: Replica) -> None:
    name = "widgets.example.com"
    changed = with_metadata(crd(), labels={"a": "b"})
    (first,) = await apply(replica, crd(), expected=(Reference(RegistrationKind.CRD, name, 0),))
    revision = first.registered.revision
    with pytest.raises(RevisionMismatch):
        await apply(
            replica, changed, expected=(Reference(RegistrationKind.CRD, name, revision + 1),)
        )
    other = str(revision + 1)
    with pytest.raises(RevisionMismatch):
        await apply(replica, api_service(), with_metadata(changed, resourceVersion=other))
    assert len(await stored(replica)) == 1
    current = with_metadata(changed, resourceVersion=str(revision))
    (second,) = await apply(replica, current)
    assert second.outcome is ApplyOutcome.CONFIGURED
    (again,) = await apply(replica, current)
    assert again.outcome is ApplyOutcome.UNCHANGED


async def test_a_dry_run_answers_as_an_apply_and_changes_nothing(replica: Replica) -> None:
    (told,) = await apply(replica, crd(), dry_run=True, owner="me")
    assert (told.outcome, told.registered.revision) == (ApplyOutcome.CREATED, 0)
    assert conditions(told) == ESTABLISHED
    assert (await replica.store.list("")).entries == ()
    done, told_now = await apply(replica, crd()), await apply(replica, crd(), dry_run=True)
    assert told_now[0].registered == done[0].registered
    # A dry run tells that the names are taken.
    names: dict[str, JSONValue] = {"plural": "others", "singular": "widget", "kind": "Widget"}
    (told,) = await apply(replica, crd("others", names=names), dry_run=True)
    assert conditions(told)["NamesAccepted"].startswith("False")
    assert conditions(told)["Established"].startswith("False")
    await apply(replica, crd())
    (told,) = await apply(replica, crd(scope="Namespaced"), dry_run=True)
    assert told.outcome is ApplyOutcome.UNCHANGED
    (told,) = await apply(replica, with_metadata(crd(), labels={"a": "b"}), dry_run=True)
    assert told.outcome is ApplyOutcome.CONFIGURED
    assert as_object(content(told)["metadata"])["labels"] == {"a": "b"}
    (held,) = await stored(replica)
    assert "labels" not in as_object(as_object(held.record.content)["metadata"])


async def test_the_scope_of_an_established_crd_is_immutable(replica: Replica) -> None:
    await apply(replica, crd())
    with pytest.raises(InvalidFields) as caught:
        await apply(replica, crd(scope="Cluster"))
    (violation,) = caught.value.violations
    assert violation.field == "manifests[0].documents[0].spec.scope"
    assert violation.message == 'Invalid value: "Cluster": field is immutable'


async def test_a_crd_with_finalizers_is_terminating_until_they_are_gone(replica: Replica) -> None:
    held_back = with_metadata(crd(), finalizers=["example.com/clean-up"])
    reference = Reference(RegistrationKind.CRD, "widgets.example.com")
    await apply(replica, held_back)
    (removed,) = await replica.registrations.withdraw([reference], "", ANYBODY)
    assert removed.name == "widgets.example.com"
    (left,) = await stored(replica)
    metadata = as_object(as_object(left.record.content)["metadata"])
    assert metadata["generation"] == 2
    assert metadata["deletionTimestamp"]
    assert conditions(left)["Terminating"].startswith("True")
    assert "create" not in (_resources(replica)[0].verbs or ())
    # A retry of what has happened already.
    again = Reference(RegistrationKind.CRD, "widgets.example.com", removed.revision)
    assert removed.revision != left.revision
    assert len(await replica.registrations.withdraw([again], "", ANYBODY)) == 1
    assert (await stored(replica)) == [left]
    with pytest.raises(InvalidFields) as caught:
        await apply(replica, with_metadata(crd(), finalizers=["new"]))
    assert caught.value.violations[0].field.endswith("metadata.finalizers")
    (gone,) = await apply(replica, crd())
    assert gone.outcome is ApplyOutcome.CONFIGURED
    assert await stored(replica) == []
    assert replica.served() == {}
    assert await replica.registrations.withdraw([reference], "", ANYBODY) == []
