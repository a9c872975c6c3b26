"""Property tests: no field of a structural schema is lost, every reference resolves."""

import json
from typing import Any

from crd_goldens import thing_document
from hypothesis import given, settings
from hypothesis import strategies as st
from json_walks import leaves, references

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


def made(schema: object) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(thing_document(schema))
    return document


@settings(deadline=None)
@given(ROOTS)
def test_a_structural_schema_is_published_without_loss(schema: dict[str, Any]) -> None:
    published = made(schema)["components"]["schemas"]["example.a.v1.Thing"]
    added = {("properties", name) for name in ("apiVersion", "kind", "metadata")}
    found = {one for one in leaves(published) if one[:2] not in added}
    gvk = ("x-kubernetes-group-version-kind", 0)
    expected = set(leaves(schema))
    assert {one for one in found if one[:2] != gvk} == expected


@settings(deadline=None)
@given(ROOTS)
def test_every_reference_of_kubernetes_resolves(schema: dict[str, Any]) -> None:
    document = made(schema)
    own = document["components"]["schemas"].pop("example.a.v1.Thing")
    names = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    targets = set(references(document)) | set(references(own["properties"]["metadata"]))
    assert targets - {"#/components/schemas/example.a.v1.Thing"} <= names
