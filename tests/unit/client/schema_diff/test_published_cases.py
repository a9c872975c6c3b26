"""The published test cases of kubernetes-sigs/crdify for schemas, by name.

A change that crdify calls incompatible has a verdict that is not fine.
docs/schema-diff.md explains the differences.
"""

from typing import Any

import pytest
from apidiscovery_client.schema_diff import Change, compare

_Schema = dict[str, Any]
_LIMITS = ("ports", "size", "name", "config")


def _limited(least: int | None, most: int | None) -> _Schema:
    """Return a schema of a list, a number, a string and a map, each with limits."""
    kinds: dict[str, tuple[_Schema, str]] = {
        "ports": ({"type": "array", "items": {"type": "integer"}}, "Items"),
        "size": ({"type": "integer"}, "imum"),
        "name": ({"type": "string"}, "Length"),
        "config": ({"type": "object", "additionalProperties": {"type": "string"}}, "Properties"),
    }
    limits = {"min": least, "max": most}
    fields = {
        name: {**kind, **{key + end: one for key, one in limits.items() if one is not None}}
        for name, (kind, end) in kinds.items()
    }
    return {"type": "object", "properties": fields}


def _field(**keywords: Any) -> _Schema:  # noqa: ANN401 - JSON
    return {"type": "object", "properties": {"mode": {"type": "string", **keywords}}}


_NONE: _Schema = {"type": "object", "properties": {}}
_CASES: dict[str, tuple[_Schema, _Schema, set[str]]] = {
    "defaultvaluechanged": (_field(default="a"), _field(default="b"), {"mode"}),
    "defaultvaluenetnew": (_field(), _field(default="a"), {"mode"}),
    "defaultvalueremoved": (_field(default="a"), _field(), {"mode"}),
    "enumnetnew": (_field(), _field(enum=["a", ""]), {"mode"}),
    "enumvalueadded": (_field(enum=["a"]), _field(enum=["a", "b"]), {"mode"}),
    "enumvalueremoved": (_field(enum=["a", "b"]), _field(enum=["a"]), {"mode"}),
    "existingfieldremoved": (_field(default="a"), _NONE, {"mode"}),
    "maxnetnew": (_limited(None, None), _limited(None, 10), set(_LIMITS)),
    "maxvaluedecreased": (_limited(None, 10), _limited(None, 5), set(_LIMITS)),
    "minnetnew": (_limited(None, None), _limited(2, None), set(_LIMITS)),
    "minvalueincreased": (_limited(2, None), _limited(4, None), set(_LIMITS)),
    "nullableadded": (_field(), _field(nullable=True), {"mode"}),
    "nullableremoved": (_field(nullable=True), _field(), {"mode"}),
    "patternadded": (_field(), _field(pattern="^[a-z]+$"), {"mode"}),
    "patternchanged": (_field(pattern="^[a-z]+$"), _field(pattern="^[A-Z]+$"), {"mode"}),
    "patternremoved": (_field(pattern="^[a-z]+$"), _field(), {"mode"}),
    "requiredfieldadded": (_field(), {**_field(), "required": ["mode"]}, {"mode"}),
    "typechanged": (_field(type="integer", format="int32"), _field(), {"mode"}),
    "validchanges": (
        _NONE,
        {
            "type": "object",
            "properties": {
                "animal": {"type": "string"},
                "region": {"type": "string", "enum": ["East", "West"]},
                "config": {**_field(), "required": ["mode"]},
            },
        },
        set(),
    ),
}


def _flagged(changes: tuple[Change, ...]) -> set[str]:
    """Return the fields of which a verdict is not fine."""
    told = [(one.path, one.verdicts) for one in changes]
    return {
        path.removeprefix("spec.")
        for path, one in told
        if {one.writer, one.reader, one.stored} != {"fine"}
    }


@pytest.mark.parametrize("name", _CASES)
def test_incompatible_fields_are_not_fine(name: str) -> None:
    old, new, incompatible = _CASES[name]

    assert _flagged(compare(old, new, path="spec")) == incompatible


def test_descriptions_are_no_change() -> None:
    old, new = _field(description="one"), _field(description="another")

    assert not compare(old, new, path="spec")


def test_a_greater_maximum_is_a_change_for_readers_alone() -> None:
    changes = compare(_limited(None, 5), _limited(None, 10), path="spec")

    assert {(one.verdicts.writer, one.verdicts.stored) for one in changes} == {("fine", "fine")}
    assert {one.verdicts.reader for one in changes} == {"different"}


_STRING: _Schema = {"type": "string"}
_ITEM: _Schema = {"type": "object", "properties": {"key": _STRING, "value": _STRING}}
_KEYED: _Schema = {
    "type": "array",
    "items": {**_ITEM, "required": ["key"]},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["key"],
}


@pytest.mark.parametrize(
    ("old", "new", "stored"),
    [
        pytest.param({"type": "integer"}, {"type": "integer", "minimum": 5}, "fine", id="minimum"),
        pytest.param(_STRING, {**_STRING, "enum": ["a"]}, "fine", id="enum"),
        pytest.param(
            {"type": "object", "additionalProperties": {"type": "number"}},
            {"type": "object", "additionalProperties": {"type": "number", "maximum": 1}},
            "fine",
            id="values of a map",
        ),
        pytest.param(
            _KEYED,
            {**_KEYED, "items": {**_KEYED["items"], "required": ["key", "value"]}},
            "fine",
            id="items with keys",
        ),
        pytest.param(
            {"type": "array", "items": _STRING},
            {"type": "array", "items": {**_STRING, "maxLength": 1}},
            "fine",
            id="items of an atomic list",
        ),
        pytest.param(
            _ITEM,
            {**_ITEM, "x-kubernetes-validations": [{"rule": "has(self.key)"}]},
            "fine",
            id="false rule",
        ),
        pytest.param(
            _ITEM,
            {**_ITEM, "x-kubernetes-validations": [{"rule": "self.key == 'a'"}]},
            "rejected",
            id="rule that ends in an error",
        ),
        pytest.param(
            {**_ITEM, "x-kubernetes-preserve-unknown-fields": True},
            {**_ITEM, "x-kubernetes-preserve-unknown-fields": True, "required": ["key"]},
            "rejected",
            id="field without a name",
        ),
        pytest.param(
            {"type": "object", "additionalProperties": True},
            {"type": "object", "additionalProperties": True, "minProperties": 2},
            "rejected",
            id="additionalProperties true",
        ),
        pytest.param(
            {**_STRING, "format": "password"},
            {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]},
            "rejected",
            id="rule over another type",
        ),
        pytest.param(
            {"type": "object", "properties": {"day": _STRING}},
            {
                "type": "object",
                "properties": {"day": {**_STRING, "format": "date"}},
                "x-kubernetes-validations": [{"rule": "has(self.day)"}],
            },
            "rejected",
            id="rule over text that is no date",
        ),
    ],
)
def test_updates_of_metadata_tolerate_what_ratcheting_does(
    old: _Schema, new: _Schema, stored: str
) -> None:
    changes = compare(old, new, path="spec")

    assert "rejected" in {one.verdicts.writer for one in changes}
    assert max((one.verdicts.stored for one in changes), key=("fine", "rejected").index) == stored
