"""Names and conditions of CustomResourceDefinitions, and conflicts of names."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from apidiscovery_service.sources.crds.model import (
    CustomResourceDefinition,
    Names,
    StatedStatus,
)
from apidiscovery_service.sources.crds.names import CrdStatus, status_value, statuses
from crd_manifests import crd, edited, simple
from hypothesis import given
from hypothesis import strategies as st

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def resolved(*documents: dict[str, Any]) -> dict[str, CrdStatus]:
    return statuses([crd(document) for document in documents])


def told(status: CrdStatus) -> list[tuple[str, str, str, str]]:
    return [(c.type, c.status, c.reason, c.message) for c in status.conditions]


def test_names_without_a_conflict_are_accepted_and_established() -> None:
    (status,) = resolved(simple("cats", shortNames=["c"], created=EARLY)).values()
    assert status.accepted == Names("cats", "cat", "Cat", "CatList", ("c",))
    assert told(status) == [
        ("NamesAccepted", "True", "NoConflicts", "no conflicts found"),
        ("Established", "True", "InitialNamesAccepted", "the initial names have been accepted"),
    ]
    assert {condition.since for condition in status.conditions} == {EARLY}
    assert status.stored_versions == ("v1",)


@pytest.mark.parametrize(
    ("wanted", "reason", "message"),
    [
        ({"singular": "cat"}, "SingularConflict", '"cat" is already in use'),
        ({"singular": "c"}, "SingularConflict", '"c" is already in use'),
        ({"shortNames": ["d", "cats"]}, "ShortNamesConflict", '"cats" is already in use'),
        (
            {"shortNames": ["c", "d", "cat"]},
            "ShortNamesConflict",
            '["c" is already in use, "cat" is already in use]',
        ),
        (
            {"kind": "Cat", "listKind": "L", "singular": "s"},
            "KindConflict",
            '"Cat" is already in use',
        ),
        ({"listKind": "CatList"}, "ListKindConflict", '"CatList" is already in use'),
        ({"kind": "Cat"}, "ListKindConflict", '"CatList" is already in use'),
    ],
)  # fmt: skip
def test_the_message_of_a_conflict_names_the_taken_names(
    wanted: dict[str, Any], reason: str, message: str
) -> None:
    """Of several conflicts the last is in the message, as in Kubernetes."""
    found = resolved(
        simple("cats", shortNames=["c"], created=EARLY), simple("dogs", **wanted, created=LATE)
    )
    assert found["cats.a.example"].is_true("Established")
    assert told(found["dogs.a.example"]) == [
        ("NamesAccepted", "False", reason, message),
        ("Established", "False", "NotAccepted", "not all names are accepted"),
    ]


def test_a_plural_may_be_taken_by_a_short_name() -> None:
    found = resolved(
        simple("cats", shortNames=["dogs"], created=EARLY), simple("dogs", created=LATE)
    )
    assert told(found["dogs.a.example"])[0][2] == "PluralConflict"


def test_fields_without_a_conflict_are_accepted() -> None:
    found = resolved(
        simple("cats", created=EARLY),
        simple("dogs", singular="cat", kind="Dog", shortNames=["d"], categories=["all"]),
    )
    accepted = found["dogs.a.example"].accepted
    assert accepted == Names("dogs", "", "Dog", "DogList", ("d",), ("all",))


@pytest.mark.parametrize(
    ("cats", "dogs", "winner"),
    [
        ({"created": EARLY}, {"created": LATE}, "cats"),
        ({"created": LATE}, {"created": EARLY}, "dogs"),
        ({}, {"created": LATE}, "dogs"),
        ({"created": LATE}, {}, "cats"),
        ({}, {}, "cats"),
        ({"created": EARLY}, {"created": EARLY}, "cats"),
    ],
)
def test_the_older_definition_wins_then_the_name_decides(
    cats: dict[str, Any], dogs: dict[str, Any], winner: str
) -> None:
    found = resolved(
        simple("dogs", shortNames=["x"], **dogs), simple("cats", shortNames=["x"], **cats)
    )
    assert [name for name in found if found[name].is_true("Established")] == [f"{winner}.a.example"]


def test_accepted_names_are_kept_whatever_was_created_earlier() -> None:
    accepted = {"plural": "dogs", "kind": "Dog", "shortNames": ["x"]}
    found = resolved(
        simple("cats", shortNames=["x"], created=EARLY),
        simple("dogs", shortNames=["x"], created=LATE, status={"acceptedNames": accepted}),
    )
    assert told(found["cats.a.example"])[0][2] == "ShortNamesConflict"
    assert found["dogs.a.example"].is_true("Established")


def test_a_name_that_is_no_longer_wanted_is_free() -> None:
    accepted = {"plural": "dogs", "kind": "Dog", "shortNames": ["x"]}
    found = resolved(
        simple("cats", shortNames=["x"], created=EARLY),
        simple("dogs", shortNames=["y"], created=LATE, status={"acceptedNames": accepted}),
    )
    assert [status.accepted.short_names for status in found.values()] == [("x",), ("y",)]
    assert all(status.is_true("Established") for status in found.values())


def test_conditions_of_a_document_are_kept_with_its_names() -> None:
    condition = {"type": "Established", "status": "True", "reason": "R", "lastTransitionTime": LATE}
    names = {"plural": "cats", "singular": "kitten", "kind": "Cat", "listKind": "CatList"}
    status = {"conditions": [condition], "acceptedNames": names, "storedVersions": ["v1"]}
    (found,) = resolved(simple("cats", shortNames=["c"], status=status)).values()
    assert found.accepted == Names("cats", "kitten", "Cat", "CatList")
    assert told(found) == [("Established", "True", "R", "")]


@pytest.mark.parametrize("conditions", [[("Established", "False")], [("NamesAccepted", "True")]])
def test_conditions_of_a_document_without_established_mean_not_established(
    conditions: list[tuple[str, str]],
) -> None:
    stated = [{"type": name, "status": status} for name, status in conditions]
    (found,) = resolved(simple("cats", status={"conditions": stated})).values()
    assert not found.is_true("Established")


def test_an_established_definition_without_names_has_all_it_wants() -> None:
    stated = {"conditions": [{"type": "Established", "status": "True"}]}
    found = resolved(
        simple("cats", shortNames=["x"]), simple("dogs", shortNames=["x"], status=stated)
    )
    assert found["dogs.a.example"].accepted.short_names == ("x",)
    assert not found["cats.a.example"].is_true("Established")


@pytest.mark.parametrize(
    "stated", [None, {"conditions": [{"type": "Established", "status": "True"}]}]
)
def test_a_definition_with_a_deletion_time_is_terminating(stated: dict[str, Any] | None) -> None:
    document = edited(simple("cats", status=stated), "metadata.deletionTimestamp", LATE)
    (found,) = resolved(document).values()
    assert found.is_true("Established")
    assert told(found)[-1] == (
        "Terminating",
        "True",
        "InstanceDeletionInProgress",
        "CustomResource deletion is in progress",
    )


def test_a_status_is_written_as_kubernetes_writes_it() -> None:
    document = simple("dogs", singular="cat", categories=["all"])
    found = resolved(simple("cats", created=EARLY), document)
    assert status_value(found["dogs.a.example"]) == {
        "conditions": [
            {
                "type": "NamesAccepted",
                "status": "False",
                "lastTransitionTime": None,
                "reason": "SingularConflict",
                "message": '"cat" is already in use',
            },
            {
                "type": "Established",
                "status": "False",
                "lastTransitionTime": None,
                "reason": "NotAccepted",
                "message": "not all names are accepted",
            },
        ],
        "acceptedNames": {
            "plural": "dogs",
            "kind": "Dog",
            "listKind": "DogList",
            "categories": ("all",),
        },
        "storedVersions": ("v1",),
    }


# --------------------------------------------------------------------------------------------------
# A status that was decided here before.


def decided(document: dict[str, Any]) -> CustomResourceDefinition:
    return again(crd(document))


def again(found: CustomResourceDefinition) -> CustomResourceDefinition:
    return replace(found, stated=found.stated and replace(found.stated, final=False))


def established(*short_names: str, **condition: str) -> dict[str, Any]:
    accepted = {"plural": "cats", "singular": "cat", "kind": "Cat", "listKind": "CatList"}
    conditions = [
        {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts"},
        {"type": "Established", "status": "True", "reason": "R", "message": "M", **condition},
    ]
    return {"conditions": conditions, "acceptedNames": {**accepted, "shortNames": [*short_names]}}


def test_an_established_definition_stays_established_if_it_wants_a_taken_name() -> None:
    cats = simple("cats", shortNames=["d"], status=established("c"))
    dogs = simple("dogs", shortNames=["d"], created=EARLY)
    found = statuses([decided(cats), crd(dogs)])["cats.a.example"]
    assert found.accepted == Names("cats", "cat", "Cat", "CatList", ("c",))
    assert told(found) == [
        ("NamesAccepted", "False", "ShortNamesConflict", '"d" is already in use'),
        ("Established", "True", "R", "M"),
    ]


def test_an_established_definition_keeps_the_time_of_its_condition() -> None:
    cats = simple("cats", created=EARLY, status=established(lastTransitionTime=LATE))
    (found,) = statuses([decided(cats)]).values()
    assert [condition.since for condition in found.conditions] == [EARLY, LATE]


def test_a_definition_becomes_established_once_its_names_are_free() -> None:
    status = established(status="False")
    (found,) = statuses([decided(simple("cats", shortNames=["c"], status=status))]).values()
    assert found.accepted.short_names == ("c",)
    assert told(found)[1][:3] == ("Established", "True", "InitialNamesAccepted")


def test_the_same_status_in_a_manifest_is_final() -> None:
    cats = simple("cats", shortNames=["d"], status=established("c"))
    (found,) = resolved(cats).values()
    assert found.accepted.short_names == ("c",)
    assert told(found)[0] == ("NamesAccepted", "True", "NoConflicts", "")


def test_names_that_were_accepted_without_a_kind_are_kept() -> None:
    accepted = {"plural": "dogs", "kind": "", "shortNames": ["x"]}
    found = resolved(
        simple("cats", shortNames=["x"], created=EARLY),
        simple("dogs", kind="Cat", shortNames=["x"], status={"acceptedNames": accepted}),
    )
    assert [status.accepted.short_names for status in found.values()] == [(), ("x",)]


# --------------------------------------------------------------------------------------------------
# Properties.

SOME = st.sampled_from(["a", "b", "c", "d"])
STATED: st.SearchStrategy[Any] = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "acceptedNames": st.fixed_dictionaries(
            {"plural": SOME, "kind": st.sampled_from(["A", "B"]), "shortNames": st.lists(SOME)}
        ),
        "conditions": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Established", "NamesAccepted", "Terminating"]),
                    "status": st.sampled_from(["True", "False"]),
                }
            ),
            max_size=2,
        ),
    },
)


@st.composite
def crds(draw: st.DrawFn) -> list[CustomResourceDefinition]:
    found: list[CustomResourceDefinition] = []
    for plural in draw(st.lists(SOME, unique=True, max_size=4)):
        document = simple(
            plural,
            kind=draw(st.sampled_from(["A", "B", "C"])),
            singular=draw(SOME),
            shortNames=draw(st.lists(SOME, max_size=2)),
            created=draw(st.sampled_from(["", EARLY, LATE])),
            status=draw(STATED),
        )
        found.append(crd(document))
    return found


@given(crds(), st.randoms(use_true_random=False))
def test_the_result_does_not_depend_on_the_order(
    found: list[CustomResourceDefinition], random: Random
) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    assert list(statuses(shuffled).items()) == list(statuses(found).items())


@given(crds())
def test_no_name_is_accepted_twice_among_those_without_a_status(
    found: list[CustomResourceDefinition],
) -> None:
    taken: list[str] = []
    for status in statuses(c for c in found if c.stated is None).values():
        names = status.accepted
        taken += {names.plural, names.singular, *names.short_names} - {""}
    assert len(taken) == len(set(taken))


@given(crds())
def test_established_without_a_status_means_that_all_names_are_accepted(
    found: list[CustomResourceDefinition],
) -> None:
    by_name = statuses(found)
    assert by_name.keys() == {crd_.name for crd_ in found}
    for crd_ in found:
        if crd_.stated is None:
            status = by_name[crd_.name]
            assert status.is_true("Established") == (status.accepted == crd_.names)


def stored(found: CustomResourceDefinition, status: CrdStatus) -> CustomResourceDefinition:
    """Return a definition with a decided status, as it is stored."""
    names = None if status.accepted == Names("", "", "", "") else status.accepted
    stated = StatedStatus(names, status.conditions, status.stored_versions, final=False)
    return replace(found, stated=stated)


@given(crds())
def test_deciding_a_decided_status_again_changes_nothing(
    found: list[CustomResourceDefinition],
) -> None:
    """Each replica stores what it decides, and the others start from that."""
    first = statuses(map(again, found))
    second = statuses(stored(one, first[one.name]) for one in found)
    assert second == first


@given(crds(), crds())
def test_an_established_definition_stays_established(
    found: list[CustomResourceDefinition], others: list[CustomResourceDefinition]
) -> None:
    first = statuses(map(again, found))
    kept = {one.name: stored(one, first[one.name]) for one in found}
    changed = {
        one.name: replace(one, stated=kept[one.name].stated) if one.name in kept else one
        for one in others
    }
    after = statuses({**kept, **changed}.values())
    for name, status in first.items():
        assert after[name].is_true("Established") or not status.is_true("Established")


@pytest.mark.parametrize(
    ("approval", "status", "reason", "message"),
    [
        (
            "https://github.com/kubernetes/kubernetes/pull/1",
            "True",
            "ApprovedAnnotation",
            "approved in https://github.com/kubernetes/kubernetes/pull/1",
        ),
        ("http://h?x", "True", "ApprovedAnnotation", "approved in http://h?x"),
        (
            'unapproved, "testing"',
            "False",
            "UnapprovedAnnotation",
            r'not approved: "unapproved, \"testing\""',
        ),
    ],
)
@pytest.mark.parametrize("group", ["x.k8s.io", "x.kubernetes.io"])
def test_approvals_of_community_groups_are_a_condition(
    group: str, approval: str, status: str, reason: str, message: str
) -> None:
    """Recorded from kube-apiserver 1.36.2."""
    document = simple("cats", group)
    document["metadata"]["annotations"] = {"api-approved.kubernetes.io": approval}
    (decided,) = resolved(document).values()
    conformant, *others = told(decided)
    assert conformant == ("KubernetesAPIApprovalPolicyConformant", status, reason, message)
    assert [condition for condition, *_ in others] == ["NamesAccepted", "Established"]
