"""Hostile schemas: deep, wide, of the wrong types; nothing crashes or takes long."""

import json
import time
from typing import Any

import pytest
from apidiscovery_service.openapi.crd import problems, schema_fields, structural
from apidiscovery_service.openapi.crd.problems import MAX_DEPTH, MAX_PROBLEMS, MAX_VALUES
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from crd_goldens import thing_document
from crd_manifests import nested_schema
from hypothesis import given
from hypothesis import strategies as st

PATH = ("spec", "versions", 0, "schema", "openAPIV3Schema")
NAMES = sorted({*schema_fields.TYPES, "type", "properties", "items", "default", "anyOf", "allOf"})
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(NAMES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(sorted(schema_fields.FIELD_NAMES)), inner, max_size=4)
    ),
    max_leaves=20,
)


def made(schema: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(thing_document(schema))
    return document


class TestDepth:
    def test_as_deep_as_allowed_is_published(self) -> None:
        schema = made(nested_schema(MAX_DEPTH - 2))["components"]["schemas"]["example.a.v1.Thing"]
        depth = 0
        while "a" in schema.get("properties", {}):
            schema, depth = schema["properties"]["a"], depth + 1
        assert depth == (MAX_DEPTH - 2) // 2

    @pytest.mark.parametrize("levels", [MAX_DEPTH + 2, 230])
    def test_deeper_is_refused(self, levels: int) -> None:
        with pytest.raises(
            InvalidOpenAPI, match=f"things.a.example: is nested more than {MAX_DEPTH}"
        ) as caught:
            made(nested_schema(levels))
        assert caught.value.path == PATH

    @pytest.mark.parametrize("word", ["default", "example", "enum", "x-stranger"])
    def test_deep_values_are_refused(self, word: str) -> None:
        value: object = []
        for _ in range(MAX_DEPTH):
            value = [value]
        with pytest.raises(InvalidOpenAPI, match="levels deep"):
            made({"type": "object", word: value})

    def test_depth_beyond_the_recursion_limit_is_refused(self) -> None:
        schema: dict[str, Any] = nested_schema(100_000)
        assert list(structural.violations(schema, PATH)) == [
            (PATH, f"is nested more than {MAX_DEPTH} levels deep")
        ]
        while schema := schema.pop("properties", {}).pop("a", {}):
            pass


class TestNumberOfValues:
    def test_too_many_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(problems, "MAX_VALUES", 100)
        schema = {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(100)}}
        with pytest.raises(InvalidOpenAPI, match="more than 100 values") as caught:
            made(schema)
        assert caught.value.path == PATH

    def test_as_many_as_allowed_take_seconds_at_most(self) -> None:
        width = 10_000
        wide = {f"f{n}": {"type": "string"} for n in range(width)}
        groups = (MAX_VALUES - 10) // (2 * width + 3)
        several = {f"g{n}": {"type": "object", "properties": wide} for n in range(groups)}
        schema = {"type": "object", "properties": several}
        begin = time.process_time()
        found = made(schema)["components"]["schemas"]["example.a.v1.Thing"]
        assert len(found["properties"]) == groups + 3
        assert all(len(found["properties"][name]["properties"]) == width for name in several)
        assert time.process_time() - begin < 15


class TestNumberOfProblems:
    @pytest.mark.parametrize(
        "bad",
        [
            {"type": 1},
            {"type": "text"},
            {"type": "string", "$ref": "#"},
            {"type": "array"},
            {"type": "string", "not": {"type": "string"}},
            {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        ],
        ids=json.dumps,
    )
    def test_is_bounded(self, bad: dict[str, Any]) -> None:
        schema = {"type": "object", "properties": {f"f{n}": bad for n in range(5000)}}
        found = list(structural.violations(schema))
        assert MAX_PROBLEMS <= len(found) <= 4 * MAX_PROBLEMS

    @pytest.mark.parametrize(
        "fields",
        [
            {"x-kubernetes-validations": [{"rule": ""}] * 5000},
            {"anyOf": [{"properties": {f"f{n}": {"minLength": 1} for n in range(5000)}}]},
        ],
        ids=["rules", "conditions"],
    )
    def test_is_bounded_on_one_schema(self, fields: dict[str, Any]) -> None:
        assert len(list(structural.violations({"type": "object", **fields}))) == MAX_PROBLEMS


class TestWrongTypes:
    @given(ANYTHING)
    def test_any_schema_is_published_or_reported(self, schema: object) -> None:
        found = made(schema)["components"]["schemas"]["example.a.v1.Thing"]
        assert found.get("type", "object") == "object"

    @given(ANYTHING)
    def test_violations_are_reported_once(self, schema: object) -> None:
        found = list(structural.violations(schema, PATH))
        assert len(found) == len(set(found))
        assert all(path[: len(PATH)] == PATH for path, _ in found)

    @pytest.mark.parametrize("name", sorted(schema_fields.FIELD_NAMES - {"default", "example"}))
    def test_no_field_takes_both_a_number_and_a_text(self, name: str) -> None:
        found = [
            path
            for value in (1, "a")
            for path, _ in structural.violations({"type": "object", name: value})
        ]
        assert (name,) in found

    @pytest.mark.parametrize(
        ("schema", "told"),
        [
            ({"type": "\ud800"}, ("type", 'Invalid value: "\\ud800": must be object')),
            (
                {"type": 10**30},
                ("type", "Invalid value: 1000000000000000000000000000000: must be a string"),
            ),
            ({"type": "object", "\udfff": 1}, (r"\udfff", r'unknown field "\udfff"')),
        ],
    )
    def test_messages_are_valid_unicode(self, schema: object, told: tuple[str, str]) -> None:
        found = [
            (structural.field_path(path), told) for path, told in structural.violations(schema)
        ]
        for text in found[0]:
            text.encode()
        assert found[0][0] == told[0]
        assert found[0][1].startswith(told[1])
