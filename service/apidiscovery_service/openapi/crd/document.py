"""The OpenAPI v3 document of a group-version that CustomResourceDefinitions make up.

It is Kubernetes' own, byte for byte: pkg/controller/openapiv3/controller.go and
pkg/controller/openapi/builder of apiextensions-apiserver.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from apidiscovery_service.openapi import json_text, meta_components
from apidiscovery_service.openapi.crd import resource_paths, schema_fields, structural
from apidiscovery_service.openapi.crd.resource_paths import Resource
from apidiscovery_service.openapi.crd.schema_fields import Reading, Schema, ordered
from apidiscovery_service.openapi.crd.structural import INT_OR_STRING, is_int_or_string
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path

# Of what comes out. The largest real one has 2 MB; escapes and embedded objects can make it ten
# times what went in.
MAX_DOCUMENT_BYTES = 32 * 2**20

_HEAD = b'{"openapi":"3.0.0","info":{"title":"Kubernetes CRD Swagger","version":"v0.1.0"},"paths":{'


@dataclass(frozen=True, slots=True)
class Definition:
    """A version of a CustomResourceDefinition and the names under which it is served.

    Attributes:
        version: Its entry of `spec.versions` as JSON.
        index: Which entry it is, for messages.
        scope: `Namespaced` or `Cluster`.
        plural: Accepted plural name.
        kind: Accepted kind.
        list_kind: Accepted kind of lists.
    """

    version: bytes
    index: int
    scope: str
    plural: str
    kind: str
    list_kind: str


@dataclass(frozen=True, slots=True)
class _Served:
    """A definition in the version in question.

    Attributes:
        name: Of the definition, for messages.
        resource: What its paths depend on.
        list_kind: Kind of its lists.
        schema: What it has as schema, None when it has none.
        path: Where the schema is.
        selectable: `x-kubernetes-selectable-fields`, or nothing.
    """

    name: str
    resource: Resource
    list_kind: str
    schema: object
    path: Path
    selectable: Mapping[str, Any]


def crd_document(group: str, version: str, definitions: Sequence[Definition]) -> bytes:
    """Return a group-version's document as canonical JSON.

    It depends on the definitions, not on their order.

    Args:
        group: Such as `stable.example.com`.
        version: Such as `v1`.
        definitions: All of the group that are established and serve the version, at least one.

    Raises:
        InvalidOpenAPI: Two want the same schema name or path; one is nested too deeply or too
            large; one is no JSON.
    """
    served = [_served(group, version, definition) for definition in definitions]
    served.sort(key=lambda one: (one.name, one.resource.plural))
    limit = _Limit()
    paths = _merged(served, "paths", lambda one: resource_paths.paths(one.resource), limit)
    schemas = _merged(served, "schemas", _schemas, limit)
    scale = any("scale" in one.resource.subresources for one in served)
    schemas.update(meta_components.components(scale=scale))
    return b"".join(
        (_HEAD, _members(paths), b'},"components":{"schemas":{', _members(schemas), b"}}}")
    )


def _served(group: str, version: str, definition: Definition) -> _Served:
    fields = _fields(definition)
    subresources = _object(fields.get("subresources"))
    model = _model_name(group, version, definition.kind)
    resource = Resource(
        group=group,
        version=version,
        plural=definition.plural,
        kind=definition.kind,
        model=model,
        list_model=_model_name(group, version, definition.list_kind),
        namespaced=definition.scope == "Namespaced",
        subresources=tuple(
            name for name in ("status", "scale") if subresources.get(name) is not None
        ),
    )
    return _Served(
        name=f"{definition.plural}.{group}",
        resource=resource,
        list_kind=definition.list_kind,
        schema=_object(fields.get("schema")).get("openAPIV3Schema"),
        path=("spec", "versions", definition.index, "schema", "openAPIV3Schema"),
        selectable=_selectable(fields),
    )


def _fields(definition: Definition) -> dict[str, Any]:
    try:
        return _object(orjson.loads(definition.version))
    except ValueError as error:
        raise InvalidOpenAPI((), f"{definition.plural}: is not JSON: {error}") from error


def _object(value: object) -> dict[str, Any]:
    return value if json_text.is_object(value) else {}


def _list(value: object) -> list[Any]:
    return value if json_text.is_array(value) else []


def _selectable(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extension that names the fields one may select by.

    Source: pkg/controller/openapi/builder/builder.go:buildSelectableFields.
    """
    paths = [_object(one).get("jsonPath") for one in _list(fields.get("selectableFields"))]
    named = [{"fieldPath": path.removeprefix(".")} for path in paths if isinstance(path, str)]
    return {"x-kubernetes-selectable-fields": named} if named else {}


def _model_name(group: str, version: str, kind: str) -> str:
    """Return the name of a kind's schema: `com.example.stable.v1.CronTab`."""
    return ".".join((*reversed(group.split(".")), version, kind))


def _schemas(one: _Served) -> Iterator[tuple[str, bytes]]:
    resource, selectable = one.resource, one.selectable
    gvk = "x-kubernetes-group-version-kind"
    extensions = {gvk: [_gvk(resource, resource.kind)], **selectable}
    yield resource.model, _kind_schema(one, extensions)
    extensions = {gvk: [_gvk(resource, one.list_kind)], **selectable}
    yield (
        resource.list_model,
        list_schema(resource.model, resource.kind, one.list_kind, resource.plural, extensions),
    )


def _kind_schema(one: _Served, extensions: Mapping[str, Any]) -> bytes:
    try:
        return kind_schema(one.schema, extensions, one.path)
    except InvalidOpenAPI as error:
        raise InvalidOpenAPI(error.path, f"{one.name}: {error.message}") from error


def _gvk(resource: Resource, kind: str) -> dict[str, str]:
    return {"group": resource.group, "kind": kind, "version": resource.version}


class _Limit:
    """How many bytes a document may still get."""

    def __init__(self) -> None:
        self._left = MAX_DOCUMENT_BYTES

    def count(self, data: bytes, name: str) -> None:
        """Count what goes into the document.

        Raises:
            InvalidOpenAPI: It is too large with that.
        """
        self._left -= len(data)
        if self._left < 0:
            raise InvalidOpenAPI((), f"{name} makes it larger than {MAX_DOCUMENT_BYTES} bytes")


def _merged(
    served: Iterable[_Served],
    part: str,
    make: Callable[[_Served], Iterable[tuple[str, bytes]]],
    limit: _Limit,
) -> dict[str, bytes]:
    """Return what all definitions bring to a part of the document.

    Raises:
        InvalidOpenAPI: Two bring something of the same name, or it is too large.
    """
    merged: dict[str, bytes] = {}
    owners = dict.fromkeys(meta_components.components(scale=True), "Kubernetes")
    for one in served:
        for name, data in make(one):
            if name in owners:
                raise InvalidOpenAPI((part, name), f"both {owners[name]} and {one.name} define it")
            limit.count(data, one.name)
            owners[name] = one.name
            merged[name] = data
    return merged


def _members(several: Mapping[str, bytes]) -> bytes:
    """Return the members of a JSON object, sorted, without its braces."""
    return b",".join(json_text.dumps(name) + b":" + several[name] for name in sorted(several))


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
