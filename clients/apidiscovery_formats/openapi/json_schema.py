"""Makes JSON Schemas (draft 7) of the kinds in a document, each in a file of its own.

Named as kubeconform looks for them: yannh/kubeconform pkg/registry/registry.go `schemaPath`,
`{{ .ResourceKind }}{{ .KindSuffix }}.json`, where of a group only the first label counts.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from apidiscovery_formats.openapi.pointers import escaped
from apidiscovery_formats.openapi.traversal import (
    KIND_KEY,
    Component,
    Fields,
    Object,
    as_list,
    as_object,
    components,
    is_list,
    is_object,
    references,
    rewritten,
)

DRAFT = "http://json-schema.org/draft-07/schema#"

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: tuple[Object, ...] = ({"type": "integer"}, {"type": "string"})
_NULL: Object = {"type": "null"}
_JUNCTORS = ("allOf", "anyOf", "oneOf", "not")
_DROPPED = frozenset({"discriminator", "example", "externalDocs", "nullable", "xml", "deprecated"})
_KUBERNETES = "io.k8s."  # what the names of Kubernetes' own types begin with
_TIMES = frozenset(
    f"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.{name}" for name in ("Time", "MicroTime")
)
# RE2 syntax that ECMA-262 (JSON Schema's dialect) lacks or interprets differently.
_ONLY_GO = re.compile(r"\(\?(?:[imsU-]+[:)]|P<)|\\[AzQEC]|\\p[A-Z]|\[\[:")
_BOUNDS = (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum"))


class NoSuchKind(LookupError):
    """A document has no schema of a kind; the text says so."""


@dataclass(frozen=True, slots=True, order=True)
class Kind:
    """A kind in a version of a group; the core group is empty."""

    group: str
    version: str
    name: str

    @property
    def api_version(self) -> str:
        """Return what objects of the kind have as their apiVersion."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def file_name(self, *, whole_group: bool = False) -> str:
        """Return the name of its file, such as `deployment-apps-v1.json`.

        With `whole_group`, that of kinds whose groups begin with the same label are different.
        """
        group = self.group if whole_group else self.group.partition(".")[0]
        return "-".join(filter(None, (self.name, group, self.version))).lower() + ".json"


def kinds(document: Fields) -> Iterator[Kind]:
    """Yield the kinds that a document has both operations and a schema for, and their lists.

    In the order of their names.
    """
    operated = {
        kind
        for item in as_object(document.get("paths")).values()
        for operation in as_object(item).values()
        if (kind := _kind(as_object(operation).get(KIND_KEY)))
    }
    lists = {replace(kind, name=f"{kind.name}List") for kind in operated}
    wanted = operated | lists
    schemas = components(document, "schemas").values()
    yield from sorted({kind for schema in schemas for kind in kinds_of(schema)} & wanted)


def json_schema(document: Fields, kind: Kind, *, strict: bool = False) -> Object:
    """Return the schema of a kind, with all that it refers to in `definitions`.

    Args:
        document: Of the kind's group-version.
        kind: One of `kinds`.
        strict: Refuse properties that are not listed, but where the API keeps them.

    Raises:
        NoSuchKind: The document has no such kind.
    """
    schemas = components(document, "schemas")
    for name in sorted(schemas):
        if kind in kinds_of(schemas[name]):
            break
    else:
        raise NoSuchKind(f"there is no schema of {kind.api_version} {kind.name}")
    root = _converted(name, schemas[name], strict=strict)
    definitions = {
        needed: _definition(needed, schemas[needed], strict=strict)
        for needed in sorted(_needed(schemas, name))
    }
    return {
        "$schema": DRAFT,
        "title": f"{kind.name} {kind.api_version}",
        **_naming(root, kind),
        **({"definitions": definitions} if definitions else {}),
    }


def _kind(value: object) -> Kind | None:
    fields = as_object(value)
    if not fields:
        return None
    return Kind(*(str(fields.get(key) or "") for key in ("group", "version", "kind")))


def kinds_of(schema: object) -> list[Kind]:
    """Return the kinds that a schema is of: none, one, or several."""
    values = as_list(as_object(schema).get(KIND_KEY))
    return [kind for kind in map(_kind, values) if kind]


def _needed(schemas: Fields, name: str) -> set[str]:
    """Return the schemas that one refers to, also through others; itself only if it does so."""
    needed: set[str] = set()
    pending = [name]
    while pending:
        for reference in references(schemas[pending.pop()]):
            component = Component.of(reference)
            if component and component.name in schemas and component.name not in needed:
                needed.add(component.name)
                pending.append(component.name)
    return needed


def _naming(root: Object, kind: Kind) -> Object:
    """Return the schema of a kind that no object of another kind fits."""
    properties = as_object(root.get("properties"))
    wanted = {"apiVersion": kind.api_version, "kind": kind.name}
    named = {
        key: {**as_object(properties.get(key)), "type": "string", "enum": [value]}
        for key, value in wanted.items()
    }
    return {**root, "properties": {**properties, **named}}


def _converted(name: str, schema: object, *, strict: bool) -> Object:
    """Return an OpenAPI schema, with the name of its component, as a JSON schema."""
    plain = rewritten(schema, _plain)
    if name.startswith(_KUBERNETES):
        plain = rewritten(plain, _with_null)
    return as_object(rewritten(plain, _closed) if strict else plain)


def _definition(name: str, schema: object, *, strict: bool) -> Object:
    converted = _converted(name, schema, strict=strict)
    return _admitting_null(converted) if name.startswith(_KUBERNETES) else converted


def _with_null(schema: Object) -> Object:
    """Return a schema whose optional properties may be null, as encoding/json reads them.

    In Kubernetes' own types null is as good as absent; programs in Go write `creationTimestamp:
    null`. Definitions admit null too (`_admitting_null`), so that errors in them are reported at
    their own place; null is ruled out at all other references.
    """
    result = dict(schema)
    for key in ("items", "additionalProperties"):
        if is_object(inner := schema.get(key)):
            result[key] = _not_null(inner)
    if is_object(properties := schema.get("properties")):
        required = as_list(schema.get("required"))
        result["properties"] = {
            name: _property(as_object(value), is_required=name in required)
            for name, value in properties.items()
        }
    return result


def _property(schema: Object, *, is_required: bool) -> Object:
    if not is_required:
        return _admitting_null(schema)
    # API servers write a time that is not set as null, such as the required eventTime of old
    # events. Source: k8s.io/apimachinery pkg/apis/meta/v1/micro_time.go `MarshalJSON`.
    return schema if _refers_to(schema, _TIMES) else _not_null(schema)


def _admitting_null(schema: Object) -> Object:
    if isinstance(schema.get("type"), str):
        return _nullable(schema)
    choices = as_list(schema.get("anyOf"))
    return {**schema, "anyOf": [*choices, dict(_NULL)]} if choices else schema


def _not_null(schema: Object) -> Object:
    if "$ref" in schema:  # nothing beside it would count
        return {"allOf": [schema], "not": dict(_NULL)}
    return {**schema, "not": dict(_NULL)} if _refers(schema.get("allOf")) else schema


def _plain(schema: Object) -> Object:
    """Return a schema, the schemas in it converted, with the words of JSON Schema."""
    if isinstance(reference := schema.get("$ref"), str):
        return {"$ref": _target(reference)}
    result = {
        key: value
        for key, value in schema.items()
        if key not in _DROPPED and not key.startswith("x-")
    }
    if _is_int_or_string(schema):
        result = _int_or_string(result)
    if isinstance(pattern := result.get("pattern"), str) and _ONLY_GO.search(pattern):
        del result["pattern"]  # an omitted pattern is safer than a wrong one
    if schema.get(_PRESERVE) is True:
        result.setdefault("additionalProperties", True)
    return _nullable(_bounded(result)) if schema.get("nullable") is True else _bounded(result)


def _target(reference: str) -> str:
    component = Component.of(reference)
    return f"#/definitions/{escaped(component.name)}" if component else reference


def _is_int_or_string(schema: Fields) -> bool:
    return (
        schema.get("x-kubernetes-int-or-string") is True or schema.get("format") == "int-or-string"
    )


def _int_or_string(schema: Object) -> Object:
    """Return a schema of integers and strings that keeps the other rules of a schema."""
    kept = {key: value for key, value in schema.items() if key not in ("type", "format", "oneOf")}
    said = kept.pop("anyOf", None)
    if is_list(said) and said != list(_INT_OR_STRING):
        kept["allOf"] = [*as_list(kept.get("allOf")), {"anyOf": said}]
    return {**kept, "anyOf": [dict(choice) for choice in _INT_OR_STRING]}


def _bounded(schema: Object) -> Object:
    """Return a schema whose exclusive bounds are numbers, as they are from draft 6 on."""
    result = dict(schema)
    for exclusive, bound in _BOUNDS:
        is_exclusive = result.get(exclusive)
        if isinstance(is_exclusive, bool):
            del result[exclusive]
        if is_exclusive is True and bound in result:
            result[exclusive] = result.pop(bound)
    return result


def _nullable(schema: Object) -> Object:
    """Return a schema that null fits too."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        outside: Object = {key: schema[key] for key in ("description", "default") if key in schema}
        rest = {key: value for key, value in schema.items() if key not in outside}
        return {**outside, "anyOf": [rest, dict(_NULL)]} if rest else outside
    values = schema.get("enum")
    more = {"enum": [*values, None]} if is_list(values) and None not in values else {}
    return {**schema, "type": [kind, "null"], **more}


def _closed(schema: Object) -> Object:
    """Return a schema that lists all properties; those in alternatives list only some.

    Where a schema is made of several parts, none of them knows the properties of the others.
    """
    result = dict(schema)
    for junctor in _JUNCTORS:
        if junctor in result:
            result[junctor] = _opened(result[junctor])
    is_whole = not any(_refers(result.get(junctor)) for junctor in _JUNCTORS)
    if "properties" in result and is_whole:
        result.setdefault("additionalProperties", False)
    return result


def _opened(value: object) -> object:
    """Return a part of a schema without what `_closed` has added to it."""
    if is_list(value):
        return [_opened(part) for part in value]
    if not is_object(value) or value.get("additionalProperties") is not False:
        return value
    return {key: item for key, item in value.items() if key != "additionalProperties"}


def _refers_to(schema: Object, targets: frozenset[str]) -> bool:
    parts = [schema, *as_list(schema.get("allOf"))]
    return any(as_object(part).get("$ref") in targets for part in parts)


def _refers(value: object) -> bool:
    parts: list[object] = as_list(value) or [value]
    return any("$ref" in as_object(part) for part in parts)


def file_names(found: Mapping[Kind, object]) -> dict[Kind, str]:
    """Return a name for the file of each kind; the whole group where the short name is taken."""
    names: dict[Kind, str] = {}
    for kind in sorted(found):
        short = kind.file_name()
        names[kind] = kind.file_name(whole_group=True) if short in names.values() else short
    return names
