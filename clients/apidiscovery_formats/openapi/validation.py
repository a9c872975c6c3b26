"""Validates OpenAPI 3.0 documents: the fields of each object, and what they may be.

Source: OpenAPI Specification 3.0.4, section 4.7, in its order from the outermost in. Unknown fields
are allowed where they begin with `x-`, and refused otherwise, as gnostic does: its protobuf
messages would silently drop them. Schemas also have the fields of JSON Schema in Kubernetes' Go
types. Regular expressions in documents are not compiled.
"""

import re
from contextlib import suppress
from typing import cast

from apidiscovery_formats.go_json import JSONValue
from apidiscovery_formats.json_values import as_object
from apidiscovery_formats.openapi import rules
from apidiscovery_formats.openapi.pointers import Problem
from apidiscovery_formats.openapi.shapes import (
    ANY,
    BOOLEAN,
    COUNT,
    NUMBER,
    PATTERN,
    POSITIVE,
    STRING,
    LimitReachedError,
    ListOf,
    MapOf,
    NotPublished,
    OrBoolean,
    Record,
    Run,
    Shape,
    choice,
    matching,
)

_COMPONENT_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_STATUS_CODE = re.compile(r"default|[1-5](?:[0-9][0-9]|XX)")
_PATH = re.compile(r"/.*", re.DOTALL)

_STRINGS = ListOf(STRING)
_STRING_MAP = MapOf(STRING)
_VERSION = matching(re.compile(r"3\.0\.[0-9]{1,9}(?:-[0-9A-Za-z.-]{1,100})?"), "3.0.x")

EXTERNAL_DOCS = Record({"description": STRING, "url": STRING}, ("url",))
CONTACT = Record({"name": STRING, "url": STRING, "email": STRING})
LICENSE = Record({"name": STRING, "url": STRING}, ("name",))
INFO = Record(
    {
        "title": STRING,
        "description": STRING,
        "termsOfService": STRING,
        "contact": CONTACT,
        "license": LICENSE,
        "version": STRING,
    },
    ("title", "version"),
)
SERVER_VARIABLE = Record({"enum": _STRINGS, "default": STRING, "description": STRING}, ("default",))
SERVER = Record(
    {"url": STRING, "description": STRING, "variables": MapOf(SERVER_VARIABLE)}, ("url",)
)
_SERVERS = ListOf(SERVER)
TAG = Record({"name": STRING, "description": STRING, "externalDocs": EXTERNAL_DOCS}, ("name",))
SECURITY_REQUIREMENT = MapOf(_STRINGS, rule=rules.security_requirement)
_SECURITY = ListOf(SECURITY_REQUIREMENT)

# Schemas.

SCHEMA = Record(section="schemas", rule=rules.schema)
_SCHEMAS = ListOf(SCHEMA)
DISCRIMINATOR = Record(
    {"propertyName": STRING, "mapping": _STRING_MAP}, ("propertyName",), rule=rules.discriminator
)
XML = Record(
    {
        "name": STRING,
        "namespace": STRING,
        "prefix": STRING,
        "attribute": BOOLEAN,
        "wrapped": BOOLEAN,
    }
)
_TYPE = choice("array", "boolean", "integer", "number", "object", "string")
SCHEMA.fields |= {
    "title": STRING,
    "multipleOf": POSITIVE,
    "maximum": NUMBER,
    "exclusiveMaximum": BOOLEAN,
    "minimum": NUMBER,
    "exclusiveMinimum": BOOLEAN,
    "maxLength": COUNT,
    "minLength": COUNT,
    "pattern": PATTERN,
    "maxItems": COUNT,
    "minItems": COUNT,
    "uniqueItems": BOOLEAN,
    "maxProperties": COUNT,
    "minProperties": COUNT,
    "required": ListOf(STRING, unique=True),
    "enum": ListOf(ANY),
    "type": _TYPE,
    "allOf": _SCHEMAS,
    "oneOf": _SCHEMAS,
    "anyOf": _SCHEMAS,
    "not": SCHEMA,
    "items": SCHEMA,
    "properties": MapOf(SCHEMA),
    "additionalProperties": OrBoolean(SCHEMA),
    "description": STRING,
    "format": STRING,
    "default": ANY,
    "nullable": BOOLEAN,
    "discriminator": DISCRIMINATOR,
    "readOnly": BOOLEAN,
    "writeOnly": BOOLEAN,
    "xml": XML,
    "externalDocs": EXTERNAL_DOCS,
    "example": ANY,
    "deprecated": BOOLEAN,
}
# Source: k8s.io/kube-openapi pkg/validation/spec/schema.go: SchemaProps.
SCHEMA.fields |= {
    "id": STRING,
    "$schema": STRING,
    "patternProperties": MapOf(SCHEMA),
    "additionalItems": OrBoolean(SCHEMA),
    "dependencies": ANY,
    "definitions": MapOf(SCHEMA),
}

# Parameters and bodies.

EXAMPLE = Record(
    {"summary": STRING, "description": STRING, "value": ANY, "externalValue": STRING},
    section="examples",
    rule=rules.example,
)
MEDIA_TYPE = Record(rule=rules.example_or_examples)
_CONTENT = MapOf(MEDIA_TYPE)
_OF_VALUES: dict[str, Shape] = {
    "description": STRING,
    "required": BOOLEAN,
    "deprecated": BOOLEAN,
    "allowEmptyValue": BOOLEAN,
    "explode": BOOLEAN,
    "allowReserved": BOOLEAN,
    "schema": SCHEMA,
    "example": ANY,
    "examples": MapOf(EXAMPLE),
    "content": _CONTENT,
}
_STYLE = choice(
    "matrix", "label", "simple", "form", "spaceDelimited", "pipeDelimited", "deepObject"
)
HEADER = Record({**_OF_VALUES, "style": choice("simple")}, section="headers", rule=rules.header)
PARAMETER = Record(
    {
        "name": STRING,
        "in": choice("query", "header", "path", "cookie"),
        **_OF_VALUES,
        "style": _STYLE,
    },
    ("name", "in"),
    section="parameters",
    rule=rules.parameter,
)
_PARAMETERS = ListOf(PARAMETER)
ENCODING = Record(
    {
        "contentType": STRING,
        "headers": MapOf(HEADER),
        "style": _STYLE,
        "explode": BOOLEAN,
        "allowReserved": BOOLEAN,
    }
)
MEDIA_TYPE.fields |= {
    "schema": SCHEMA,
    "example": ANY,
    "examples": MapOf(EXAMPLE),
    "encoding": MapOf(ENCODING),
}
REQUEST_BODY = Record(
    {"description": STRING, "content": _CONTENT, "required": BOOLEAN},
    ("content",),
    section="requestBodies",
)
LINK = Record(
    {
        "operationRef": STRING,
        "operationId": STRING,
        "parameters": MapOf(ANY),
        "requestBody": ANY,
        "description": STRING,
        "server": SERVER,
    },
    section="links",
    rule=rules.link,
)
RESPONSE = Record(
    {
        "description": STRING,
        "headers": MapOf(HEADER),
        "content": _CONTENT,
        "links": MapOf(LINK),
    },
    ("description",),
    section="responses",
)
RESPONSES = MapOf(
    RESPONSE,
    _STATUS_CODE,
    "a status code, such as 200 or 2XX, or default",
    extensions=True,
    rule=rules.responses,
)

# Paths.

OPERATION = Record(required=("responses",), rule=rules.operation)
_OF_PATHS: dict[str, Shape] = {
    "$ref": NotPublished(STRING, "a path has to be described in its place"),
    "summary": STRING,
    "description": STRING,
    **dict.fromkeys(rules.METHODS, OPERATION),
    "servers": _SERVERS,
    "parameters": _PARAMETERS,
}
PATH_ITEM = Record(dict(_OF_PATHS), rule=rules.path_item)
PATHS = MapOf(
    PATH_ITEM, _PATH, "a path that begins with /", extensions=True, rule=rules.distinct_paths
)
CALLBACK = MapOf(Record(dict(_OF_PATHS)), extensions=True, section="callbacks")
OPERATION.fields |= {
    "tags": _STRINGS,
    "summary": STRING,
    "description": STRING,
    "externalDocs": EXTERNAL_DOCS,
    "operationId": STRING,
    "parameters": _PARAMETERS,
    "requestBody": REQUEST_BODY,
    "responses": RESPONSES,
    "callbacks": MapOf(CALLBACK),
    "deprecated": BOOLEAN,
    "security": _SECURITY,
    "servers": _SERVERS,
}

# Components and the document.

_OAUTH_FLOW: dict[str, Shape] = {"refreshUrl": STRING, "scopes": _STRING_MAP}
_AUTHORIZED: dict[str, Shape] = {**_OAUTH_FLOW, "authorizationUrl": STRING}
_TOKENS: dict[str, Shape] = {**_OAUTH_FLOW, "tokenUrl": STRING}
OAUTH_FLOWS = Record(
    {
        "implicit": Record(dict(_AUTHORIZED), ("authorizationUrl", "scopes")),
        "password": Record(dict(_TOKENS), ("tokenUrl", "scopes")),
        "clientCredentials": Record(dict(_TOKENS), ("tokenUrl", "scopes")),
        "authorizationCode": Record(
            {**_AUTHORIZED, **_TOKENS}, ("authorizationUrl", "tokenUrl", "scopes")
        ),
    }
)
SECURITY_SCHEME = Record(
    {
        "type": choice("apiKey", "http", "oauth2", "openIdConnect"),
        "description": STRING,
        "name": STRING,
        "in": choice("query", "header", "cookie"),
        "scheme": STRING,
        "bearerFormat": STRING,
        "flows": OAUTH_FLOWS,
        "openIdConnectUrl": STRING,
    },
    ("type",),
    section="securitySchemes",
    rule=rules.security_scheme,
)


def _section(shape: Shape) -> MapOf:
    wanted = "letters, digits, '.', '_' and '-'"
    return MapOf(shape, _COMPONENT_NAME, wanted)


COMPONENTS = Record(
    {
        "schemas": _section(SCHEMA),
        "responses": _section(RESPONSE),
        "parameters": _section(PARAMETER),
        "examples": _section(EXAMPLE),
        "requestBodies": _section(REQUEST_BODY),
        "headers": _section(HEADER),
        "securitySchemes": _section(SECURITY_SCHEME),
        "links": _section(LINK),
        "callbacks": _section(CALLBACK),
    }
)
DOCUMENT = Record(
    {
        "openapi": _VERSION,
        "info": INFO,
        "servers": _SERVERS,
        "paths": PATHS,
        "components": COMPONENTS,
        "security": _SECURITY,
        "tags": ListOf(TAG),
        "externalDocs": EXTERNAL_DOCS,
    },
    ("openapi", "info", "paths"),
    rule=rules.document,
)


def problems(document: object, *, most: int, published: bool = False) -> list[Problem]:
    """Return the errors in a document, in its order.

    Args:
        document: A parsed JSON value. Its depth must be bounded: validation recurses.
        most: Stop after so many errors.
        published: Whether a server is to publish it. It must then describe every path in place and
            refer to components only, as Kubernetes' clients follow nothing else. Empty lists of
            schemas and responses are allowed, as they harm nobody.
    """
    run = Run(as_object(document), most, published=published)
    with suppress(LimitReachedError):
        DOCUMENT.check(cast("JSONValue", document), None, run)
    return run.problems
