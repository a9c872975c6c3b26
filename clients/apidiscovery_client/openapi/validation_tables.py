"""What the objects of OpenAPI 3.0 consist of.

Source: OpenAPI Specification 3.0.4, section 4.8. A type is a JSON type, the name of an object, a
name after `&` where a reference may stand instead, a type in `[]` for an array and in `{}` for an
object of names; alternatives are separated by `|`. A field that must be there ends in `!`.
"""

from collections.abc import Mapping
from typing import NamedTuple


class ObjectType(NamedTuple):
    """The fields of an object.

    Attributes:
        fields: The type of each.
        required: Those that must be there.
        other: The type of fields that are not listed, such as the paths; empty: there are none.
    """

    fields: Mapping[str, str]
    required: frozenset[str]
    other: str = ""


def _object(text: str, other: str = "") -> ObjectType:
    pairs = [entry.split(": ") for entry in text.split(", ")] if text else []
    return ObjectType(
        {name.removesuffix("!"): kind for name, kind in pairs},
        frozenset(name[:-1] for name, _ in pairs if name.endswith("!")),
        other,
    )


_PARAMETER = (
    "description: string, required: boolean, deprecated: boolean, allowEmptyValue: boolean, "
    "style: string, explode: boolean, allowReserved: boolean, schema: &Schema, example: any, "
    "examples: {&Example}, content: {MediaType}"
)

OBJECTS: Mapping[str, ObjectType] = {
    "OpenAPI": _object(
        "openapi!: string, info!: Info, servers: [Server], paths!: Paths, components: Components, "
        "security: [SecurityRequirement], tags: [Tag], externalDocs: ExternalDocumentation"
    ),
    "Info": _object(
        "title!: string, description: string, termsOfService: string, contact: Contact, "
        "license: License, version!: string"
    ),
    "Contact": _object("name: string, url: string, email: string"),
    "License": _object("name!: string, url: string"),
    "Server": _object("url!: string, description: string, variables: {ServerVariable}"),
    "ServerVariable": _object("enum: [string], default!: string, description: string"),
    "Components": _object(
        "schemas: {&Schema}, responses: {&Response}, parameters: {&Parameter}, "
        "examples: {&Example}, requestBodies: {&RequestBody}, headers: {&Header}, "
        "securitySchemes: {&SecurityScheme}, links: {&Link}, callbacks: {&Callback}"
    ),
    "Paths": _object("", "PathItem"),
    "PathItem": _object(
        "$ref: string, summary: string, description: string, get: Operation, put: Operation, "
        "post: Operation, delete: Operation, options: Operation, head: Operation, "
        "patch: Operation, trace: Operation, servers: [Server], parameters: [&Parameter]"
    ),
    "Operation": _object(
        "tags: [string], summary: string, description: string, "
        "externalDocs: ExternalDocumentation, operationId: string, parameters: [&Parameter], "
        "requestBody: &RequestBody, responses!: Responses, callbacks: {&Callback}, "
        "deprecated: boolean, security: [SecurityRequirement], servers: [Server]"
    ),
    "ExternalDocumentation": _object("description: string, url!: string"),
    "Parameter": _object(f"name!: string, in!: string, {_PARAMETER}"),
    "Header": _object(_PARAMETER),
    "RequestBody": _object("description: string, content!: {MediaType}, required: boolean"),
    "MediaType": _object(
        "schema: &Schema, example: any, examples: {&Example}, encoding: {Encoding}"
    ),
    "Encoding": _object(
        "contentType: string, headers: {&Header}, style: string, explode: boolean, "
        "allowReserved: boolean"
    ),
    "Responses": _object("", "&Response"),
    "Response": _object(
        "description!: string, headers: {&Header}, content: {MediaType}, links: {&Link}"
    ),
    "Callback": _object("", "PathItem"),
    "Example": _object("summary: string, description: string, value: any, externalValue: string"),
    "Link": _object(
        "operationRef: string, operationId: string, parameters: {any}, requestBody: any, "
        "description: string, server: Server"
    ),
    "Tag": _object("name!: string, description: string, externalDocs: ExternalDocumentation"),
    "Schema": _object(
        "title: string, multipleOf: number, maximum: number, exclusiveMaximum: boolean, "
        "minimum: number, exclusiveMinimum: boolean, maxLength: count, minLength: count, "
        "pattern: string, maxItems: count, minItems: count, uniqueItems: boolean, "
        "maxProperties: count, minProperties: count, required: [string], enum: [any], "
        "type: string, allOf: [&Schema], oneOf: [&Schema], anyOf: [&Schema], not: &Schema, "
        "items: &Schema, properties: {&Schema}, additionalProperties: boolean|&Schema, "
        "description: string, format: string, default: any, nullable: boolean, "
        "discriminator: Discriminator, readOnly: boolean, writeOnly: boolean, xml: XML, "
        "externalDocs: ExternalDocumentation, example: any, deprecated: boolean"
    ),
    "Discriminator": _object("propertyName!: string, mapping: {string}"),
    "XML": _object(
        "name: string, namespace: string, prefix: string, attribute: boolean, wrapped: boolean"
    ),
    "SecurityScheme": _object(
        "type!: string, description: string, name: string, in: string, scheme: string, "
        "bearerFormat: string, flows: OAuthFlows, openIdConnectUrl: string"
    ),
    "OAuthFlows": _object(
        "implicit: OAuthFlow, password: OAuthFlow, clientCredentials: OAuthFlow, "
        "authorizationCode: OAuthFlow"
    ),
    "OAuthFlow": _object(
        "authorizationUrl: string, tokenUrl: string, refreshUrl: string, scopes!: {string}"
    ),
    "SecurityRequirement": _object("", "[string]"),
}

# Fields that one object of a kind needs beside others: by the value of a field, what must be there.
REQUIRED_WITH: Mapping[str, tuple[str, Mapping[str, tuple[str, ...]]]] = {
    "SecurityScheme": (
        "type",
        {
            "apiKey": ("name", "in"),
            "http": ("scheme",),
            "oauth2": ("flows",),
            "openIdConnect": ("openIdConnectUrl",),
        },
    ),
    "Parameter": ("in", {"query": (), "header": (), "path": ("required",), "cookie": ()}),
    "Schema": (
        "type",
        {
            "array": ("items",),
            "boolean": (),
            "integer": (),
            "number": (),
            "object": (),
            "string": (),
        },
    ),
}

# The kind of component that an object may refer to, and where it is kept.
COMPONENT_OF: Mapping[str, str] = {
    "Schema": "schemas",
    "Response": "responses",
    "Parameter": "parameters",
    "Example": "examples",
    "RequestBody": "requestBodies",
    "Header": "headers",
    "SecurityScheme": "securitySchemes",
    "Link": "links",
    "Callback": "callbacks",
}

# Pairs of fields of which at most one may be there.
EXCLUSIVE: Mapping[str, tuple[str, str]] = {
    "Parameter": ("schema", "content"),
    "Header": ("schema", "content"),
    "MediaType": ("example", "examples"),
    "Example": ("value", "externalValue"),
    "Link": ("operationRef", "operationId"),
}
