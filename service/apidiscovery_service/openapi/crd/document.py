"""The OpenAPI v3 document of a group-version of CustomResourceDefinitions.

It equals Kubernetes' own, byte for byte: pkg/controller/openapiv3/controller.go,
pkg/controller/openapi/builder and pkg/apiserver/schema/unfold.go of apiextensions-apiserver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from typing import Any

import orjson
from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_service.core.model import GroupVersionKind
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi import meta_components, operations
from apidiscovery_service.openapi.crd import schema_fields, structural
from apidiscovery_service.openapi.crd.schema_fields import Reading, Schema, ordered
from apidiscovery_service.openapi.crd.structural import INT_OR_STRING, is_int_or_string
from apidiscovery_service.openapi.errors import InvalidOpenAPI, Path
from apidiscovery_service.openapi.meta_components import (
    SCALE,
    kinds_extension,
    list_schema,
    reference,
)
from apidiscovery_service.openapi.operations import Route, Subject

# The largest real document has 2 MB; with escapes and embedded objects one can be ten times as
# large as its definitions.
MAX_DOCUMENT_BYTES = 32 * 2**20

_SUBRESOURCE = (operations.READ, operations.REPLACE, operations.PATCH)

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
    """A definition in one version.

    Attributes:
        name: Of the definition, for messages.
        kind: The kind of its objects.
        list_kind: The kind of its lists.
        plural: Such as `crontabs`.
        namespaced: Whether its objects are in namespaces.
        subresources: `status`, `scale`, both or none.
        schema: Its schema as JSON values, None when it has none.
        path: Where the schema is.
        selectable: `x-kubernetes-selectable-fields`, or nothing.
    """

    name: str
    kind: GroupVersionKind
    list_kind: GroupVersionKind
    plural: str
    namespaced: bool
    subresources: tuple[str, ...]
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
        InvalidOpenAPI: Two have the same schema name or path; one is nested too deeply or too
            large; one is not JSON.
    """
    served = [_served(group, version, definition) for definition in definitions]
    served.sort(key=lambda one: (one.name, one.plural))
    paths, schemas = _parts(served)
    scale = any("scale" in one.subresources for one in served)
    schemas.update(meta_components.components(scale=scale))
    return b"".join(
        (_HEAD, _members(paths), b'},"components":{"schemas":{', _members(schemas), b"}}}")
    )


def _served(group: str, version: str, definition: Definition) -> _Served:
    fields = _fields(definition)
    subresources = as_object(fields.get("subresources"))
    return _Served(
        name=f"{definition.plural}.{group}",
        kind=GroupVersionKind(group, version, definition.kind),
        list_kind=GroupVersionKind(group, version, definition.list_kind),
        plural=definition.plural,
        namespaced=definition.scope == "Namespaced",
        subresources=tuple(
            name for name in ("status", "scale") if subresources.get(name) is not None
        ),
        schema=as_object(fields.get("schema")).get("openAPIV3Schema"),
        path=("spec", "versions", definition.index, "schema", "openAPIV3Schema"),
        selectable=_selectable(fields),
    )


def _fields(definition: Definition) -> dict[str, Any]:
    try:
        return as_object(orjson.loads(definition.version))
    except ValueError as error:
        raise InvalidOpenAPI((), f"{definition.plural}: is not JSON: {error}") from error


def _selectable(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the extension that names the selectable fields.

    Source: pkg/controller/openapi/builder/builder.go:buildSelectableFields.
    """
    paths = [as_object(one).get("jsonPath") for one in as_list(fields.get("selectableFields"))]
    named = [{"fieldPath": path.removeprefix(".")} for path in paths if isinstance(path, str)]
    return {"x-kubernetes-selectable-fields": named} if named else {}


def _model_name(kind: GroupVersionKind) -> str:
    """Return the name of a kind's schema: `com.example.stable.v1.CronTab`."""
    return ".".join((*reversed(kind.group.split(".")), kind.version, kind.kind))


def _paths(one: _Served) -> Iterator[tuple[str, bytes]]:
    """Yield each path with the JSON of its path item, in no particular order.

    Source: pkg/controller/openapi/builder/builder.go:generateBuilder and buildRoute.
    """
    kind = one.kind
    base = f"/apis/{kind.group}/{kind.version}"
    root = f"{base}/{one.plural}"
    subject = Subject(kind.group, kind.version, kind.kind, kind)
    if one.namespaced:
        everywhere = replace(subject, suffix="ForAllNamespaces")
        yield root, _path_item(one, everywhere, (operations.LIST,))
        root = f"{base}/namespaces/{{namespace}}/{one.plural}"
        subject = replace(subject, scope="Namespaced")
    in_path = meta_components.parameters()["namespace"] if one.namespaced else ()
    yield root, _path_item(one, subject, operations.COLLECTION, in_path)
    in_path = (operations.name_parameter(kind.kind), *in_path)
    yield f"{root}/{{name}}", _path_item(one, subject, operations.ITEM, in_path)
    for name in one.subresources:
        below = replace(subject, subresource=name)
        yield f"{root}/{{name}}/{name}", _path_item(one, below, _SUBRESOURCE, in_path)


def _path_item(
    one: _Served,
    subject: Subject,
    routes: tuple[Route, ...],
    in_path: Iterable[Mapping[str, Any]] = (),
) -> bytes:
    """Return the JSON of a path item.

    Args:
        one: What the path belongs to.
        subject: What the operations are about.
        routes: The operations, in the order of the path item's fields.
        in_path: The parameters in the path.
    """
    shared, own = _parameters(routes)
    model = SCALE if subject.subresource == "scale" else _model_name(one.kind)
    item: dict[str, object] = {
        route.method: operations.operation(
            route,
            subject,
            subject.operation_id(route),
            own[route],
            reference(_model_name(one.list_kind) if route is operations.LIST else model),
        )
        for route in routes
    }
    item["parameters"] = sorted((*in_path, *shared), key=itemgetter("name"))
    return go_json.dumps(item)


@cache
def _parameters(
    routes: tuple[Route, ...],
) -> tuple[Sequence[Mapping[str, Any]], Mapping[Route, Sequence[Mapping[str, Any]] | None]]:
    """Return the parameters that all operations of a path have, which stand at the path.

    The second value has the others of each operation, sorted by name; None for none. No two of
    Kubernetes' parameters have the same name.
    """
    known = meta_components.parameters()
    every = {
        route: {one["name"]: one for one in (*known[route.action], *known["pretty"])}
        for route in routes
    }
    shared = set(every[routes[0]]).intersection(*every.values())
    own = {
        route: [several[name] for name in sorted(several.keys() - shared)] or None
        for route, several in every.items()
    }
    return [every[routes[0]][name] for name in shared], own


def _schemas(one: _Served) -> Iterator[tuple[str, bytes]]:
    extensions = {**kinds_extension(one.kind), **one.selectable}
    model = _model_name(one.kind)
    try:
        yield model, kind_schema(one.schema, extensions, one.path)
    except InvalidOpenAPI as error:
        raise InvalidOpenAPI(error.path, f"{one.name}: {error.message}") from error
    schema = list_schema(one.list_kind.kind, one.kind.kind, one.plural, model)
    schema |= {**kinds_extension(one.list_kind), **one.selectable}
    yield _model_name(one.list_kind), go_json.dumps(schema)


def _parts(served: Iterable[_Served]) -> Iterator[dict[str, bytes]]:
    """Yield the paths and the schemas of all definitions, by name.

    Raises:
        InvalidOpenAPI: Two definitions have the same path or schema, or the document is too large.
    """
    left = MAX_DOCUMENT_BYTES
    for part, make in (("paths", _paths), ("schemas", _schemas)):
        merged: dict[str, bytes] = {}
        owners = dict.fromkeys(meta_components.components(scale=True), "Kubernetes")
        members = ((one.name, *member) for one in served for member in make(one))
        for owner, name, data in members:
            if name in owners:
                message = f"both {owners[name]} and {owner} define it"
                raise InvalidOpenAPI((part, name), message)
            left -= len(data)
            if left < 0:
                message = f"{owner} makes it larger than {MAX_DOCUMENT_BYTES} bytes"
                raise InvalidOpenAPI((), message)
            owners[name] = owner
            merged[name] = data
        yield merged


def _members(several: Mapping[str, bytes]) -> bytes:
    """Return the members of a JSON object, sorted, without its braces."""
    return b",".join(go_json.dumps(name) + b":" + several[name] for name in sorted(several))


def kind_schema(raw: object, extensions: Mapping[str, Any], path: Path) -> bytes:
    """Return the JSON of a kind's schema.

    A schema that is absent or not structural is published as an object without fields.

    Args:
        raw: The schema as JSON values; None for none.
        extensions: Extensions of the published schema.
        path: Where the schema is in its definition.

    Raises:
        InvalidOpenAPI: The schema is nested too deeply or has too many values.
    """
    schema: Schema = {"type": "object"}
    if raw is not None:
        reading = schema_fields.read(raw, path)
        if structural.is_structural(reading):
            schema = _published(reading)
    return go_json.dumps(ordered({**schema, **extensions}))


def _published(reading: Reading) -> Schema:
    """Return a structural schema as it is published; this changes the reading."""
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
        _sort_fields(schema)
    return root


def _add_properties(schema: Schema, added: Schema) -> None:
    properties = schema.get("properties", {}) | added
    schema["properties"] = {name: properties[name] for name in sorted(properties)}


def _unfold(schema: Schema) -> None:
    """Add the alternatives that `x-kubernetes-int-or-string` stands for."""
    all_of = schema.get("allOf", [])
    if is_int_or_string(schema.get("anyOf")) or (
        all_of and is_int_or_string(all_of[0].get("anyOf"))
    ):
        return
    if "anyOf" not in schema:
        schema["anyOf"] = INT_OR_STRING
    else:
        schema["allOf"] = [{"anyOf": INT_OR_STRING}, *all_of]
    _sort_fields(schema)


def _sort_fields(schema: Schema) -> None:
    fields = ordered(schema)
    schema.clear()
    schema.update(fields)
