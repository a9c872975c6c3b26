"""Strategic merge: which items a merged list has, in which order, and that nothing breaks it."""

import time
from typing import cast

import pytest
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import strategic_merge
from apidiscovery_service.kube_objects.errors import ObjectError
from apidiscovery_service.kube_objects.kinds import Object
from hypothesis import given
from hypothesis import strategies as st


def test_a_list_of_lists_is_unprocessable() -> None:
    target: Object = {"metadata": {"finalizers": []}}
    with pytest.raises(ObjectError) as caught:
        strategic_merge.merge(target, {"metadata": {"finalizers": [["x"]]}})
    assert caught.value.code == 422


# Source: k8s.io/apimachinery pkg/util/strategicpatch/patch_test.go, customStrategicMergePatch cases
# "preserve the order from the patch in a merging int list" and "unique scalars when merging lists".
@pytest.mark.parametrize(
    ("before", "patch", "merged"),
    [
        (["1", "2"], ["2", "3"], ["1", "2", "3"]),
        (["1", "2", "3"], ["3", "1", "2"], ["3", "1", "2"]),
        (["1", "2", "3"], ["3", "1"], ["2", "3", "1"]),
        ([], [], []),
    ],
)
def test_sets_are_merged_in_kubernetes_order(
    before: list[str], patch: list[str], merged: list[str]
) -> None:
    outcome = strategic_merge.merge(
        {"metadata": {"finalizers": before}}, {"metadata": {"finalizers": patch}}
    )
    assert outcome == {"metadata": {"finalizers": merged}}


NAMES = st.sampled_from(("x/a", "x/b", "x/c", "x/d", "x/e"))
SETS = st.lists(NAMES, unique=True)


@given(SETS, SETS)
def test_a_merged_list_has_the_items_of_both_and_the_order_of_the_patch(
    before: list[str], wanted: list[str]
) -> None:
    merged = strategic_merge.merge(
        {"metadata": {"finalizers": before}}, {"metadata": {"finalizers": wanted}}
    )
    fields = cast("dict[str, list[str]]", merged["metadata"])
    names = fields["finalizers"]
    assert sorted(names) == sorted({*before, *wanted})
    assert [name for name in names if name in wanted] == wanted
    assert [name for name in names if name not in wanted] == [
        name for name in before if name not in wanted
    ]


DIRECTIVES = st.sampled_from(
    (
        "$patch",
        "$retainKeys",
        "$setElementOrder/finalizers",
        "$setElementOrder/ownerReferences",
        "$deleteFromPrimitiveList/finalizers",
        "finalizers",
        "ownerReferences",
        "labels",
        "metadata",
        "uid",
    )
)
HOSTILE = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 1) | st.sampled_from(("delete", "replace", "1")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(DIRECTIVES, inner, max_size=4),
    max_leaves=12,
)


def metadata() -> dict[str, JSONValue]:
    return {
        "labels": {"a": "1"},
        "ownerReferences": [{"name": "one", "uid": "1"}, {"name": "two", "uid": "2"}],
        "finalizers": ["x/a", "1"],
    }


@given(st.dictionaries(DIRECTIVES, HOSTILE))
def test_any_strategic_merge_patch_is_applied_or_refused_by_a_status(
    patch: dict[str, JSONValue],
) -> None:
    before: dict[str, JSONValue] = {"metadata": metadata()}
    try:
        strategic_merge.merge(before, {"metadata": patch})
    except ObjectError as error:
        assert error.code in (400, 422)  # noqa: PT017 - both outcomes are right
    assert before == {"metadata": metadata()}


def test_a_long_patch_costs_no_more_than_its_length() -> None:
    names = [f"x/{number}" for number in range(60_000)]
    fields = dict.fromkeys(names, "1")
    started = time.monotonic()
    merged = strategic_merge.merge(
        {"metadata": {"labels": {"x": "1"}, "finalizers": names}},
        {
            "metadata": {
                "labels": {"$retainKeys": names, **fields},
                "finalizers": names[::-1],
                "$setElementOrder/finalizers": names[::-1],
            }
        },
    )
    assert merged == {"metadata": {"labels": fields, "finalizers": names[::-1]}}
    assert time.monotonic() - started < 10
