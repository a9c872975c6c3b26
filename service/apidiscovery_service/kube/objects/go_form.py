"""The fields of a struct as Go writes them to JSON: which ones, and in which order.

Source: Go's encoding/json (Marshal: `omitempty`, `omitzero`, sorted keys of maps).
"""

from collections.abc import Mapping, Sequence

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.fields import ZEROS, Field, Shape, Struct


def in_go_form(struct: Struct, fields: Mapping[str, JSONValue]) -> dict[str, JSONValue]:
    """Return fields in the order of the Go source, only those that Go would write.

    Args:
        struct: What they are fields of.
        fields: In any order; what is missing is zero.
    """
    form: dict[str, JSONValue] = {}
    for field in struct.fields:
        if field.shape is Shape.VALUE:
            value = _value(field, fields.get(field.name))
            if value or field.kept:
                form[field.name] = value
        elif field.name in fields:
            value = _held(field, fields[field.name])
            if value or field.shape is Shape.POINTER:
                form[field.name] = value
    return form


def _value(field: Field, value: JSONValue) -> JSONValue:
    if isinstance(field.type, Struct):
        return in_go_form(field.type, as_mapping(value))
    return ZEROS.get(field.type) if value is None else value


def _held(field: Field, value: JSONValue) -> JSONValue:
    """Return what a pointer, list or map holds."""
    if field.shape is Shape.LIST:
        return [_value(field, item) for item in as_list(value)]
    if field.shape is Shape.STRING_MAP:
        return dict(sorted(as_mapping(value).items()))
    return _value(field, value) if isinstance(field.type, Struct) else value


def as_list(value: JSONValue) -> Sequence[JSONValue]:
    """Return a JSON list, empty if the value is none."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else ()


def as_mapping(value: JSONValue) -> Mapping[str, JSONValue]:
    """Return a JSON object, empty if the value is none."""
    return value if isinstance(value, Mapping) else {}
