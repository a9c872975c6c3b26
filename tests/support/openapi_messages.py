"""Documents with every field of the messages of OpenAPI, and messages as JSON."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import yaml
from apidiscovery_service.openapi.protobuf.encoder import type_of
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

JSON: TypeAlias = Any

_MAP_NAMES = {
    "path": ("/a", "/b"),
    "response_or_reference": ("200", "4XX"),
    "response_code": ("200", "default"),
    "specification_extension": ("x-a", "x-b"),
    "vendor_extension": ("x-a", "x-b"),
    "additional_properties": ("a", "b"),
}
_ANYTHING: JSON = {"b": ["y", 1, None, "{}"], "a": "two\nlines"}
_VALUES: Mapping[str, list[JSON]] = {
    "Any": [_ANYTHING],
    "AnyOrExpression": [[1, 2], _ANYTHING],
    "DefaultType": ["text", False, -2.5],
    "Expression": [_ANYTHING],
}


_SCALARS = (
    ("bool", "tf", "true|false"),
    ("null", "n", "null"),
    ("int", "-0123456789", "-?(?:0|[1-9][0-9]*)"),
    ("float", "-0123456789", r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?"),
)


class YamlLoader(yaml.CSafeLoader):
    """Reads the YAML inside gnostic's `Any`, with the scalars of JSON: no `yes`, no dates."""


YamlLoader.yaml_implicit_resolvers = {
    letter: [
        (f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"))
        for tag, letters, pattern in _SCALARS
        if letter in letters
    ]
    for letter in "tfn-0123456789"
}


class Filled:
    """Makes JSON: each type of message once with every field, and empty from then on.

    Args:
        fixed: By type, the fields that identify an object of the type.
    """

    def __init__(self, fixed: Mapping[str, Mapping[str, JSON]]) -> None:
        self._fixed = fixed
        self._seen: Counter[str] = Counter()
        self._number = 0

    def message(self, message: Descriptor) -> JSON:
        """Return the JSON of a message; of a oneof the members in turn."""
        self._seen[message.name] += 1
        turn = self._seen[message.name] - 1
        if message.name in _VALUES:
            values = _VALUES[message.name]
            return values[turn % len(values)]
        if message.oneofs:
            return self._value(message.fields[turn % len(message.fields)])
        if message.name == "ItemsItem":
            return self._value(message.fields[0])
        if message.name in {"StringArray", "TypeItem"}:
            return [self._text(), self._text()]
        fixed = dict(self._fixed.get(message.name, {}))
        return (self._fields(message) | fixed) if turn == 0 else fixed

    def _fields(self, message: Descriptor) -> dict[str, JSON]:
        made: dict[str, JSON] = {}
        for field in message.fields:
            if _is_map(field):
                value = type_of(field).fields_by_name["value"]
                made |= {name: self._value(value) for name in _MAP_NAMES[field.name]}
            elif field.is_repeated:
                made[field.json_name] = [self._value(field), self._value(field)]
            else:
                made[field.json_name] = self._value(field)
        return made

    def _value(self, field: FieldDescriptor) -> JSON:
        if field.message_type is not None:
            return self.message(field.message_type)
        self._number += 1
        if field.type == FieldDescriptor.TYPE_BOOL:
            return True
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._text()
        return self._number if field.type == FieldDescriptor.TYPE_INT64 else self._number + 0.5

    def _text(self) -> str:
        self._number += 1
        return f"text {self._number}"


def _is_map(field: FieldDescriptor) -> bool:
    return field.is_repeated and field.name in _MAP_NAMES


def reachable(message: Descriptor) -> set[tuple[str, str]]:
    """Return message and field of all fields that a message can contain."""
    found: set[tuple[str, str]] = set()
    todo, seen = [message], {message.full_name}
    while todo:
        outer = todo.pop()
        for field in outer.fields:
            found.add((outer.name, field.name))
            inner = field.message_type
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                todo.append(inner)
    return found


def used(message: Message) -> Iterator[tuple[str, str]]:
    """Yield message and field of all fields that are set."""
    for field, value in message.ListFields():
        yield message.DESCRIPTOR.name, field.name
        if field.message_type is not None:
            for inner in value if field.is_repeated else [value]:
                yield from used(inner)


def json_of(message: Message) -> JSON:
    """Return a message as JSON, without zeros and empty lists, which protobuf loses."""
    descriptor = message.DESCRIPTOR
    values = {field.name: _plain(field, value) for field, value in message.ListFields()}
    if descriptor.name == "Any":
        return yaml.load(values["yaml"], YamlLoader)  # noqa: S506 - safe, with other scalars
    if descriptor.oneofs:
        nothing: JSON = {}
        return next(iter(values.values()), nothing)
    if descriptor.name == "ItemsItem":
        (schemas,) = values.values()
        return schemas[0] if len(schemas) == 1 else schemas
    if descriptor.name in {"StringArray", "TypeItem"}:
        return values.get("value", [])
    made: dict[str, JSON] = {}
    for field, _ in message.ListFields():
        if _is_map(field):
            made |= dict(values[field.name])
        elif field.name != "default" or values[field.name] != {}:  # an object or null, lost
            made[field.json_name] = values[field.name]
    return made


def _plain(field: FieldDescriptor, value: Any) -> JSON:  # noqa: ANN401 - what protobuf hands out
    if field.message_type is None:
        return list(value) if field.is_repeated else value
    if _is_map(field):
        return [(entry.name, _entry(entry)) for entry in value]
    return [json_of(inner) for inner in value] if field.is_repeated else json_of(value)


def _entry(entry: Any) -> JSON:  # noqa: ANN401 - each is a type of its own
    return entry.value if isinstance(entry.value, str) else json_of(entry.value)
