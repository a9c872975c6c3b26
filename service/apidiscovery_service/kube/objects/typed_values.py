"""Reads parsed values into the fields of Go structs, as sigs.k8s.io/json does.

Names are case-sensitive. A value of the wrong type is an error; unknown and duplicate fields are
problems, which strict decoding refuses. Source: sigs.k8s.io/json
internal/golang/encoding/json/decode.go and kubernetes_patch.go.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeGuard

from apidiscovery_formats.go_json import without_surrogates
from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import go_time
from apidiscovery_service.kube.objects.go_structs import (
    ZEROS,
    Field,
    Scalar,
    Shape,
    Struct,
    as_mapping,
)
from apidiscovery_service.kube.objects.json_text import MAX_DEPTH, Number, Pairs, Tree

_MAX_PROBLEMS = 100  # kubernetes_patch.go, saveStrictError

_RANGES = {Scalar.INT32: 2**31, Scalar.INT64: 2**63}
_INTEGER = re.compile(r"-?[0-9]{1,20}", re.ASCII)


class Mistyped(ValueError):
    """A value is not of its field's type; the message is Go's."""


def read(struct: Struct, value: Tree) -> tuple[dict[str, JSONValue], tuple[str, ...]]:
    """Return the fields that a value sets, in no particular order, and its problems.

    Raises:
        Mistyped: A value in it is not of its field's type.
    """
    reader = _Reader()
    fields: dict[str, JSONValue] = {}
    if value is not None:
        reader.struct(struct, value, fields)
    if reader.mistyped is not None:
        raise Mistyped(reader.mistyped)
    return fields, tuple(reader.problems)


class _Reader:
    """Reads one value.

    Attributes:
        problems: Unknown and duplicate fields, in order, each once.
        mistyped: The error of the first value of a wrong type; None if there is none.
    """

    def __init__(self) -> None:
        self.problems: dict[str, None] = {}
        self.mistyped: str | None = None
        self._path = ""  # with indexes and keys of maps: for problems
        self._names: list[str] = []  # of fields alone: for errors
        self._struct = ""

    def struct(self, struct: Struct, value: Tree, into: dict[str, JSONValue]) -> None:
        """Read a struct; `into` has the fields of an earlier value of a repeated field."""
        pairs = _pairs(value)
        if pairs is None:
            self._mismatch(value, struct.go_type)
            return
        known = {field.name: field for field in struct.fields}
        seen: set[str] = set()
        path, outer = self._path, self._struct
        for key, item in pairs:
            field = known.get(key)
            if field is None:
                self._problem("unknown", key)
                continue
            self._note_duplicate(key, seen)
            self._struct = struct.go_type.partition(".")[2]
            self._path = f"{path}.{key}"
            self._names.append(key)
            self._field(field, item, into)
            self._names.pop()
            self._path, self._struct = path, outer

    def _field(self, field: Field, value: Tree, into: dict[str, JSONValue]) -> None:
        if value is None:
            # Go sets to nil what can be nil, Time to its zero, and leaves other values alone.
            if field.shape is not Shape.VALUE or field.type is Scalar.TIME:
                into.pop(field.name, None)
        elif field.shape is Shape.LIST:
            self._list(field, value, into)
        elif field.shape is Shape.STRING_MAP:
            self._string_map(field, value, into)
        else:
            into[field.name] = self._element(field, value, into.get(field.name))

    def _list(self, field: Field, value: Tree, into: dict[str, JSONValue]) -> None:
        if not _is_list(value):
            self._mismatch(value, field.go_type)
            return
        path = self._path
        elements: list[JSONValue] = []
        for index, item in enumerate(value):
            self._path = f"{path}[{index}]"
            elements.append(self._element(field, item, None))
        into[field.name] = elements

    def _string_map(self, field: Field, value: Tree, into: dict[str, JSONValue]) -> None:
        pairs = _pairs(value)
        if pairs is None:
            self._mismatch(value, field.go_type)
            return
        strings = dict(as_mapping(into.get(field.name)))
        seen: set[str] = set()
        for key, item in pairs:
            self._note_duplicate(key, seen)
            strings[without_surrogates(key)] = self._element(field, item, None)
        into[field.name] = strings

    def _element(self, field: Field, value: Tree, before: JSONValue) -> JSONValue:
        """Read one value; the result of a value of the wrong type does not matter."""
        if isinstance(field.type, Struct):
            fields = dict(as_mapping(before))
            if value is not None:
                self.struct(field.type, value, fields)
            return fields
        if field.type is Scalar.RAW_JSON:
            return plain(value)
        if field.type in _TIMES:
            return self._time(field.type, value)
        if value is None:
            return ZEROS[field.type]
        return self._scalar(field, field.type, value)

    def _scalar(self, field: Field, scalar: Scalar, value: Tree) -> JSONValue:
        if scalar is Scalar.STRING and isinstance(value, str) and not isinstance(value, Number):
            return without_surrogates(value)
        if scalar is Scalar.BOOL and isinstance(value, bool):
            return value
        number = _number(value)
        if number is None or scalar not in _RANGES:
            self._mismatch(value, field.element_go_type)
            return None
        limit = _RANGES[scalar]
        if _INTEGER.fullmatch(number) and -limit <= int(number) < limit:
            return int(number)
        self._mismatch(value, field.element_go_type, f"number {number}")
        return None

    def _time(self, scalar: Scalar, value: Tree) -> str | None:
        """Read a time; as an error of `UnmarshalJSON`, a failure ends reading at once."""
        if not isinstance(value, str) or isinstance(value, Number):
            self.mistyped = None
            self._mismatch(value, "string")
            raise Mistyped(self.mistyped)
        layout, text = _TIMES[scalar]
        try:
            return text(go_time.parse(value, layout))
        except go_time.Unparsable as error:
            raise Mistyped(str(error)) from None

    def _note_duplicate(self, key: str, seen: set[str]) -> None:
        if key in seen:
            self._problem("duplicate", key)
        seen.add(key)

    def _problem(self, what: str, key: str) -> None:
        if len(self.problems) == _MAX_PROBLEMS:
            return
        path = f"{self._path}.{key}".removeprefix(".")
        self.problems[f"{what} field {quote(without_surrogates(path))}"] = None

    def _mismatch(self, value: Tree, go_type: str, what: str = "") -> None:
        if self.mistyped is not None:
            return
        where = "Go value"
        if self._names:
            where = f"Go struct field {self._struct}.{'.'.join(self._names)}"
        self.mistyped = (
            f"json: cannot unmarshal {what or _what(value)} into {where} of type {go_type}"
        )


_TIMES: dict[Scalar, tuple[str, Callable[[int], str | None]]] = {
    Scalar.TIME: (go_time.RFC3339, go_time.seconds_text),
    Scalar.MICRO_TIME: (go_time.RFC3339_MICRO, go_time.micros_text),
}


def _pairs(value: Tree) -> Iterable[tuple[str, Tree]] | None:
    """Return the keys and values of an object; None for other values."""
    if isinstance(value, Pairs):
        return value
    return value.items() if isinstance(value, Mapping) else None


def _is_list(value: Tree) -> TypeGuard[Sequence[Tree]]:
    return isinstance(value, Sequence) and not isinstance(value, (str, Pairs))


def _number(value: Tree) -> str | None:
    """Return a number as it is written in JSON; None for other values."""
    if isinstance(value, Number):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return json.dumps(value)
    return None


def _what(value: Tree) -> str:
    if isinstance(value, bool):
        return "bool"
    if _number(value) is not None:
        return "number"
    if isinstance(value, str):
        return "string"
    return "array" if _is_list(value) else "object"


def plain(value: Tree, depth: int = 0) -> JSONValue:
    """Return a value as plain JSON; the last of repeated keys counts.

    Raises:
        Mistyped: It has a number beyond 64-bit floats, or more levels than `MAX_DEPTH`.
    """
    if depth > MAX_DEPTH:
        raise Mistyped("exceeded max depth")
    pairs = _pairs(value)
    if pairs is not None:
        return {without_surrogates(key): plain(item, depth + 1) for key, item in pairs}
    if _is_list(value):
        return [plain(item, depth + 1) for item in value]
    number = _number(value)
    if number is not None:
        return _plain_number(number)
    return (
        without_surrogates(value)
        if isinstance(value, str)
        else bool(value)
        if value is not None
        else None
    )


def _plain_number(text: str) -> float:
    if _INTEGER.fullmatch(text) and -(2**63) <= int(text) < 2**64:
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise Mistyped(f"json: cannot unmarshal number {text} into Go value of type float64")
    return number
