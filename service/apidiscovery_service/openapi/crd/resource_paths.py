"""The paths of a CustomResourceDefinition: what one may do with its objects, and with what.

Source: apiextensions-apiserver pkg/controller/openapi/builder/builder.go:generateBuilder and
buildRoute; kube-openapi pkg/builder3/openapi.go (parameters, bodies, responses).
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from apidiscovery_service.openapi import json_text, meta_components, operation_ids
from apidiscovery_service.openapi.meta_components import DELETE_OPTIONS, PATCH, SCALE, STATUS

_JSON_AND_YAML = ("application/json", "application/yaml")
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_UNAUTHORIZED = {"description": "Unauthorized"}
_DESCRIPTIONS = {"200": "OK", "201": "Created", "202": "Accepted"}


@dataclass(frozen=True, slots=True)
class _Route:
    """One operation of a path.

    Attributes:
        method: Its field in the path item.
        action: `x-kubernetes-action`.
        verb: What its operationId and description begin with.
        codes: Of the answers that have a body.
    """

    method: str
    action: str
    verb: str
    codes: tuple[str, ...] = ("200",)


_LIST = _Route("get", "list", "list")
_READ = _Route("get", "get", "read")
_REPLACE = _Route("put", "put", "replace", ("200", "201"))
_PATCH = _Route("patch", "patch", "patch")
# Within each, in the order of the fields of a path item: kube-openapi pkg/spec3/path.go:PathProps.
_COLLECTION = (
    _LIST,
    _Route("post", "post", "create", ("200", "201", "202")),
    _Route("delete", "deletecollection", "deletecollection"),
)
_ITEM = (_READ, _REPLACE, _Route("delete", "delete", "delete", ("200", "202")), _PATCH)
_SUBRESOURCE = (_READ, _REPLACE, _PATCH)


@dataclass(frozen=True, slots=True)
class Resource:
    """What the paths of one CustomResourceDefinition in one version depend on.

    Attributes:
        group: Such as `stable.example.com`.
        version: Such as `v1`.
        plural: Such as `crontabs`.
        kind: Such as `CronTab`.
        model: Name of the kind's schema.
        list_model: Name of the list's schema.
        namespaced: Whether its objects are in namespaces.
        subresources: `status`, `scale`, both or none.
    """

    group: str
    version: str
    plural: str
    kind: str
    model: str
    list_model: str
    namespaced: bool
    subresources: tuple[str, ...]


def paths(resource: Resource) -> Iterator[tuple[str, bytes]]:
    """Yield each path with the JSON of its path item, in no particular order."""
    base = f"/apis/{resource.group}/{resource.version}"
    root = f"{base}/{resource.plural}"
    if resource.namespaced:
        yield root, _path_item(resource, (_LIST,), (), everywhere=True)
        root = f"{base}/namespaces/{{namespace}}/{resource.plural}"
    namespace = ("namespace",) if resource.namespaced else ()
    yield root, _path_item(resource, _COLLECTION, namespace)
    named = ("name", *namespace)
    yield f"{root}/{{name}}", _path_item(resource, _ITEM, named)
    for name in resource.subresources:
        yield f"{root}/{{name}}/{name}", _path_item(resource, _SUBRESOURCE, named, name)


def _path_item(
    resource: Resource,
    routes: tuple[_Route, ...],
    placeholders: tuple[str, ...],
    subresource: str = "",
    *,
    everywhere: bool = False,
) -> bytes:
    """Return the JSON of a path item.

    Args:
        resource: What the path belongs to.
        routes: Its operations, in the order of the path item's fields.
        placeholders: Those in the path, sorted.
        subresource: At the end of the path, or empty.
        everywhere: Whether the path is that of all namespaces.
    """
    common, own = _parameters(tuple(route.action for route in routes))
    item = {
        route.method: _operation(resource, route, own[route.action], subresource, everywhere)
        for route in routes
    }
    in_path = {name: _placeholder(name, resource.kind) for name in placeholders}
    return json_text.joined(item | {"parameters": _array({**in_path, **common})})


def _operation(
    resource: Resource,
    route: _Route,
    parameters: bytes,
    subresource: str,
    everywhere: bool,  # noqa: FBT001 - handed down in one place
) -> bytes:
    group, version, kind = resource.group, resource.version, resource.kind
    body = _body(resource, route, subresource)
    optional = {"parameters": parameters, "requestBody": body}
    operation = {
        "tags": [operation_ids.tag(group, version)],
        "description": operation_ids.description(route.verb, kind, subresource),
        "operationId": operation_ids.operation_id(
            _stem(resource, route.verb, subresource, everywhere), group, version
        ),
        **{name: value for name, value in optional.items() if value},
        "responses": _responses(route.codes, _answer(resource, route, subresource)),
        "x-kubernetes-action": route.action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    return json_text.joined(operation)


def _stem(
    resource: Resource,
    verb: str,
    subresource: str,
    everywhere: bool,  # noqa: FBT001 - handed down in one place
) -> str:
    if everywhere:
        return f"{verb}{resource.kind}ForAllNamespaces"
    scope = "Namespaced" if resource.namespaced else ""
    return f"{verb}{scope}{resource.kind}{subresource.title()}"


def _model(resource: Resource, subresource: str) -> str:
    """Return the name of the schema that is read and written at a path."""
    return SCALE if subresource == "scale" else resource.model


def _answer(resource: Resource, route: _Route, subresource: str) -> str:
    """Return the name of the schema of an operation's answer."""
    if route.method == "delete":
        return STATUS
    return resource.list_model if route is _LIST else _model(resource, subresource)


def _body(resource: Resource, route: _Route, subresource: str) -> dict[str, object] | None:
    match route.action:
        case "delete":
            return {"content": _content(_JSON_AND_YAML, DELETE_OPTIONS)}
        case "patch":
            return {"content": _content(_PATCHES, PATCH), "required": True}
        case "post" | "put":
            content = _content(_JSON_AND_YAML, _model(resource, subresource))
            return {"content": content, "required": True}
        case _:
            return None


def _content(media_types: Iterable[str], model: str) -> dict[str, object]:
    schema = {"schema": meta_components.reference(model)}
    return dict.fromkeys(media_types, schema)


def _responses(codes: Iterable[str], model: str) -> dict[str, object]:
    content = _content(_JSON_AND_YAML, model)
    answers: dict[str, object] = {
        code: {"description": _DESCRIPTIONS[code], "content": content} for code in codes
    }
    return {**answers, "401": _UNAUTHORIZED}


def _placeholder(name: str, kind: str) -> bytes:
    if name == "namespace":
        return _text(meta_components.parameters()["namespace"])["namespace"]
    parameter = {
        "name": name,
        "in": "path",
        "description": f"name of the {kind}",
        "required": True,
        "schema": {"type": "string", "uniqueItems": True},
    }
    return json_text.dumps(parameter)


@cache
def _parameters(actions: tuple[str, ...]) -> tuple[Mapping[str, bytes], Mapping[str, bytes]]:
    """Return the parameters that operations share by name, and the array of each action's others.

    What every operation of a path has stands at the path. An array is empty text when there are
    none.
    """
    known = meta_components.parameters()
    every = {action: _text((*known[action], *known["pretty"])) for action in actions}
    first = every[actions[0]]
    shared = {name for name in first if all(name in several for several in every.values())}
    own = {
        action: {name: text for name, text in several.items() if name not in shared}
        for action, several in every.items()
    }
    return {name: first[name] for name in shared}, {
        action: _array(several) if several else b"" for action, several in own.items()
    }


def _text(parameters: Iterable[Mapping[str, Any]]) -> dict[str, bytes]:
    """Return the JSON of parameters by name; no two of Kubernetes' have the same."""
    return {parameter["name"]: json_text.dumps(parameter) for parameter in parameters}


def _array(parameters: Mapping[str, bytes]) -> bytes:
    return b"[" + b",".join(parameters[name] for name in sorted(parameters)) + b"]"
