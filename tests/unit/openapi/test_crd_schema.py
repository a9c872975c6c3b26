"""Published schemas of definitions: their fields, their order, numbers and text."""

import json
from dataclasses import replace
from typing import Any

import pytest
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.crd.document import crd_document
from crd_goldens import definition, thing_document
from crd_manifests import simple
from hypothesis import given
from hypothesis import strategies as st
from json_walks import leaves

MODEL = "example.a.v1.Thing"
BARE = {
    "type": "object",
    "x-kubernetes-group-version-kind": [{"group": "a.example", "kind": "Thing", "version": "v1"}],
}
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
META_REF = {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}


def published(schema: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(thing_document(schema))["components"]["schemas"][MODEL]
    return found


def field(**fields: object) -> dict[str, Any]:
    """Return how a field of the spec is published, the fields of its schema in order."""
    schema = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"f": fields}}},
    }
    found: dict[str, Any] = published(schema)["properties"]["spec"]["properties"]["f"]
    return found


NOTHING: dict[str, Any] = {}


class TestWhatIsNotStructural:
    @pytest.mark.parametrize(
        "schema",
        [
            None,
            NOTHING,
            "array",
            {"type": "object", "properties": {"a": {"type": "text"}}},
            {"type": "object", "properties": {"a": {"type": "string", "maxLength": "1"}}},
            {"type": "object", "properties": {"a": {"type": "array", "additionalItems": False}}},
            {"type": "object", "anyOf": [{"properties": {"a": NOTHING}}]},
        ],
        ids=json.dumps,
    )
    def test_is_published_as_an_object_of_which_nothing_is_known(self, schema: object) -> None:
        assert published(schema) == BARE

    def test_also_when_there_is_no_schema_at_all(self) -> None:
        crd = simple("things")
        del crd["spec"]["versions"][0]["schema"]
        text = crd_document("a.example", "v1", [definition(crd)])
        assert json.loads(text)["components"]["schemas"][MODEL] == BARE


class TestFields:
    @pytest.mark.parametrize(
        "fields",
        [
            {"description": "a\nb", "type": "string"},
            {"type": "string", "nullable": True},
            {"type": "string", "format": "date-time"},
            {"type": "string", "title": "t", "pattern": "^(?i)a$"},
            {"type": "integer", "maximum": 0, "exclusiveMaximum": True},
            {"type": "integer", "minimum": -1, "exclusiveMinimum": True, "multipleOf": 0.5},
            {"type": "string", "maxLength": 0, "minLength": 0},
            {"type": "array", "maxItems": 0, "minItems": 1, "items": {"type": "string"}},
            {"type": "array", "uniqueItems": True, "items": {"type": "string"}},
            {"type": "string", "enum": ["b", "a", "", None, 1, {"a": [1]}]},
            {"type": "object", "maxProperties": 2, "minProperties": 0, "required": ["b", "a"]},
            {"type": "object", "additionalProperties": True},
            {"type": "object", "additionalProperties": False},
            {"type": "object", "additionalProperties": {"type": "string"}},
            {"type": "string", "externalDocs": {"description": "d", "url": "u"}},
            {"type": "string", "externalDocs": {}},
            {"type": "string", "example": 0},
            {"type": "object", "x-kubernetes-map-type": "atomic"},
            {"type": "string", "allOf": [{"minLength": 1}], "not": {}},
            {"type": "string", "oneOf": [{"enum": ["a"]}, {"pattern": "b"}]},
            {"x-kubernetes-preserve-unknown-fields": True},
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["n"],
                    "properties": {"n": {"type": "string"}},
                },
                "x-kubernetes-list-map-keys": ["n"],
                "x-kubernetes-list-type": "map",
            },
            {
                "type": "string",
                "x-kubernetes-validations": [
                    {
                        "rule": "self == '<&>'",
                        "message": "m",
                        "messageExpression": "'e'",
                        "reason": "FieldValueInvalid",
                        "fieldPath": ".a",
                        "optionalOldSelf": False,
                    }
                ],
            },
        ],
        ids="-".join,
    )
    def test_are_published_in_the_order_of_kubernetes(self, fields: dict[str, Any]) -> None:
        backwards = dict(reversed(fields.items()))
        found = field(**backwards)
        assert found == fields
        assert list(found) == list(fields)

    @pytest.mark.parametrize(
        "fields",
        [
            {"description": "", "format": "", "title": "", "pattern": ""},
            {"nullable": False, "exclusiveMaximum": False, "uniqueItems": False},
            {"enum": [], "required": [], "allOf": [], "oneOf": [], "anyOf": []},
            {"properties": {}, "x-kubernetes-list-map-keys": [], "x-kubernetes-validations": []},
            {"x-kubernetes-int-or-string": False, "x-kubernetes-embedded-resource": False},
            {"default": None, "example": None, "maximum": None, "items": None, "not": None},
            {"example": {}},
            {"example": ""},
            {"$ref": "", "id": "", "$schema": "", "definitions": {}, "patternProperties": {}},
            {"x-stranger": {"a": 1}, "deprecated": True, "readOnly": True},
        ],
        ids="-".join,
    )
    def test_with_zero_values_or_unknown_names_are_left_out(self, fields: dict[str, Any]) -> None:
        assert field(type="string", **fields) == {"type": "string"}

    def test_false_additional_properties_are_dropped_in_conditions(self) -> None:
        found = field(type="object", **{"not": {"additionalProperties": False, "required": ["a"]}})
        assert found["not"] == {"required": ["a"]}

    def test_a_rule_has_its_text_even_when_it_is_empty(self) -> None:
        found = field(
            type="string", **{"x-kubernetes-validations": [{"reason": "", "message": ""}]}
        )
        assert found["x-kubernetes-validations"] == [{"rule": ""}]

    @pytest.mark.parametrize(
        "value", ["", 0, False, [], {}, [None], {"b": 1, "a": {"d": 1, "c": 2}}]
    )
    def test_any_default_is_published_with_sorted_keys(self, value: object) -> None:
        found = field(type="object", default=value)["default"]
        assert found == value
        assert json.dumps(found) == json.dumps(value, sort_keys=True)


class TestNumbers:
    @pytest.mark.parametrize(
        ("written", "expected"),
        [
            ("1.0", "1"),
            ("-1.50", "-1.5"),
            ("0.000001", "0.000001"),
            ("0.00000123", "0.00000123"),
            ("1e-7", "1e-7"),
            ("1.5E-10", "1.5e-10"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.25e300", "1.25e+300"),
            ("-0.0", "-0"),
            ("0.0", "0"),
            ("12345678901234567890123", "1.2345678901234568e+22"),
            ("18446744073709551615", "18446744073709552000"),
        ],
    )
    def test_are_written_as_go_writes_float64(self, written: str, expected: str) -> None:
        schema = '{"type":"number","default":%s,"maximum":%s}'
        crd = simple("things")
        versions = crd["spec"]["versions"]
        versions[0]["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"f": 1}}}
        text = definition(crd)
        changed = text.version.replace(
            b'{"f":1}', b'{"f":%s}' % (schema % ((written,) * 2)).encode()
        )
        assert changed != text.version
        made = crd_document("a.example", "v1", [replace(text, version=changed)])
        assert (schema % (expected, expected)).encode() in made

    @pytest.mark.parametrize("value", [2**53 + 1, 2**63 - 1, -(2**63)])
    def test_whole_ones_stay_exact_in_a_default(self, value: int) -> None:
        text = thing_document(
            {"type": "object", "properties": {"f": {"type": "integer", "default": value}}}
        )
        assert b'"default":%d' % value in text

    @pytest.mark.parametrize(
        ("value", "written"),
        [
            (2**53 - 1, "9007199254740991"),
            (2**53 + 1, "9007199254740992"),
            (2**63 - 1, "9223372036854776000"),
            (-(2**63), "-9223372036854776000"),
        ],
    )
    def test_whole_ones_are_float64_in_a_maximum(self, value: int, written: str) -> None:
        text = thing_document(
            {"type": "object", "properties": {"f": {"type": "integer", "maximum": value}}}
        )
        assert f'"maximum":{written}}}'.encode() in text

    @given(st.floats(allow_nan=False, allow_infinity=False))
    def test_are_read_back_as_the_same_number(self, value: float) -> None:
        text = go_json.dumps(json_text.number(value))
        assert float(text) == value
        assert b"e+0" not in text
        assert b"e-0" not in text
        assert not text.endswith(b".0")


class TestText:
    def test_is_escaped_as_go_does(self) -> None:
        text = thing_document(
            {"type": "object", "description": "<a> & \u2028 \x01 \u00e9 \U0001f600"}
        )
        expected = '"\\u003ca\\u003e \\u0026 \\u2028 \\u0001 é \U0001f600"'
        assert expected.encode() in text


class TestIntOrString:
    def test_gets_its_alternatives(self) -> None:
        found = field(**{"x-kubernetes-int-or-string": True, "description": "d"})
        assert found == {
            "description": "d",
            "anyOf": INT_OR_STRING,
            "x-kubernetes-int-or-string": True,
        }
        assert list(found) == ["description", "anyOf", "x-kubernetes-int-or-string"]

    @pytest.mark.parametrize(
        "given_fields",
        [{"anyOf": INT_OR_STRING}, {"allOf": [{"anyOf": INT_OR_STRING}, {"pattern": "a"}]}],
        ids=["anyOf", "allOf"],
    )
    def test_is_unchanged_with_its_alternatives(self, given_fields: dict[str, Any]) -> None:
        fields = given_fields | {"x-kubernetes-int-or-string": True}
        assert field(**fields) == fields

    def test_other_alternatives_are_published_too(self) -> None:
        found = field(
            **{
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"pattern": "a"}],
                "allOf": [{"maxLength": 3}],
            }
        )
        assert found["allOf"] == [{"anyOf": INT_OR_STRING}, {"maxLength": 3}]
        assert found["anyOf"] == [{"pattern": "a"}]

    def test_also_within_items_and_additional_properties(self) -> None:
        inner = {"x-kubernetes-int-or-string": True}
        unfolded = {"anyOf": INT_OR_STRING, **inner}
        assert field(type="array", items=inner)["items"] == unfolded
        assert field(type="object", additionalProperties=inner)["additionalProperties"] == unfolded


class TestObjectFields:
    def test_the_root_gets_those_of_every_object_whatever_it_had(self) -> None:
        own = {"type": "string", "description": "mine"}
        found = published(
            {
                "type": "object",
                "properties": {
                    "kind": own,
                    "apiVersion": own,
                    "metadata": {
                        "type": "object",
                        "properties": {"name": {"maxLength": 3, "type": "string"}},
                    },
                    "spec": {"type": "object"},
                },
            }
        )["properties"]
        assert list(found) == ["apiVersion", "kind", "metadata", "spec"]
        assert found["kind"]["description"].startswith("Kind is a string value")
        assert found["apiVersion"]["description"].startswith("APIVersion defines")
        assert found["metadata"]["allOf"] == [META_REF]

    def test_an_embedded_object_gets_its_own_and_must_have_a_kind(self) -> None:
        found = field(
            **{
                "type": "object",
                "required": ["kind", "spec"],
                "properties": {"spec": {"type": "object"}},
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        )
        assert list(found) == [
            "type",
            "required",
            "properties",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-preserve-unknown-fields",
        ]
        assert found["required"] == ["kind", "spec", "apiVersion"]
        assert list(found["properties"]) == ["apiVersion", "kind", "metadata", "spec"]
        assert found["properties"]["metadata"]["allOf"] == [META_REF]
        assert found["properties"]["kind"]["description"].startswith("kind is a string value")

    def test_an_embedded_object_without_fields_gets_them_in_order(self) -> None:
        found = field(
            **{
                "x-kubernetes-preserve-unknown-fields": True,
                "x-kubernetes-embedded-resource": True,
                "type": "object",
            }
        )
        assert list(found)[:3] == ["type", "required", "properties"]
        assert found["required"] == ["kind", "apiVersion"]


NAMES = st.sampled_from(["spec", "status", "a", "b.c", "d/e", "~", "ü", "$ref", "items", "type"])
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
CONDITIONS = st.fixed_dictionaries(
    {},
    optional={
        "pattern": TEXT,
        "maxLength": st.integers(0, 2**63 - 1),
        "required": st.lists(TEXT, min_size=1, max_size=2),
        "enum": st.lists(
            TEXT | st.integers(-(2**63), 2**63 - 1) | st.none(), min_size=1, max_size=2
        ),
    },
)


def described(kind: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(
        {},
        optional={
            "description": TEXT,
            "nullable": st.just(value=True),
            "anyOf": st.lists(CONDITIONS, min_size=1, max_size=2),
            "not": CONDITIONS,
            "default": TEXT | st.lists(TEXT, max_size=2) | st.dictionaries(TEXT, TEXT, max_size=2),
        },
    ).map(lambda fields: fields | kind)


LEAVES = st.sampled_from(["string", "integer", "number", "boolean"]).flatmap(
    lambda name: described({"type": name})
)


def larger(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    members = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return (
        members.flatmap(lambda found: described({"type": "object", "properties": found}))
        | inner.flatmap(lambda item: described({"type": "array", "items": item}))
        | inner.flatmap(lambda one: described({"type": "object", "additionalProperties": one}))
    )


ROOTS = st.dictionaries(
    NAMES, st.recursive(LEAVES, larger, max_leaves=8), min_size=1, max_size=3
).map(lambda members: {"type": "object", "properties": members})


@given(ROOTS)
def test_a_structural_schema_is_published_without_loss(schema: dict[str, Any]) -> None:
    added = {("properties", name) for name in ("apiVersion", "kind", "metadata")}
    found = {one for one in leaves(published(schema)) if one[:2] not in added}
    gvk = ("x-kubernetes-group-version-kind", 0)
    expected = set(leaves(schema))
    assert {one for one in found if one[:2] != gvk} == expected
