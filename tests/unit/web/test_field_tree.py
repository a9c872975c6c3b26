"""The tree of fields: open levels, facts of each field, and schemas without end."""

import gzip
import json
from typing import Any

import pytest
from apidiscovery_service.web.field_facts import facts
from apidiscovery_service.web.field_schemas import Schemas
from apidiscovery_service.web.field_tree import PAGE, FieldTree, Level
from repository import GOLDEN

DEPLOYMENT = ("apps", "v1", "Deployment")


def deployment() -> FieldTree:
    text = (GOLDEN / "openapi-v3" / "apis__apps__v1.json.gz").read_bytes()
    document: Any = json.loads(gzip.decompress(text))
    schemas = Schemas(document)
    root = schemas.of_kind(*DEPLOYMENT)
    assert root is not None
    return FieldTree(schemas, root)


def tree_of(root: dict[str, Any], **named: dict[str, Any]) -> FieldTree:
    return FieldTree(Schemas({"components": {"schemas": named}}), root)


def paths(level: Level | None) -> list[str]:
    """Return all paths that are shown."""
    found: list[str] = []
    for field in level.fields if level else ():
        found += [field.path, *paths(field.level)]
    return found


def test_a_path_leads_through_references_lists_and_maps() -> None:
    tree = deployment()
    path = "spec.template.spec.containers.resources.limits"
    names = tree.find(path)
    assert ".".join(names) == path
    field = tree.field(names, is_open=False)
    assert (field.type, field.is_required, field.parent) == (
        "map[string]Quantity" if "Quantity" in field.type else "map[string]string",
        False,
        "spec.template.spec.containers.resources",
    )
    shown = paths(tree.tree(names))
    assert path in shown
    assert {"apiVersion", "spec.replicas", "spec.template.spec.volumes"} <= set(shown)
    assert "metadata.name" not in shown  # closed


def test_a_field_has_the_facts_of_its_value_and_its_items() -> None:
    schema = {
        "type": "array",
        "minItems": 1,
        "maxItems": 4,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "nullable": True,
        "default": [],
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "it stays"}],
        "items": {
            "type": "string",
            "enum": ["a", "b"],
            "pattern": "^[ab]$",
            "maxLength": 1,
        },
    }
    tree = tree_of({"properties": {"f": schema}, "required": ["f"]})
    field = tree.field(("f",), is_open=True)
    assert (field.type, field.is_required) == ("[]string", True)
    assert [(each.label, *each.values) for each in field.facts] == [
        ("items", "1 to 4"),
        ("default", "[]"),
        ("list type", "map"),
        ("list keys", "name"),
        ("may be null",),
        ("immutable",),
    ]
    assert [(each.label, *each.values) for each in field.item_facts] == [
        ("one of", "a", "b"),
        ("characters", "at most 1"),
        ("pattern", "^[ab]$"),
    ]
    assert [(each.rule, each.message) for each in field.rules] == [("self == oldSelf", "it stays")]


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        pytest.param({"minimum": 1, "maximum": 9}, ["at least 1", "at most 9"], id="bounds"),
        pytest.param({"minimum": 1, "exclusiveMinimum": True}, ["greater than 1"], id="exclusive"),
        pytest.param(
            {"x-kubernetes-preserve-unknown-fields": True}, ["keeps unknown fields"], id="unknown"
        ),
        pytest.param({"not": {"pattern": "x"}}, ['not {"pattern":"x"}'], id="logic"),
        pytest.param({"default": ""}, ['default ""'], id="empty-text"),
    ],
)
def test_facts_are_words(schema: dict[str, Any], wanted: list[str]) -> None:
    assert [" ".join((each.label, *each.values)) for each in facts(schema)] == wanted


def test_all_parts_of_all_of_count() -> None:
    parts = [{"pattern": "a"}, {"pattern": "b"}, {"minLength": 2}]
    whole = Schemas({}).whole({"type": "string", "allOf": parts})
    assert (whole["pattern"], whole["allOf"], whole["minLength"]) == ("a", [{"pattern": "b"}], 2)


def test_names_with_dots_are_found() -> None:
    inner = {"type": "object", "properties": {"c": {"type": "string"}}}
    tree = tree_of({"properties": {"a": {"type": "string"}, "a.b": inner}})
    assert tree.find("a.b.c") == ("a.b", "c")
    assert tree.find("a.b.x") == ("a.b",)


def test_recursion_opens_level_by_level() -> None:
    schema = {"properties": {"not": {"$ref": "#/components/schemas/Self"}}}
    tree = tree_of({"properties": {"top": {"$ref": "#/components/schemas/Self"}}}, Self=schema)
    path = "top" + ".not" * 100
    names = tree.find(path)
    assert len(names) == 101
    assert paths(tree.tree(names))[-2:] == [path, f"{path}.not"]


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param({"$ref": "#/components/schemas/Self"}, id="itself"),
        pytest.param({"allOf": [{"$ref": "#/components/schemas/Self"}] * 2}, id="made-of-itself"),
        pytest.param({"items": {"$ref": "#/components/schemas/Self"}}, id="list-of-itself"),
    ],
)
def test_a_schema_that_never_ends_is_cut_off(schema: dict[str, Any]) -> None:
    tree = tree_of({"properties": {"a": {"$ref": "#/components/schemas/Self"}}}, Self=schema)
    assert paths(tree.tree(tree.find("a.a.a"))) == ["a"]


def test_a_level_is_shown_in_pages() -> None:
    properties = {f"f{number:04}": {"type": "string"} for number in range(5000)}
    tree = tree_of({"properties": {"many": {"type": "object", "properties": properties}}})
    (first,) = tree.tree(("many",)).fields
    assert first.level
    assert (len(first.level.fields), first.level.previous, first.level.next) == (PAGE, None, PAGE)
    later = tree.level(("many",), 4900)
    assert (len(later.fields), later.previous, later.next) == (100, 4900 - PAGE, None)
    (around,) = tree.tree(tree.find("many.f0450")).fields
    assert around.level
    assert around.level.start == 400


def test_upper_levels_of_a_deep_path_have_only_the_field_on_it() -> None:
    leaf: dict[str, Any] = {"type": "string"}
    for _ in range(20):
        leaf = {"type": "object", "properties": {"a": leaf, "b": {"type": "string"}}}
    tree = tree_of(leaf)
    level = tree.tree(tree.find(".".join("a" * 20)))
    assert level.is_cut
    assert [each.name for each in level.fields] == ["a"]
    assert level.total == 2
