"""The documents of the paths that belong to no version: `/api`, `/apis`, `/apis/GROUP`, `/version`.

Sources: k8s.io/apiserver pkg/endpoints/discovery/legacy.go, root.go, group.go and
pkg/server/routes/version.go, as kubernetes/kubernetes api/openapi-spec/v3 has them.
"""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final, cast

import orjson

from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.meta_components import META, reference
from apidiscovery_service.openapi.operation_ids import camel

INFO: Final[Mapping[str, str]] = {"title": "Kubernetes", "version": "unversioned"}
SECURITY_SCHEMES: Final[Mapping[str, Mapping[str, str]]] = {
    "BearerToken": {
        "type": "apiKey",
        "description": "Bearer Token authentication",
        "name": "authorization",
        "in": "header",
    }
}

RESOURCE_LIST: Final = f"{META}APIResourceList"

_JSON: Final = ("application/json",)
_ENCODINGS: Final = (*_JSON, "application/vnd.kubernetes.protobuf", "application/yaml")
_ADDRESS: Final = f"{META}ServerAddressByClientCIDR"
_GROUP_SCHEMAS: Final = (f"{META}APIGroup", f"{META}GroupVersionForDiscovery", _ADDRESS)
_VERSION: Final = "io.k8s.apimachinery.pkg.version.Info"


@cache
def api_document() -> bytes:
    """Return the document of `/api`."""
    schemas = (f"{META}APIVersions", _ADDRESS)
    get = _get("core", "get available API versions", "getCoreAPIVersions", schemas[0])
    return _document("/api/", get, schemas)


@cache
def apis_document() -> bytes:
    """Return the document of `/apis`."""
    schemas = (f"{META}APIGroupList", *_GROUP_SCHEMAS)
    get = _get("apis", "get available API versions", "getAPIVersions", schemas[0])
    return _document("/apis/", get, schemas)


def group_document(group: str) -> bytes:
    """Return the document of `/apis/GROUP`."""
    short = group.removesuffix(".k8s.io")
    operation_id = f"get{camel(short, capital=True)}APIGroup"
    tag = camel(short, capital=False)
    get = _get(tag, "get information of a group", operation_id, _GROUP_SCHEMAS[0])
    return _document(f"/apis/{group}/", get, _GROUP_SCHEMAS)


@cache
def version_document() -> bytes:
    """Return the document of `/version`."""
    what = "get the version information for this server"
    get = _get("version", what, "getCodeVersion", _VERSION, _JSON)
    return _document("/version/", get, (_VERSION,))


def resource_list(tag: str, operation_id: str) -> dict[str, object]:
    """Return the path item of a group-version itself, which lists its resources."""
    return {"get": _get(tag, "get available resources", operation_id, RESOURCE_LIST)}


@cache
def schemas() -> Mapping[str, json_text.Fragment]:
    """Return the schemas of what the server says of itself, by name."""
    text = files("apidiscovery_service.openapi") / "data" / "server_components.json"
    found = cast("dict[str, Any]", orjson.loads(text.read_bytes()))
    return {name: json_text.Fragment(json_text.dumps(found[name])) for name in found}


def _get(
    tag: str, description: str, operation_id: str, model: str, types: tuple[str, ...] = _ENCODINGS
) -> dict[str, object]:
    content = {media_type: {"schema": reference(model)} for media_type in types}
    return {
        "tags": [tag],
        "description": description,
        "operationId": operation_id,
        "responses": {
            "200": {"description": "OK", "content": content},
            "401": {"description": "Unauthorized"},
        },
    }


def _document(path: str, get: dict[str, object], names: tuple[str, ...]) -> bytes:
    return json_text.dumps(
        {
            "openapi": "3.0.0",
            "info": INFO,
            "paths": {path: {"get": get}},
            "components": {
                "schemas": {name: schemas()[name] for name in sorted(names)},
                "securitySchemes": SECURITY_SCHEMES,
            },
        }
    )
