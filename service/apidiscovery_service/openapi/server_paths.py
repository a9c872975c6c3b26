"""What documents say of the server itself: who it is, and the list of resources of a group-version.

Source: k8s.io/apiserver pkg/endpoints/discovery/legacy.go.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import orjson

from apidiscovery_service import releases
from apidiscovery_service.openapi import json_text
from apidiscovery_service.openapi.meta_components import META, reference, without_empty_defaults

INFO: Final[Mapping[str, str]] = {"title": "Kubernetes", "version": releases.RELEASE}
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
def list_schemas() -> Mapping[str, json_text.Fragment]:
    """Return the schemas of a list of resources, by name."""
    document: Any = orjson.loads(releases.openapi_document("apis/apps/v1"))
    found = document["components"]["schemas"]
    return {
        name: json_text.Fragment(json_text.dumps(without_empty_defaults(found[name])))
        for name in (_RESOURCE_LIST, f"{META}APIResource")
    }
