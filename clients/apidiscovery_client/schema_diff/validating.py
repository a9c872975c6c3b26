"""What a server does with a value: it applies defaults, prunes, and validates, keyword by keyword.

The order and the treatment of null are those of Kubernetes' apiextensions-apiserver,
pkg/apiserver/schema/{defaulting,pruning} and pkg/apiserver/validation.
"""

import datetime as dt
import ipaddress
import json
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Final, cast

from apidiscovery_formats.json_values import as_list, as_object

from apidiscovery_client.schema_diff import cel
from apidiscovery_client.schema_diff.patterns import matches
from apidiscovery_client.schema_diff.schemas import ALL_KINDS, NO_DEFAULT, Schema, as_number

BAD_TEXT: Final = "\u00fe ?%\n#"  # has none of the formats that are looked at
_MAX_CODE: Final = 0x10FFFF
_MAX_FLOAT32: Final = (2 - 2**-23) * 2**127
_KIND_NAMES: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    str: "string",
    dict: "object",
    list: "array",
}
IGNORED_FORMATS = frozenset({"", "password", "int-or-string", "int64", "double", "quantity"})
FORMATS: Mapping[str, str] = {
    "bsonobjectid": "507f1f77bcf86cd799439011",
    "uri": "https://example.com/a",
    "email": "a@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "cidr": "192.0.2.0/24",
    "mac": "01:23:45:67:89:ab",
    "uuid": "123e4567-e89b-42d3-a456-426614174000",
    "uuid3": "bcbe4567-e89b-32d3-a456-426614174000",
    "uuid4": "123e4567-e89b-42d3-a456-426614174000",
    "uuid5": "123e4567-e89b-52d3-a456-426614174000",
    "isbn": "0321751043",
    "isbn10": "0321751043",
    "isbn13": "9780321751041",
    "creditcard": "4111111111111111",
    "ssn": "111-11-1111",
    "hexcolor": "#FFFFFF",
    "rgbcolor": "rgb(100,100,100)",
    "byte": "aGVsbG8=",
    "duration": "5s",
    "date": "2026-11-23",
    "date-time": "2026-11-23T10:00:00Z",
    "datetime": "2026-11-23T10:00:00Z",
    "k8s-short-name": "a-name",
    "k8s-long-name": "a.name",
}


def canonical(value: object) -> str:
    """Return a text that is the same for equal JSON values; 1 and 1.0 are equal."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        fields = cast("dict[str, object]", value)
        inner = ",".join(f"{json.dumps(key)}:{canonical(fields[key])}" for key in sorted(fields))
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{','.join(canonical(one) for one in cast('list[object]', value))}]"
    number = as_number(value)
    return str(number) if number is not None else json.dumps(value)


def kind_of(value: object) -> str:
    """Return the JSON type; a whole number is an integer."""
    if isinstance(value, float):
        number = as_number(value)
        return "null" if number is None else "integer" if number.denominator == 1 else "number"
    return _KIND_NAMES.get(type(value), "null")


def treat(schema: Schema, value: object) -> object:  # noqa: C901 - as the server's
    """Return a value as the server keeps it: pruned, with defaults."""
    if isinstance(value, list):
        return [_in_list(schema.items, one) for one in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    kept = dict[str, object]()
    for name, found in fields.items():
        field = schema.field(name)
        if field is None:
            if schema.embedded and name in ("apiVersion", "kind", "metadata"):
                kept[name] = found
            continue
        if found is None and not field.nullable:
            if field.default is not NO_DEFAULT:
                kept[name] = treat(field, field.default)
        else:
            kept[name] = treat(field, found)
    for name, raw in schema.properties.items():
        if name not in fields:
            field = schema.read(raw)
            if field.default is not NO_DEFAULT:
                kept[name] = treat(field, field.default)
    return kept


def _in_list(items: Schema, value: object) -> object:
    if value is None and not items.nullable and items.default is not NO_DEFAULT:
        return treat(items, items.default)
    return treat(items, value)


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """Return whether all hold; None where that depends on one that is not known."""
    unknown = False
    for answer in answers:
        if answer is False:
            return False
        unknown = unknown or answer is None
    return None if unknown else True


def valid(schema: Schema, value: object) -> bool | None:
    """Tell whether a treated value is valid; None where that cannot be told."""
    if value is None and schema.nullable and schema.get("enum") is None:
        return True
    checks = {"type", *(_CHECK_OF.get(keyword) for keyword in schema.keywords)}
    return all_of(check(schema, value) for name, check in KEYWORDS.items() if name in checks)


def meets(schema: Schema, keyword: str, value: object) -> bool | None:
    """Tell whether a value meets one keyword of a schema, which may be absent."""
    return KEYWORDS[keyword](schema, value)


def _type(schema: Schema, value: object) -> bool | None:
    if value is None:
        return schema.nullable or schema.kinds == ALL_KINDS
    return kind_of(value) in schema.kinds


def _enum(schema: Schema, value: object) -> bool | None:
    if schema.get("enum") is None:
        return True
    if value is None:
        return False  # the server refuses it even where the enum has it
    if isinstance(value, str):
        return value in as_list(schema.get("enum"))
    texts = {canonical(one) for one in as_list(schema.get("enum"))}
    return canonical(value) in texts or canonical(_converted(value)) in texts


def _converted(value: object) -> object:
    """Return what a value is equal to after Go's conversion to the type of an enum's member.

    k8s.io/kube-openapi, pkg/validation/validate/values.go, `enumCase`: 1.5 is 1, and 97 is "a".
    """
    if isinstance(value, float):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return chr(value) if 0 <= value <= _MAX_CODE else "\ufffd"
    return value


def _minimum(schema: Schema, value: object) -> bool | None:
    limit, number = schema.limit("minimum"), as_number(value)
    if limit is None or number is None:
        return True
    return number > limit if schema.get("exclusiveMinimum") is True else number >= limit


def _maximum(schema: Schema, value: object) -> bool | None:
    limit, number = schema.limit("maximum"), as_number(value)
    if limit is None or number is None:
        return True
    return number < limit if schema.get("exclusiveMaximum") is True else number <= limit


def _multiple(schema: Schema, value: object) -> bool | None:
    limit, number = schema.limit("multipleOf"), as_number(value)
    if not limit or number is None:
        return True
    if limit.denominator != 1 and isinstance(value, int):
        # The server cuts the factor for a whole number, and refuses a factor of 0.
        return False if limit < 1 else None
    return (number / limit).denominator == 1


def _size(kind: type, least: str, most: str) -> Callable[[Schema, object], bool | None]:
    def check(schema: Schema, value: object) -> bool | None:
        if not isinstance(value, kind):
            return True
        size = len(cast("list[object]", value))
        low, high = schema.limit(least), schema.limit(most)
        return (low is None or size >= low) and (high is None or size <= high)

    return check


def _pattern(schema: Schema, value: object) -> bool | None:
    pattern = schema.get("pattern")
    if not isinstance(pattern, str) or not isinstance(value, str):
        return True
    return matches(pattern, value)


def _format(schema: Schema, value: object) -> bool | None:  # noqa: PLR0911 - a list
    name = schema.get("format")
    if not isinstance(name, str) or name in IGNORED_FORMATS:
        return True
    if as_number(value) is not None:
        number = as_number(value) or Fraction()
        if name == "float":
            return abs(number) <= _MAX_FLOAT32
        return -(2**31) <= number < 2**31 if name == "int32" else None
    if not isinstance(value, str):
        return True
    if name not in FORMATS:
        # A format that the server does not know is ignored; which it knows depends on its version.
        return None
    if value == FORMATS[name]:
        return True
    if value == BAD_TEXT:
        return False
    return _parses(name, value)


def _parses(name: str, value: str) -> bool | None:
    """Tell what Python can tell about a format as surely as Go."""
    try:
        if name == "date":
            dt.date.fromisoformat(value)
            return len(value) == len("2026-11-23")
        if name == "ipv4":
            ipaddress.IPv4Address(value)
            return True
    except ValueError:
        return False
    return None


def _unique(schema: Schema, value: object) -> bool | None:
    if not isinstance(value, list):
        return True
    values = [canonical(one) for one in cast("list[object]", value)]
    if schema.get("uniqueItems") is True or schema.list_type == "set":
        return len(set(values)) == len(values)
    if schema.list_type == "map":
        names = schema.list_map_keys
        keys = [
            canonical([as_object(one).get(name) for name in names])
            for one in cast("list[object]", value)
        ]
        return len(set(keys)) == len(keys)
    return True


def _required(schema: Schema, value: object) -> bool | None:
    of_resources = frozenset({"apiVersion", "kind"} if schema.embedded else ())
    return not isinstance(value, dict) or schema.required | of_resources <= value.keys()


def _fields(schema: Schema, value: object) -> bool | None:
    if isinstance(value, list):
        return all_of(valid(schema.items, one) for one in cast("list[object]", value))
    if not isinstance(value, dict):
        return True
    answers = list[bool | None]()
    for name, found in cast("dict[str, object]", value).items():
        field = schema.field(name)
        answers.append(True if field is None else valid(field, found))
    return all_of(answers)


def _branch(schema: Schema, branch: object, value: object) -> bool | None:
    return all_of(
        meets(schema.read(branch), keyword, value) if keyword != "fields" else _inner(branch, value)
        for keyword in KEYWORDS
        if keyword != "cel"
    )


def _inner(branch: object, value: object) -> bool | None:
    """Validate what a branch says of fields and items; it says nothing of others."""
    told = as_object(branch)
    schema = Schema(told)
    if isinstance(value, list) and "items" in told:
        return all_of(_branch(schema, told["items"], one) for one in cast("list[object]", value))
    if not isinstance(value, dict):
        return True
    answers = list[bool | None]()
    properties = as_object(told.get("properties"))
    for name, found in cast("dict[str, object]", value).items():
        inner = properties.get(name, told.get("additionalProperties"))
        if isinstance(inner, dict):
            answers.append(_branch(schema, cast("object", inner), found))
    return all_of(answers)


def _all(schema: Schema, value: object) -> bool | None:
    return all_of(_branch(schema, one, value) for one in as_list(schema.get("allOf")))


def _any(schema: Schema, value: object) -> bool | None:
    answers = [_branch(schema, one, value) for one in as_list(schema.get("anyOf"))]
    if not answers or True in answers:
        return True
    return None if None in answers else False


def _one(schema: Schema, value: object) -> bool | None:
    answers = [_branch(schema, one, value) for one in as_list(schema.get("oneOf"))]
    if not answers:
        return True
    if answers.count(True) > 1:
        return False
    return None if None in answers else answers.count(True) == 1


def _not(schema: Schema, value: object) -> bool | None:
    if schema.get("not") is None:
        return True
    answer = _branch(schema, schema.get("not"), value)
    return None if answer is None else not answer


def _cel(schema: Schema, value: object) -> bool | None:
    rules = [
        str(as_object(one).get("rule")) for one in as_list(schema.get("x-kubernetes-validations"))
    ]
    return all_of(cel.holds(rule, value) for rule in rules if not cel.is_transition(rule))


# Cheap ones first: a value that has the wrong type is looked at no further.
KEYWORDS: dict[str, Callable[[Schema, object], bool | None]] = {
    "type": _type,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple,
    "length": _size(str, "minLength", "maxLength"),
    "pattern": _pattern,
    "format": _format,
    "items-count": _size(list, "minItems", "maxItems"),
    "unique": _unique,
    "properties-count": _size(dict, "minProperties", "maxProperties"),
    "required": _required,
    "fields": _fields,
    "allOf": _all,
    "anyOf": _any,
    "oneOf": _one,
    "not": _not,
    "cel": _cel,
}
_CHECK_OF: dict[str, str] = {
    **{name: name for name in KEYWORDS},
    **dict.fromkeys(("minLength", "maxLength"), "length"),
    **dict.fromkeys(("minItems", "maxItems"), "items-count"),
    **dict.fromkeys(("uniqueItems", "x-kubernetes-list-type"), "unique"),
    **dict.fromkeys(("minProperties", "maxProperties"), "properties-count"),
    "x-kubernetes-embedded-resource": "required",
    **dict.fromkeys(("properties", "additionalProperties", "items"), "fields"),
    "x-kubernetes-validations": "cel",
}
