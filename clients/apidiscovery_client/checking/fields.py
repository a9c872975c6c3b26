"""Checks the fields of an object with the schema of its kind.

A server validates custom resources by the schema of their definition. The schemas of built-in kinds
describe Go types: there null means absent, an empty string means no value of an enum, and a default
of zero has no meaning.
"""

import base64
import binascii
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import islice
from typing import cast

from apidiscovery_formats.json_values import as_list
from apidiscovery_formats.openapi.pointers import Path

from apidiscovery_client._fields import Fields, name_of
from apidiscovery_client.checking.model import Rule
from apidiscovery_client.openapi.json_documents import is_list, is_object
from apidiscovery_client.schema_diff.schemas import NO_DEFAULT, Schema, read
from apidiscovery_client.schema_diff.validating import KEYWORDS, kind_of, meets, treat

_NAMING = ("apiVersion", "kind", "metadata")
_MAX_SHOWN = 60
_MAX_PROBLEMS = 100  # of an object: one of another kind has thousands

# The keywords of each test of `schema_diff.validating`, by its name there.
_LOOKS_AT: Mapping[str, tuple[str, ...]] = {
    "length": ("minLength", "maxLength"),
    "items-count": ("minItems", "maxItems"),
    "unique": ("uniqueItems", "x-kubernetes-list-type"),
    "properties-count": ("minProperties", "maxProperties"),
    "cel": ("x-kubernetes-validations",),
}
_ELSEWHERE = ("type", "required", "fields")  # checked field by field
_TESTS = tuple((name, _LOOKS_AT.get(name, (name,))) for name in KEYWORDS if name not in _ELSEWHERE)
# Tests of fields below, which need the defaults of these.
_OF_THE_WHOLE = frozenset({"cel", "allOf", "anyOf", "oneOf", "not"})

_TEXT: Fields = {"type": "string"}
_OWNER: Fields = {
    "type": "object",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "name": _TEXT,
        "uid": _TEXT,
        "controller": {"type": "boolean"},
        "blockOwnerDeletion": {"type": "boolean"},
    },
}
# Source: apimachinery pkg/apis/meta/v1/types.go `ObjectMeta`; what a definition's schema leaves
# out, as it may only restrict names.
OBJECT_META: Fields = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "generateName": _TEXT,
        "namespace": _TEXT,
        "selfLink": _TEXT,
        "uid": _TEXT,
        "resourceVersion": _TEXT,
        "generation": {"type": "integer"},
        "creationTimestamp": _TEXT,
        "deletionTimestamp": _TEXT,
        "deletionGracePeriodSeconds": {"type": "integer"},
        "labels": {"type": "object", "additionalProperties": _TEXT},
        "annotations": {"type": "object", "additionalProperties": _TEXT},
        "ownerReferences": {"type": "array", "items": _OWNER},
        "finalizers": {"type": "array", "items": _TEXT},
        "managedFields": {
            "type": "array",
            "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    },
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a field.

    Attributes:
        path: Names and indexes.
        message: The value, and what is expected.
    """

    rule: Rule
    path: Path
    message: str


class FieldCheck:
    """Checks objects of one kind.

    Args:
        schema: Of the kind.
        is_custom: Whether it is of a CustomResourceDefinition.
        has_status: Whether `status` is a subresource, so that what a manifest says of it is
            ignored.
    """

    def __init__(self, schema: Schema, *, is_custom: bool, has_status: bool) -> None:
        self._is_custom = is_custom
        self._has_status = has_status
        # Schemas that references lead to, which are read once.
        self._fields: dict[tuple[int, str], Schema | None] = {}
        self._read: list[object] = []
        self._metadata = read(OBJECT_META)
        self._schema = _with_metadata(schema) if is_custom else schema

    def problems(self, fields: Fields) -> Iterator[Problem]:
        """Yield the problems in the order of fields, 100 at most.

        Raises:
            InvalidSchema: A `$ref` of the schema leads nowhere.
        """
        yield from islice(self._root(fields), _MAX_PROBLEMS)

    def _root(self, fields: Fields) -> Iterator[Problem]:
        metadata = fields.get("metadata")
        if not isinstance(metadata, dict) or not {"name", "generateName"} & metadata.keys():
            yield Problem(Rule.REQUIRED_FIELD, ("metadata", "name"), "it is missing")
        for name, value in fields.items():
            if name in ("apiVersion", "kind") or (name == "status" and self._has_status):
                continue
            yield from self._named(self._schema, name, value, ())
        yield from self._missing(self._schema, fields, ())
        yield from self._tested(self._schema, fields, ())

    def _value(self, schema: Schema, value: object, path: Path) -> Iterator[Problem]:
        if value is None and (not self._is_custom or schema.nullable):
            return
        if meets(schema, "type", value) is False:
            yield Problem(Rule.INVALID_VALUE, path, _type_message(schema, value))
            return
        if is_object(value):
            if not self._is_open(schema):
                for name, inner in value.items():
                    yield from self._named(schema, name, inner, path)
            yield from self._missing(schema, value, path)
        elif is_list(value):
            items = schema.items
            for number, item in enumerate(value):
                yield from self._value(items, item, (*path, number))
        yield from self._tested(schema, value, path)

    def _named(self, schema: Schema, name: str, value: object, above: Path) -> Iterator[Problem]:
        path = (*above, name)
        if schema.embedded and name in _NAMING:
            if name == "metadata":
                yield from self._value(self._metadata, value, path)
            return
        field = self._field(schema, name)
        if field is None:
            yield self._unknown(schema, name, path)
        elif value is not None or field.nullable:  # the server drops any other null
            yield from self._value(field, value, path)

    def _field(self, schema: Schema, name: str) -> Schema | None:
        key = (id(schema.keywords), name)
        if key not in self._fields:
            self._fields[key] = schema.field(name)
            self._read.append(schema.keywords)  # an id is that of something that still exists
        return self._fields[key]

    def _is_open(self, schema: Schema) -> bool:
        """Return whether an object of a Go type may have any fields, as RawExtension."""
        return (
            not self._is_custom
            and not schema.properties
            and schema.get("additionalProperties") is None
        )

    def _unknown(self, schema: Schema, name: str, path: Path) -> Problem:
        rule = Rule.PRUNED_FIELD if self._is_custom else Rule.UNKNOWN_FIELD
        near = get_close_matches(name, schema.properties, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        told = "it is in no schema: kubectl refuses it, other clients lose it"
        return Problem(rule, path, told + hint)

    def _missing(self, schema: Schema, fields: Fields, above: Path) -> Iterator[Problem]:
        embedded = {"apiVersion", "kind"} if schema.embedded else frozenset[str]()
        for name in sorted(schema.required | embedded):
            if not above and name in _NAMING:
                continue
            field = self._field(schema, name)
            is_null = name in fields and fields[name] is None
            keeps_null = self._is_custom and (field is None or field.nullable)
            is_there = name in fields and (not is_null or keeps_null)
            if not is_there and not self._has_default(field):
                yield Problem(Rule.REQUIRED_FIELD, (*above, name), "it is missing")

    def _has_default(self, field: Schema | None) -> bool:
        if field is None or field.default is NO_DEFAULT:
            return False
        # In Go types a zero is what an absent field is, and false is the only useful one.
        return self._is_custom or bool(field.default) or field.default is False

    def _tested(self, schema: Schema, value: object, path: Path) -> Iterator[Problem]:
        keywords = schema.keywords
        whole: object = _UNTREATED
        if _is_bad_quantity(schema, value):
            wanted = "want a quantity such as 100m, 1.5 or 64Mi"
            yield Problem(Rule.INVALID_VALUE, path, f"it is {_shown(value)}; {wanted}")
        for test, names in _TESTS:
            if keywords.keys().isdisjoint(names) or self._is_exempt(test, schema, value):
                continue
            tested = value
            if test in _OF_THE_WHOLE and self._is_custom:
                whole = treat(schema, value) if whole is _UNTREATED else whole
                tested = whole
            answer = meets(schema, test, tested)
            if answer is None and test == "format":
                answer = _parses(str(schema.get("format")), tested, strict=not self._is_custom)
            if answer is False:
                yield Problem(Rule.INVALID_VALUE, path, _test_message(test, schema, value))
            elif answer is None:
                told = f"{_about(test, schema)} could not be evaluated"
                yield Problem(Rule.UNDECIDED, path, told)

    def _is_exempt(self, test: str, schema: Schema, value: object) -> bool:
        if self._is_custom:
            return False
        if test == "unique":
            return schema.get("uniqueItems") is not True
        return test == "enum" and value == ""


_UNTREATED = object()
# Source: apimachinery pkg/api/resource/quantity.go `splitREString`, `ParseQuantity`.
_QUANTITY = re.compile(
    r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?", re.ASCII
)


def _with_metadata(schema: Schema) -> Schema:
    """Return the schema of a definition, with the fields that every object has.

    Its own limits on names still count.
    """
    own = schema.field("metadata") if "metadata" in schema.properties else None
    known = cast("Fields", OBJECT_META["properties"])
    names = {
        name: {**_TEXT, **own.read(own.properties[name]).keywords}
        for name in ("name", "generateName")
        if own is not None and name in own.properties
    }
    implied: Fields = {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        "metadata": {**OBJECT_META, "properties": {**known, **names}},
    }
    keywords = {**schema.keywords, "properties": {**schema.properties, **implied}}
    return replace(schema, keywords=keywords)


def _is_bad_quantity(schema: Schema, value: object) -> bool:
    is_quantity = schema.ref.endswith(".resource.Quantity")
    return is_quantity and isinstance(value, str) and not _QUANTITY.fullmatch(value)


def _parses(name: str, value: object, *, strict: bool) -> bool | None:
    """Return whether a text has a format that `schema_diff` leaves open; None for others."""
    if not isinstance(value, str):
        return None
    try:
        if name == "byte":
            base64.b64decode(value.translate({10: None, 13: None}), validate=True)
            return True
        if name == "date-time":
            dt.datetime.fromisoformat(value)
            return True
    except (binascii.Error, ValueError):
        return False if strict or name == "byte" else None
    return None


def _type_message(schema: Schema, value: object) -> str:
    seen = "it is null" if value is None else f"it is {_shown(value)}"
    kinds = sorted(schema.kinds - ({"integer"} if "number" in schema.kinds else frozenset()))
    return f"{seen}; want {' or '.join(map(_article, kinds))}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _test_message(test: str, schema: Schema, value: object) -> str:
    if test in ("cel", "oneOf", "anyOf", "allOf", "not"):
        return f"it does not meet {_about(test, schema)}"
    return f"it is {_shown(value)}; want {_about(test, schema)}"


def _about(test: str, schema: Schema) -> str:
    """Return what a test requires, in the words of the schema."""
    if test == "cel":
        rules = [cast("Fields", one) for one in as_list(schema.get("x-kubernetes-validations"))]
        texts = [str(rule.get("message") or rule.get("rule")) for rule in rules]
        return f"the rule {texts[0]!r}" if len(texts) == 1 else f"one of {len(texts)} CEL rules"
    if test == "enum":
        return "one of " + ", ".join(map(str, as_list(schema.get("enum"))))
    told = {
        name: schema.get(name)
        for name in _LOOKS_AT.get(test, (test,))
        if schema.get(name) is not None
    }
    return ", ".join(f"{name} {_short(found)}" for name, found in told.items())


def _shown(value: object) -> str:
    if isinstance(value, str | int | float | bool):
        kind = "number" if isinstance(value, float) else kind_of(value)
        return f"the {kind} {_short(value)}"
    return name_of(value)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
