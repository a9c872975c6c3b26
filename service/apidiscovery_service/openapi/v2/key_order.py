"""The order in which the fields of an OpenAPI object are written.

It is that of the Go structs (kube-openapi `pkg/spec3` and `pkg/validation/spec`), then other fields
by name. Maps are sorted.
"""

from collections.abc import Mapping
from typing import Final

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.openapi.v2.fields import Object


class KeyOrder(dict[str, str]):
    """Maps each field's name to a text by which the names are sorted."""

    def __init__(self, *names: str) -> None:
        super().__init__({name: chr(place) for place, name in enumerate(names)})

    def __missing__(self, name: str) -> str:
        """Return a key that sorts after all named fields; there are fewer than 126."""
        return "~" + name

    def names(self, fields: Mapping[str, JSONValue]) -> list[str]:
        """Return the names of fields in order."""
        return sorted(fields, key=self.__getitem__)

    def arranged(self, fields: Mapping[str, JSONValue]) -> Object:
        """Return the fields in order."""
        return {name: fields[name] for name in self.names(fields)}


METHODS: Final = ("get", "put", "post", "delete", "options", "head", "patch")

SCHEMA: Final = KeyOrder(
    *("id", "description", "type", "nullable", "format", "title", "default"),
    *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength"),
    *("pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "maxProperties"),
    *("minProperties", "required", "items", "allOf", "oneOf", "anyOf", "not", "properties"),
    *("additionalProperties", "patternProperties", "dependencies", "additionalItems"),
    *("definitions", "discriminator", "readOnly", "externalDocs", "example", "$schema", "$ref"),
)
INFO: Final = KeyOrder(
    *("description", "title", "termsOfService", "contact", "license", "version"),
)
PATH_ITEM: Final = KeyOrder("$ref", "summary", "description", *METHODS, "parameters")
RESPONSES: Final = KeyOrder("default")

V3_OPERATION: Final = KeyOrder(
    *("tags", "summary", "description", "externalDocs", "operationId", "parameters"),
    *("requestBody", "responses", "deprecated", "security"),
)
V3_PARAMETER: Final = KeyOrder(
    *("$ref", "name", "in", "description", "required", "allowEmptyValue", "style", "explode"),
    "schema",
)
V3_SECURITY_SCHEME: Final = KeyOrder("type", "description", "name", "in", "scheme", "flows")

V2_OPERATION: Final = KeyOrder(
    *("description", "consumes", "produces", "tags", "summary", "externalDocs", "operationId"),
    *("deprecated", "security", "parameters", "responses"),
)
V2_PARAMETER: Final = KeyOrder(
    *("maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum", "maxLength", "minLength"),
    *("pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "enum", "type", "format"),
    *("items", "collectionFormat", "default", "description", "name", "in", "required", "schema"),
    *("allowEmptyValue", "$ref"),
)
V2_SECURITY_SCHEME: Final = KeyOrder(
    *("description", "type", "name", "in", "flow", "authorizationUrl", "tokenUrl", "scopes"),
)
