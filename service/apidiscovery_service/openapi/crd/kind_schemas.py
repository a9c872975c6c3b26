"""The schemas of a kind and of its list, from the schema of a CustomResourceDefinition.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:buildKubeNative,
addEmbeddedProperties, buildListSchema; pkg/apiserver/schema/unfold.go.
"""

from collections.abc import Mapping
from typing import Any

from apidiscovery_service.openapi import json_text, meta_components
from apidiscovery_service.openapi.crd import schema_fields, structural
from apidiscovery_service.openapi.crd.invariants import INT_OR_STRING, is_int_or_string
from apidiscovery_service.openapi.crd.schema_fields import Reading, Schema, ordered
from apidiscovery_service.openapi.errors import Path


def kind_schema(raw: object, extensions: Mapping[str, Any], path: Path) -> bytes:
    """Return the JSON of a kind's schema.

    One that is absent or not structural is published as an object of which nothing is known.

    Args:
        raw: What the definition has as schema; None when it has none.
        extensions: What the published schema says of the kind beside its fields.
        path: Where the schema is in its definition.

    Raises:
        InvalidOpenAPI: The schema is nested too deeply or has too many values.
    """
    schema: Schema = {"type": "object"}
    if raw is not None:
        reading = schema_fields.read(raw, path)
        if structural.is_structural(reading):
            schema = _published(reading)
    return json_text.dumps(ordered({**schema, **extensions}))


def list_schema(
    model: str, kind: str, list_kind: str, plural: str, extensions: Mapping[str, Any]
) -> bytes:
    """Return the JSON of the schema of a kind's list.

    Args:
        model: Name of the kind's schema.
        kind: Such as `CronTab`.
        list_kind: Such as `CronTabList`.
        plural: Such as `crontabs`.
        extensions: What the published schema says of the list beside its fields.
    """
    type_meta = meta_components.type_meta()
    properties = {
        "apiVersion": type_meta["apiVersion"],
        "items": meta_components.items(plural, model),
        "kind": type_meta["kind"],
        "metadata": meta_components.list_meta(),
    }
    schema = {
        "description": f"{list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": properties,
    }
    return json_text.dumps({**schema, **extensions})


def _published(reading: Reading) -> Schema:
    """Return a structural schema as it is published; the reading is used up."""
    for schema in reading.int_or_string:
        _unfold(schema)
    root = reading.schema
    _add_properties(
        root, {**meta_components.type_meta(), "metadata": meta_components.object_meta()}
    )
    for schema in reading.embedded:
        _add_properties(schema, dict(meta_components.embedded_meta()))
        required: list[str] = schema.setdefault("required", [])
        required += [name for name in ("kind", "apiVersion") if name not in required]
        _put_in_order(schema)
    return root


def _add_properties(schema: Schema, added: Schema) -> None:
    properties = schema.get("properties", {}) | added
    schema["properties"] = {name: properties[name] for name in sorted(properties)}


def _unfold(schema: Schema) -> None:
    """Say what `x-kubernetes-int-or-string` stands for in words that every reader knows."""
    all_of = schema.get("allOf", [])
    if is_int_or_string(schema.get("anyOf")) or (
        all_of and is_int_or_string(all_of[0].get("anyOf"))
    ):
        return
    if "anyOf" not in schema:
        schema["anyOf"] = INT_OR_STRING
    else:
        schema["allOf"] = [{"anyOf": INT_OR_STRING}, *all_of]
    _put_in_order(schema)


def _put_in_order(schema: Schema) -> None:
    fields = ordered(schema)
    schema.clear()
    schema.update(fields)
