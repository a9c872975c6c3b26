"""Typed access to the fields of foreign JSON; errors name the path of the field."""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar, cast

Fields = Mapping[str, object]
T = TypeVar("T")

MAX_VALUES = 5_000_000

_JSON_NAMES: Mapping[type, str] = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
}

_TEXT_ALONE = frozenset({str})  # of the types that JSON is read into


class MisshapenError(ValueError):
    """A field is missing or of the wrong type.

    Attributes:
        path: Such as `items[0].versions[1].version`; empty for the document itself.
        problem: What was seen and what was wanted.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'the document'} {problem}")
        self.path = path
        self.problem = problem

    def below(self, parent: str) -> "MisshapenError":
        """Return the same error as seen from the object that holds `parent`."""
        separator = "." if self.path and not self.path.startswith("[") else ""
        return MisshapenError(f"{parent}{separator}{self.path}", self.problem)


def read_json(data: bytes) -> object:
    """Return the value of a foreign JSON text.

    Raises:
        ValueError: It is not JSON, or may have more than `MAX_VALUES` values.
        RecursionError: It is nested too deeply.
    """
    check_size(data)
    return cast("object", json.loads(data))


def check_size(data: bytes) -> None:
    """Raise `ValueError` for a JSON text that may have more than `MAX_VALUES` values.

    Every value but the outermost stands behind one of three characters, which also count where they
    are in strings: reading 21 million empty lists, 64 KB when compressed, took 10 s and 2 GB.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise ValueError(f"it has more than {MAX_VALUES} values")


def is_deeper(value: object, limit: int) -> bool:
    """Return whether more than `limit` arrays and objects are within each other."""
    level = [value]
    for _ in range(limit):
        level = [inner for outer in level for inner in _contained(outer)]
        if not level:
            return False
    return any(isinstance(inner, list | dict) for inner in level)


def _contained(value: object) -> Iterable[object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value).values()
    return cast("list[object]", value) if isinstance(value, list) else ()


def as_fields(value: object) -> Fields:
    """Return `value` as an object's fields; raise `MisshapenError` when it is not an object."""
    if not isinstance(value, dict):
        raise MisshapenError("", f"is {name_of(value)}, not an object")
    return cast("dict[str, object]", value)


def text(fields: Fields, key: str) -> str:
    """Return a string field, empty when it is absent or null, as Go decodes it."""
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MisshapenError(key, f"is {name_of(value)}, not a string")
    return value


def required_text(fields: Fields, key: str) -> str:
    """Return a string field that must be there and not be empty."""
    value = text(fields, key)
    if not value:
        raise MisshapenError(key, "is missing or empty")
    return value


def flag(fields: Fields, key: str) -> bool:
    """Return a boolean field, false when it is absent or null, as Go decodes it."""
    value = fields.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise MisshapenError(key, f"is {name_of(value)}, not a boolean")
    return value


def texts(fields: Fields, key: str) -> tuple[str, ...]:
    """Return a field that is an array of strings, in its order; empty when absent or null."""
    if fields.get(key) is None:
        return ()
    values = _array(fields, key)
    if not _TEXT_ALONE.issuperset(map(type, values)):
        index, value = next((i, value) for i, value in enumerate(values) if type(value) is not str)
        raise MisshapenError(f"{key}[{index}]", f"is {name_of(value)}, not a string")
    return cast("tuple[str, ...]", tuple(values))


def text_map(fields: Fields, key: str) -> dict[str, str]:
    """Return a field that is an object of strings; empty when it is absent or null."""
    found = inner(fields, key) or {}
    try:
        return {name: text(found, name) for name in found}
    except MisshapenError as error:
        raise error.below(key) from None


def inner(fields: Fields, key: str) -> Fields | None:
    """Return a field that is an object; None when it is absent or null."""
    value = fields.get(key)
    if value is None:
        return None
    try:
        return as_fields(value)
    except MisshapenError as error:
        raise error.below(key) from None


def each(fields: Fields, key: str, read: Callable[[Fields], T]) -> tuple[T, ...]:
    """Return what `read` makes of each object in an array; empty when absent or null.

    Raises:
        MisshapenError: `read` raised it, or an element is not an object; its path begins at `key`.
    """
    if fields.get(key) is None:
        return ()
    results: list[T] = []
    for index, value in enumerate(_array(fields, key)):
        try:
            results.append(read(as_fields(value)))
        except MisshapenError as error:
            raise error.below(f"{key}[{index}]") from None
    return tuple(results)


def present(fields: Fields, key: str) -> None:
    """Raise `MisshapenError` when `key` is absent: an absent list is not an empty one."""
    if key not in fields:
        raise MisshapenError(key, "is missing")


def unknown(fields: Fields, known: frozenset[str]) -> dict[str, object]:
    """Return the fields that are not `known`, in the order of the document."""
    if fields.keys() <= known:
        return {}
    return {key: value for key, value in fields.items() if key not in known}


def _array(fields: Fields, key: str) -> list[object]:
    value = fields.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise MisshapenError(key, f"is {name_of(value)}, not an array")
    return cast("list[object]", value)


def name_of(value: object) -> str:
    """Return the JSON type of a value with its article, such as `an array`."""
    return _JSON_NAMES[type(value)]
