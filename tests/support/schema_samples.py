"""Definitions and documents with schemas, and servers and sources of both."""

import json
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import yaml
from apidiscovery_client.manifests import read_manifests
from apidiscovery_client.model import GroupVersion
from apidiscovery_client.schemas import Components, GivenSchemas, schemas_of_manifests
from fake_api_server import (
    NOT_FOUND,
    Answer,
    Request,
    Respond,
    Routes,
    aggregated,
    document,
    openapi_routes,
    status,
)

Json = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"


def widget(
    spec: Mapping[str, object],
    *,
    kind: str = "Widget",
    group: str = "example.com",
    versions: Sequence[str] = ("v1",),
    **more: object,
) -> Json:
    """Return a definition whose `spec` has these properties, in each version.

    Args:
        spec: Schemas by name; `required` is a list of names.
        kind: Of the objects.
        group: Of the kind.
        versions: The first is stored.
        more: Fields of each version.
    """
    properties = {name: value for name, value in spec.items() if name != "required"}
    schema: Json = {"type": "object", "properties": properties}
    if "required" in spec:
        schema["required"] = spec["required"]
    whole = {"type": "object", "properties": {"spec": schema, "status": {"type": "object"}}}
    plural = f"{kind.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": version == versions[0],
                    "schema": {"openAPIV3Schema": whole},
                    **more,
                }
                for version in versions
            ],
        },
    }


def text_of(*objects: Mapping[str, object]) -> bytes:
    """Return manifests as YAML."""
    return yaml.safe_dump_all(objects, sort_keys=False).encode()


def files(*definitions: Mapping[str, object]) -> GivenSchemas:
    """Return definitions as a source."""
    return schemas_of_manifests(read_manifests(text_of(*definitions), "files"), "files")


def components(group: str, version: str, **specs: Mapping[str, object]) -> Json:
    """Return an OpenAPI document of kinds whose `spec` has these properties."""
    schemas: Json = {META: {"type": "object", "properties": {"name": {"type": "string"}}}}
    for kind, spec in specs.items():
        schemas[f"com.example.{version}.{kind}Spec"] = {"type": "object", "properties": dict(spec)}
        schemas[f"com.example.{version}.{kind}"] = {
            "type": "object",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": f"#/components/schemas/{META}"}]},
                "spec": {"$ref": f"#/components/schemas/com.example.{version}.{kind}Spec"},
                "status": {"type": "object"},
            },
            "x-kubernetes-group-version-kind": [{"group": group, "version": version, "kind": kind}],
        }
    return {"openapi": "3.0.0", "components": {"schemas": schemas}}


def documents(
    name: str, failures: Mapping[str, str] | None = None, **found: Mapping[str, object]
) -> GivenSchemas:
    """Return a whole source of documents of `example.com`, by version."""
    return GivenSchemas(
        name,
        {},
        {
            GroupVersion("example.com", version): Components.of(dict(one))
            for version, one in found.items()
        },
        {GroupVersion("example.com", version): why for version, why in (failures or {}).items()},
    )


def served(
    openapi: Mapping[str, Mapping[str, object]],
    definitions: Sequence[Mapping[str, object]] | None = None,
    groups: Sequence[object] = (),
    broken: Routes | None = None,
) -> Respond:
    """Return the answers of a server.

    Args:
        openapi: Documents by key, such as `apis/example.com/v1`.
        definitions: Listed in pages of one; None where the list is forbidden.
        groups: Of the aggregated document.
        broken: Other answers, by path.
    """
    bodies = {key: json.dumps(one).encode() for key, one in openapi.items()}
    routes: Routes = {
        "/api": aggregated(),
        "/apis": aggregated(*groups),
        **openapi_routes(bodies),
        **(broken or {}),
    }

    def respond(request: Request) -> Answer:
        if request.path != DEFINITIONS:
            return routes.get(request.path, NOT_FOUND)
        if definitions is None:
            return status(403, "Forbidden", "you may not list definitions")
        place = int(parse_qs(request.query).get("continue", ["0"])[0])
        rest = str(place + 1) if place + 1 < len(definitions) else ""
        return document(
            {"metadata": {"continue": rest}, "items": list(definitions[place : place + 1])}
        )

    return respond
