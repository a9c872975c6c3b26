"""Validation of schemas of applied CustomResourceDefinitions, with the messages of Kubernetes.

tests/unit/openapi/test_structural.py has the other rules. The wrong schemas are those of
k8s.io/apiextensions-apiserver pkg/apis/apiextensions/validation/validation_test.go (v1.34).
"""

import json
from typing import Any

import orjson
import pytest
import yaml
from apidiscovery_service.errors import InvalidDocument
from apidiscovery_service.openapi.crd import structural
from apidiscovery_service.sources.crds.reading import read_applied_crd, read_crd
from apidiscovery_service.sources.crds.validation import MAX_FOUND
from apidiscovery_service.sources.fields import InvalidField, Node, json_form, path_text
from apidiscovery_service.sources.manifests.file import MAX_ERRORS, read_documents
from crd_manifests import CRONTABS, edited, simple, told
from hypothesis import given
from hypothesis import strategies as st

NOTHING: dict[str, Any] = {}
PLACE = "spec.versions[0].schema.openAPIV3Schema"
STRING = {"type": "string"}
PRESERVE = {"x-kubernetes-preserve-unknown-fields": True}
EMBEDDED = {"type": "object", "x-kubernetes-embedded-resource": True}
NO_PROPERTIES = (
    "must not be empty if x-kubernetes-embedded-resource is true without"
    " x-kubernetes-preserve-unknown-fields"
)


def document(schema: object) -> dict[str, Any]:
    return edited(simple("things"), PLACE, schema)


def with_schema(crd: dict[str, Any], version: int, schema: object) -> dict[str, Any]:
    """Return a copy in which one version has another schema."""
    return edited(crd, f"spec.versions[{version}].schema", {"openAPIV3Schema": schema})


def taken(content: dict[str, Any]) -> bool:
    return read_applied_crd(Node(content)) == read_crd(Node(content))


def of(**properties: object) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def refused(content: object, place: str = PLACE) -> list[str]:
    """Return the errors of an applied document that is refused, without the usual path."""
    with pytest.raises(InvalidDocument) as caught:
        read_documents(json.dumps(content), "sent", applied=True)
    errors = [caught.value, *caught.value.others]
    return [
        f"{error.field.removeprefix(place).removeprefix('.')}: {error.args[0]}" for error in errors
    ]


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    (
        of(spec={}, status={}) | {"items": {}},
        [
            "items.type: Required value: must not be empty for specified array items",
            "properties[spec].type: Required value: must not be empty for specified object fields",
            (
                "properties[status].type: Required value:"
                " must not be empty for specified object fields"
            ),
        ],
    ),
    (
        of(foo={"type": "object", "properties": {"bar": STRING}, "additionalProperties": False}),
        [
            ("properties[foo].additionalProperties: Forbidden:"
            " additionalProperties and properties are mutual exclusive")
        ],
    ),
    (
        of(a=STRING | {"definitions": {"b": STRING}}),
        ["properties[a].definitions: Forbidden: definitions is not supported"],
    ),
    (
        of(nil=EMBEDDED, empty=EMBEDDED | {"properties": NOTHING}) | PRESERVE,
        [
            f"properties[empty].properties: Required value: {NO_PROPERTIES}",
            f"properties[nil].properties: Required value: {NO_PROPERTIES}",
        ],
    ),
    (
        of(a=EMBEDDED | PRESERVE | {"properties": {"apiVersion": {"type": "integer"}}}),
        [
            ('properties[a].properties[apiVersion].type: Invalid value: "integer":'
            " must be string")
        ],
    ),
    (
        of(metadata={"type": "object", "default": {"name": "foo"}}),
        ["properties[metadata].default: Forbidden: must not be set in top-level metadata"],
    ),
    (
        of(a=STRING | {"x-kubernetes-map-type": "atomic"}),
        [
            ('properties[a].type: Invalid value: "string":'
            " must be object if x-kubernetes-map-type is specified")
        ],
    ),
    (
        of(a=STRING | {"discription": "d"}),
        [f'properties[a].discription: unknown field "{PLACE}.properties[a].discription"'],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "expected"), WRONG, ids=[lines[0] for _, lines in WRONG])
def test_a_wrong_schema_is_refused_as_kubernetes_does(
    schema: dict[str, Any], expected: list[str]
) -> None:
    """Of an applied definition; schemas of manifest files are not validated."""
    assert refused(document(schema)) == expected
    assert read_crd(Node(document(schema))).name == "things.a.example"


def test_an_error_has_the_line_of_its_field_or_of_the_closest_ancestor() -> None:
    schema = of(spec={"type": "object", "properties": {"replicas": {"description": "d"}}})
    schema["properties"]["status"] = {"type": "text"}
    content = "# c\n---\n" + yaml.safe_dump(document(schema), sort_keys=False)
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "crd.yaml", applied=True)
    lines = content.splitlines()
    found = [caught.value, *caught.value.others]
    assert [(error.field, lines[error.line - 1].strip()) for error in found] == [
        (f"{PLACE}.properties[spec].properties[replicas].type", "replicas:"),
        (f"{PLACE}.properties[status].type", "type: text"),
    ]
    assert str(caught.value).startswith(
        f"crd.yaml:{found[0].line}, document 1, {found[0].field}: Required value: must not be empty"
    )


def test_each_version_of_each_document_is_validated() -> None:
    first = with_schema(CRONTABS, 0, of(a={}))
    two = with_schema(first, 2, of(b={}))
    items = [simple("things"), two]
    detail = "Required value: must not be empty for specified object fields"
    assert refused({"apiVersion": "v1", "kind": "List", "items": items}) == [
        f"items[1].{PLACE}.properties[a].type: {detail}",
        f"items[1].{PLACE.replace('[0]', '[2]')}.properties[b].type: {detail}",
    ]


def test_the_status_subresource_allows_less_at_the_root_of_its_version() -> None:
    limited = {"type": "object", "minProperties": 1}
    assert taken(document(limited))
    (line,) = refused(with_schema(CRONTABS, 0, limited))
    assert line.startswith(': Invalid value: ["minProperties"]: only [Description Type Format')
    assert line.endswith("at the root of the schema if the status subresource is enabled")
    assert taken(with_schema(CRONTABS, 1, limited))


def test_violations_of_schemas_and_other_fields_are_reported_together() -> None:
    wrong = edited(document(of(a={})), "spec.scope", "x")
    wrong = edited(wrong, "spec.names.shortNames", ["-"])
    assert [line.partition(": ")[0] for line in refused(wrong, "-")] == [
        "spec.scope",
        f"{PLACE}.properties[a].type",
        "spec.names.shortNames[0]",
    ]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (None, "Required value: schemas are required"),
        ([], "want an object, got a list"),
        ("text", "want an object, got a string"),
    ],
)
def test_a_value_that_is_no_schema_has_one_error(schema: object, message: str) -> None:
    assert refused(document(schema)) == [f": {message}"]


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = dict(STRING)
    for _ in range(levels):
        schema = of(a=schema)
    return schema


class TestLimits:
    def test_of_depth(self) -> None:
        assert taken(document(nested(75)))
        assert refused(document(nested(76))) == [": is nested more than 150 levels deep"]

    def test_of_the_depth_of_a_version(self) -> None:
        assert refused(document(nested(300))) == [
            "spec.versions[0]: is nested more than 254 levels deep"
        ]

    def test_of_size(self) -> None:
        schema = of(a={"type": "integer", "enum": list(range(200_000))})
        assert refused(document(schema)) == [": has more than 200000 values"]

    def test_of_shown_errors(self) -> None:
        lines = refused(document(of(**{f"f{n}": NOTHING for n in range(1000)})))
        assert len(lines) == MAX_ERRORS + 1
        assert lines[-1] == f": has more errors than the {MAX_ERRORS} that are shown"

    def test_of_errors_in_many_versions(self) -> None:
        (version,) = simple("things")["spec"]["versions"]
        schema = {"openAPIV3Schema": of(**{f"f{n}": NOTHING for n in range(50)})}
        versions = [version | {"name": f"v{n}", "schema": schema} for n in range(100)]
        with pytest.raises(InvalidField) as caught:
            read_applied_crd(Node(edited(simple("things"), "spec.versions", versions)))
        assert len(told(caught.value)) == MAX_FOUND + 1
        assert told(caught.value)[-1].endswith("exactly one version marked as storage version")

    def test_of_errors_in_many_documents(self) -> None:
        lines = refused(
            {"apiVersion": "v1", "kind": "List", "items": [document(of(a={}))] * 3 * MAX_ERRORS}
        )
        assert len(lines) == MAX_ERRORS + 1


def test_a_valid_schema_is_not_checked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    content = document(of(once={"type": "string", "title": "seen by no other test"}))
    assert taken(content)

    def check(*_: object, **__: object) -> list[object]:
        raise AssertionError("it was checked")

    monkeypatch.setattr(structural, "violations", check)
    assert taken(content)
    other = edited(content, "spec.versions[0].subresources", {"status": {}})
    with pytest.raises(AssertionError, match="it was checked"):  # it allows less
        taken(other)


def test_an_invalid_schema_is_reported_each_time() -> None:
    content = document({"type": "object", "properties": {"a": {"type": "text"}}})
    assert refused(content) == refused(content) != []


def test_names_that_yaml_reads_as_numbers_are_names() -> None:
    schema = {"type": "object", "properties": {2: STRING, True: {}, "b": STRING, 2.5: STRING}}
    content = yaml.safe_dump(document(schema), sort_keys=False)
    with pytest.raises(InvalidDocument) as caught:
        read_documents(content, "sent", applied=True)
    assert caught.value.others == ()
    assert caught.value.field == f"{PLACE}.properties[true].type"
    assert content.splitlines()[caught.value.line - 1].strip() == "true: {}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({1: {True: [{None: 1.5}]}}, {"1": {"true": [{"null": 1.5}]}}),
        ([{"a": None}], [{"a": None}]),
    ],
)
def test_values_of_yaml_become_json(value: object, expected: object) -> None:
    assert json_form(value, ()) == (expected, orjson.dumps(expected))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("spec", "versions", 0, "schema", "openAPIV3Schema"), PLACE),
        (("openAPIV3Schema", "properties", "a.b", "type"), "openAPIV3Schema.properties[a.b].type"),
        (
            ("openAPIV3Schema", "properties", "properties", "allOf", 1, "items"),
            "openAPIV3Schema.properties[properties].allOf[1].items",
        ),
        (("metadata", "annotations", "a.b/c"), "metadata.annotations[a.b/c]"),
        (("items", 0, "spec"), "items[0].spec"),
        ((), ""),
    ],
)
def test_paths_into_schemas_have_names_in_brackets(path: tuple[str | int, ...], text: str) -> None:
    assert path_text(path) == text


SCHEMA_WORDS = ["type", "properties", "items", "anyOf", "not", "default", "required", "x-own"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(SCHEMA_WORDS) | st.text(max_size=3), inner, max_size=4)
    ),
)


@given(VALUES)
def test_any_value_is_accepted_or_reported(schema: object) -> None:
    content = document(schema)
    try:
        read_documents(json.dumps(content), "sent", applied=True)
    except InvalidDocument as error:
        assert error.field.startswith("spec.versions[0].schema")  # noqa: PT017 - it need not be raised
