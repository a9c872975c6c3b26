"""Parts that documents share: schemas of meta types, parameters, the server itself.

Schemas and parameters are those that an apiextensions server of the newest recorded release
publishes (`data/crd.json`, which `tools/crd_parts.py` makes).
What documents say of the server: k8s.io/apiserver pkg/endpoints/discovery/legacy.go.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import orjson
from apidiscovery_formats.openapi.pointers import SCHEMAS
from apidiscovery_releases import newest

from apidiscovery_service.core.model import GroupVersionKind
from apidiscovery_service.kube import go_json
from apidiscovery_service.openapi.json_text import Fragment
from apidiscovery_service.openapi.references import reached, references_in

META = "io.k8s.apimachinery.pkg.apis.meta.v1."
AUTOSCALING = "io.k8s.api.autoscaling.v1."
STATUS = f"{META}Status"
DELETE_OPTIONS = f"{META}DeleteOptions"
OBJECT_META = f"{META}ObjectMeta"
LIST_META = f"{META}ListMeta"
PATCH = f"{META}Patch"
SCALE = f"{AUTOSCALING}Scale"

_ROOTS = (STATUS, DELETE_OPTIONS, OBJECT_META, LIST_META, PATCH)
_CONVENTIONS = (
    "More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md"
)


@cache
def components(*, scale: bool) -> Mapping[str, bytes]:
    """Return the JSON of the schemas that the operations of a CustomResourceDefinition use.

    Args:
        scale: Whether there are operations on scale.
    """
    schemas = _schemas()
    roots = (*_ROOTS, SCALE) if scale else _ROOTS
    edges = {
        name: {reference.removeprefix(SCHEMAS) for reference in references_in(schema)}
        for name, schema in schemas.items()
    }
    names = sorted(reached(roots, edges))
    return {name: go_json.dumps(schemas[name]) for name in names}


@cache
def parameters() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    """Return the parameters of operations by action, and `pretty` and `namespace` by their names.

    Each has `name` and `in`; they are sorted by these.
    """
    found = cast("dict[str, list[dict[str, Any]]]", _data()["parameters"])
    return {action: tuple(several) for action, several in found.items()}


@cache
def type_meta() -> Mapping[str, Fragment]:
    """Return the schemas of the fields `apiVersion` and `kind` of an object."""
    fields = _schemas()[STATUS]["properties"]
    return {name: Fragment(go_json.dumps(fields[name])) for name in ("apiVersion", "kind")}


def kinds_extension(kind: GroupVersionKind) -> dict[str, object]:
    """Return the extension by which a schema states its kind: a map in Go, and so sorted."""
    named = {"group": kind.group, "kind": kind.kind, "version": kind.version}
    return {"x-kubernetes-group-version-kind": [named]}


@cache
def embedded_meta() -> Mapping[str, Fragment]:
    """Return the schemas of `apiVersion`, `kind` and `metadata` of an object within an object.

    Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:addEmbeddedProperties.
    """
    return {
        "apiVersion": _text(
            "apiVersion defines the versioned schema of this representation of an object. "
            f"{_CONVENTIONS}#resources"
        ),
        "kind": _text(
            "kind is a string value representing the type of this object. In CamelCase. "
            f"{_CONVENTIONS}#types-kinds"
        ),
        "metadata": object_meta(),
    }


@cache
def object_meta() -> Fragment:
    """Return the schema of the field `metadata` of an object."""
    return _described(f"Standard object's metadata. {_CONVENTIONS}#metadata", OBJECT_META)


def list_schema(list_kind: str, kind: str, plural: str, model: str) -> dict[str, object]:
    """Return the schema of a list, but for its extensions.

    Args:
        list_kind: Such as `CronTabList`.
        kind: Such as `CronTab`.
        plural: Such as `crontabs`.
        model: The name of the schema of an item.
    """
    meta = type_meta()
    return {
        "description": f"{list_kind} is a list of {kind}",
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": meta["apiVersion"],
            "items": {
                "description": f"List of {plural}. {_CONVENTIONS}",
                "type": "array",
                "items": reference(model),
            },
            "kind": meta["kind"],
            "metadata": _described(
                f"Standard list metadata. {_CONVENTIONS}#types-kinds", LIST_META
            ),
        },
    }


def reference(model: str) -> dict[str, object]:
    """Return a reference to a schema of the document by its name."""
    return {"$ref": SCHEMAS + model}


def without_empty_defaults(schema: object) -> object:
    """Return a schema without the defaults `{}` that are invalid by their own schema.

    Kubernetes publishes them for every struct that is not a pointer, even with required fields;
    clients that validate documents refuse them.
    """
    if isinstance(schema, dict):
        members = cast("dict[str, object]", schema)
        return {
            name: without_empty_defaults(member)
            for name, member in members.items()
            if not (name == "default" and member == {} and "allOf" in members)
        }
    if isinstance(schema, list):
        return [without_empty_defaults(item) for item in cast("list[object]", schema)]
    return schema


def _described(description: str, model: str) -> Fragment:
    """Return a reference with a description, which a `$ref` may not have beside it.

    Source: kube-openapi pkg/builder3/util/util.go:WrapRefs.
    """
    return Fragment(go_json.dumps({"description": description, "allOf": [reference(model)]}))


def _text(description: str) -> Fragment:
    return Fragment(go_json.dumps({"description": description, "type": "string"}))


@cache
def _data() -> dict[str, Any]:
    text = files("apidiscovery_service.openapi").joinpath("data/crd.json").read_bytes()
    return cast("dict[str, Any]", orjson.loads(text))


def _schemas() -> dict[str, dict[str, Any]]:
    return cast("dict[str, dict[str, Any]]", _data()["schemas"])


INFO: Final = newest().openapi_info
SECURITY_SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}

_RESOURCE_LIST: Final = f"{META}APIResourceList"
_ENCODINGS: Final = (
    "application/json",
    "application/vnd.kubernetes.protobuf",
    "application/yaml",
)


def resource_list(tag: str, operation_id: str) -> dict[str, object]:
    """Return the path item of a group-version itself, which lists its resources."""
    content = {media_type: {"schema": reference(_RESOURCE_LIST)} for media_type in _ENCODINGS}
    get = {
        "tags": [tag],
        "description": "get available resources",
        "operationId": operation_id,
        "responses": {
            "200": {"description": "OK", "content": content},
            "401": {"description": "Unauthorized"},
        },
    }
    return {"get": get}


@cache
def list_schemas() -> Mapping[str, Fragment]:
    """Return the schemas of a list of resources, by name."""
    document: Any = orjson.loads(newest().openapi_v3("apis/apps/v1"))
    found = document["components"]["schemas"]
    return {
        name: Fragment(go_json.dumps(without_empty_defaults(found[name])))
        for name in (_RESOURCE_LIST, f"{META}APIResource")
    }
