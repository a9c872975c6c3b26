"""Verdicts for schemas of built-in kinds, which kube-apiserver mostly validates in code."""

from typing import Any

import pytest
from apidiscovery_client.schema_diff import compare

Json = dict[str, Any]

NAMED = {"type": "object", "properties": {"name": {"type": "string"}, "port": {"type": "integer"}}}
LIST = {"type": "array", "items": NAMED}
TEXTS = {"type": "array", "items": {"type": "string"}}
MERGED = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
MAP = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
SET = {"x-kubernetes-list-type": "set"}
TEXT: Json = {"type": "string"}


def told(old: Json, new: Json, *, built_in: bool = True) -> list[tuple[str, str, str, str, str]]:
    """Return rule and verdicts of each change of a field of these schemas."""
    schemas = [{"type": "object", "properties": {"a": schema}} for schema in (old, new)]
    return [
        (
            one.change,
            one.verdicts.writer.value,
            one.verdicts.reader.value,
            one.verdicts.stored.value,
            one.verdicts.applier.value,
        )
        for one in compare(*schemas, built_in=built_in)
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LIST | MERGED, LIST | MERGED | MAP),
        (LIST | MAP, LIST | MERGED),
        (LIST | MERGED | {"x-kubernetes-patch-strategy": "merge,retainKeys"}, LIST | MAP),
        (TEXTS | {"x-kubernetes-patch-strategy": "merge"}, TEXTS | SET),
        (LIST, LIST | {"x-kubernetes-list-type": "atomic"}),
        (LIST | {"x-kubernetes-patch-strategy": "retainKeys"}, LIST),
    ],
)
def test_the_same_merging_in_other_keywords_is_no_change(old: Json, new: Json) -> None:
    assert told(old, new) == []


def test_another_way_of_merging_changes_ownership_and_nothing_else() -> None:
    both = MERGED | {"x-kubernetes-patch-merge-key": "port"}
    only = ("fine", "fine", "fine", "ownership")
    assert told(LIST, LIST | MAP) == [("list-type-changed", *only)]
    assert told(LIST | MAP, LIST) == [("list-type-changed", *only)]
    assert told(LIST | MERGED, LIST | both) == [("list-map-keys-changed", *only)]


def test_keys_are_compared_across_both_keywords() -> None:
    both = LIST | MAP | {"x-kubernetes-list-map-keys": ["port", "name"]}
    old, new = ({"type": "object", "properties": {"a": one}} for one in (LIST | MERGED, both))
    (change,) = compare(old, new, built_in=True)
    assert (change.before, change.after) == (["name"], ["name", "port"])


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (TEXT, TEXT | {"enum": ["x"]}, ("enum-added", "unknown", "fine", "fine", "fine")),
        (TEXT, TEXT | {"default": "x"}, ("default-added", "unknown", "fine", "unknown", "fine")),
        (TEXT | {"default": "x"}, TEXT, ("default-removed", "unknown", "unknown", "fine", "fine")),
        (TEXT, TEXT | {"maxLength": 3}, ("length-added", "unknown", "fine", "fine", "fine")),
        # A new value is written sooner or later, whoever validates it.
        (
            TEXT | {"enum": ["x"]},
            TEXT | {"enum": ["x", "y"]},
            ("enum-changed", "fine", "different", "fine", "fine"),
        ),
        # Decoding refuses another type.
        (TEXT, {"type": "integer"}, ("type-changed", "rejected", "different", "fine", "fine")),
    ],
)
def test_only_verdicts_of_decoding_are_known(old: Json, new: Json, want: tuple[str, ...]) -> None:
    assert told(old, new) == [want]


def test_a_change_that_is_not_decided_says_why() -> None:
    enum: Json = TEXT | {"enum": ["x"]}
    old, new = ({"type": "object", "properties": {"a": one}} for one in (TEXT, enum))
    (change,) = compare(old, new, built_in=True)
    assert change.verdicts.has_unknown
    assert "in code" in change.verdicts.reason


def test_a_field_that_is_gone_is_dropped() -> None:
    old = {"type": "object", "properties": {"a": TEXT, "b": TEXT}}
    new = {"type": "object", "properties": {"a": TEXT}}
    (change,) = compare(old, new, built_in=True)
    assert (change.change, change.verdicts.writer, change.verdicts.reader) == (
        "property-removed",
        "pruned",
        "absent",
    )


def test_a_newly_required_field_may_have_been_required_before() -> None:
    old = {"type": "object", "properties": {"a": TEXT}}
    (change,) = compare(old, old | {"required": ["a"]}, built_in=True)
    assert (change.change, change.verdicts.writer) == ("required-added", "unknown")


@pytest.mark.parametrize("zero", ["", 0, False, {}])
def test_a_default_that_go_gives_to_absent_fields_changes_nothing(zero: object) -> None:
    assert told({}, {"default": zero}) == []
    assert told({"default": zero}, {}) == []


def test_the_same_in_a_custom_resource_breaks_its_writers() -> None:
    assert told(LIST, LIST | MAP, built_in=False)[0][1] == "rejected"
    assert told(TEXT, TEXT | {"enum": ["x"]}, built_in=False)[0][1] == "rejected"
    assert told(TEXT, TEXT | {"default": ""}, built_in=False)[0][1] == "defaulted"
