"""Structural schemas of Pydantic models.

A model's JSON schema is of draft 2020-12 with `$defs`; `kubectl explain` and structural schemas
need that of OpenAPI 3.0, without references. Sources: apiextensions-apiserver
pkg/apis/apiextensions/v1/types_jsonschema.go:JSONSchemaProps; docs.pydantic.dev, JSON Schema.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias, TypeGuard, cast, runtime_checkable

from apidiscovery_service.errors import FieldViolation, InvalidFields, text_of

Schema: TypeAlias = dict[str, Any]
_Path: TypeAlias = tuple[str, ...]

_PRESERVE = "x-kubernetes-preserve-unknown-fields"
_REFERENCE = "#/$defs/"

# Fields of every object, which are added to each schema.
_OF_OBJECTS = ("apiVersion", "kind", "metadata")

# Keywords that do not constrain values, or have been resolved already.
_TITLES = frozenset(("title", "deprecated", "readOnly", "writeOnly", "$defs", "$comment"))
_SAME = frozenset(
    {
        *("type", "enum", "default", "example", "nullable", "description", "format", "required"),
        *("pattern", "minLength", "maxLength", "minimum", "maximum", "multipleOf"),
        *("minItems", "maxItems", "minProperties", "maxProperties"),
    }
)
# Keywords without a structural form, and what to declare instead.
_WITHOUT_FORM = {
    "oneOf": "a union; declare one model with optional fields",
    "prefixItems": "a tuple; declare a list of one type, or a model",
    "patternProperties": "a mapping with a pattern for its keys; declare a mapping of str",
    "propertyNames": "a mapping with a rule for its keys; declare a mapping of str",
    "not": "a negation; leave it to the server",
    "if": "a condition; leave it to the server",
}
_INTEGER_OR_STRING = ["integer", "string"]
_BARE = frozenset(("type", "title"))


@runtime_checkable
class Model(Protocol):
    """A class with a JSON schema, such as that of a Pydantic model."""

    def model_json_schema(self) -> Mapping[str, Any]:
        """Return the JSON schema."""
        ...


def is_model(value: object) -> TypeGuard[Model]:
    """Return whether a value is a class with a JSON schema."""
    return isinstance(value, type) and isinstance(value, Model)


def structural_schema(model: Model) -> Schema:
    """Return the schema of a model as that of a CustomResourceDefinition.

    References are replaced by what they refer to, and None by `nullable`. What every object has
    (`apiVersion`, `kind`, `metadata`) is left out.

    Raises:
        InvalidFields: Fields have no structural form; it names all of them.
    """
    try:
        whole = dict(model.model_json_schema())
    except Exception as error:  # Pydantic's errors have no base class that is known without it
        raise InvalidFields(FieldViolation("", f"has no JSON schema: {text_of(error)}")) from error
    converting = _Converting(whole.get("$defs", {}))
    schema = converting.converted(whole, (), ())
    if converting.found:
        raise InvalidFields(*converting.found)
    properties: Schema = schema.get("properties", {})
    for name in _OF_OBJECTS:
        properties.pop(name, None)
    _set_required(schema, (name for name in schema.get("required", ()) if name in properties))
    return schema


def _set_required(schema: Schema, names: Iterable[str]) -> None:
    schema.pop("required", None)
    if listed := list(names):
        schema["required"] = listed


class _Converting:
    """Converts one schema.

    Attributes:
        found: The fields without a structural form.
    """

    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self._definitions = definitions
        self.found: list[FieldViolation] = []

    def converted(self, schema: object, path: _Path, within: _Path) -> Schema:
        """Return a schema in its structural form.

        Args:
            schema: The schema; true for any value.
            path: The names of the fields that lead to it.
            within: The names of the definitions that it is in.
        """
        if not isinstance(schema, dict):
            return {_PRESERVE: True}
        given = cast("Schema", schema)
        resolved, inside = self._resolved(given, path, within)
        if "anyOf" in resolved:
            return self._alternatives(resolved, path, inside)
        made: Schema = {}
        for keyword, value in resolved.items():
            self._convert(keyword, value, made, path, inside)
        if not made.keys() & {"type", "x-kubernetes-int-or-string"}:
            made |= _type_of(made.get("enum", ()))
        if "type" not in made and "x-kubernetes-int-or-string" not in made:
            made[_PRESERVE] = True
        return made

    def _resolved(self, schema: Schema, path: _Path, within: _Path) -> tuple[Schema, _Path]:
        """Return a schema without its reference; what stands beside it wins."""
        several = schema.get("allOf")
        if isinstance(several, list) and len(cast("list[object]", several)) == 1:
            beside = {name: value for name, value in schema.items() if name != "allOf"}
            schema = {**cast("list[Schema]", several)[0], **beside}
        reference = schema.get("$ref")
        if reference is None:
            return schema, within
        name = str(reference).removeprefix(_REFERENCE)
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        if name in within:
            self._fail(path, f"{name} refers to itself; declare its depth, or a mapping")
            return beside, within
        if name not in self._definitions:
            self._fail(path, f"refers to {reference!r}, which is not in $defs")
            return beside, within
        return self._resolved({**self._definitions[name], **beside}, path, (*within, name))

    def _alternatives(self, schema: Schema, path: _Path, within: _Path) -> Schema:
        """Return the form of `X | None`, and of `int | str`."""
        beside = {name: value for name, value in schema.items() if name != "anyOf"}
        several: list[Schema] = schema["anyOf"]
        others = [one for one in several if one != {"type": "null"}]
        nullable = {"nullable": True} if len(others) < len(several) else {}
        if len(others) == 1:
            return self.converted({**others[0], **beside}, path, within) | nullable
        kinds = [str(one.get("type") or one.get("$ref") or "any") for one in others]
        if sorted(kinds) == _INTEGER_OR_STRING and all(one.keys() <= _BARE for one in others):
            form = self.converted({**beside, "x-kubernetes-int-or-string": True}, path, within)
            return form | nullable
        named = ", ".join(kind.removeprefix(_REFERENCE) for kind in kinds)
        self._fail(path, f"is a union of {named}; only None, and plain int with str, can be joined")
        return {}

    def _convert(  # noqa: C901 - one case a keyword
        self,
        keyword: str,
        value: Any,  # noqa: ANN401 - JSON
        made: Schema,
        path: _Path,
        within: _Path,
    ) -> None:
        match keyword:
            case "properties":
                made["properties"] = {
                    name: self.converted(one, (*path, name), within) for name, one in value.items()
                }
            case "items":
                made["items"] = self.converted(value, (*path, "[]"), within)
            case "additionalProperties":
                if value is True:
                    made[_PRESERVE] = True
                elif value is not False:  # unknown fields are dropped in any case
                    made[keyword] = self.converted(value, (*path, "{}"), within)
            case "exclusiveMinimum" | "exclusiveMaximum":
                # A number here, and a flag in OpenAPI 3.0.
                made[keyword] = True
                made[keyword.removeprefix("exclusive").lower()] = value
            case "const":
                made["enum"] = [value]
            case "uniqueItems":
                if value:
                    made["x-kubernetes-list-type"] = "set"
            case "examples":
                made["example"] = value[0] if value else None
            case _:
                self._keep(keyword, value, made, path)

    def _keep(self, keyword: str, value: object, made: Schema, path: _Path) -> None:
        """Copy a keyword that is the same in both forms; None as a default means no default."""
        if keyword in _SAME or keyword.startswith("x-kubernetes-"):
            if value is not None:
                made[keyword] = value
        elif keyword not in _TITLES and not keyword.startswith("x-"):
            self._fail(path, f"is {_WITHOUT_FORM.get(keyword, f'restricted by {keyword}')}")

    def _fail(self, path: _Path, message: str) -> None:
        field = ".".join(path).replace(".[]", "[]").replace(".{}", "{}")
        self.found.append(FieldViolation(field, f"{message}; it has no structural schema"))


def _type_of(values: Sequence[object]) -> Schema:
    """Return the type of values in an enumeration, if they have one."""
    kinds = {type(value) for value in values}
    for kind, name in _TYPES.items():
        if kinds == {kind}:
            return {"type": name}
    return {}


_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}
