"""The YAML text inside gnostic's `Any`, byte for byte, and back.

gnostic reads the JSON of a document *as YAML* into nodes of go.yaml.in/yaml/v3 (v3.0.4), clears
their styles, and writes each example, default, value of an enumeration and extension with that
library (compiler/helpers.go, `Marshal`). File names below are those of go.yaml.in/yaml/v3. What
differs from `go_yaml`, which is v2 of the library, given plain maps:

- Keys stay in the order of the document, and numbers as they were written: `1.0`, `1E5`.
- Four columns for each level, lists too; two after the dash of a list.
- No line is folded.
- Only what YAML 1.2 takes for something else is quoted: `yes`, `off`, `1:30` and `=` are plain.

gnostic loses or refuses some JSON, for it reads it as YAML: U+0085 becomes a space, and U+007F to
U+009F, U+FFFE, U+FFFF, surrogate pairs in escapes and keys of more than 1024 characters are errors.
Here they are characters like any other.

Some texts of several lines cannot be read back, by anybody: those that begin with a space or a line
break and stand in a list, or in an object in a list, for the hint at their indentation says four
columns, and there are two; and those that end with U+2028 or U+2029, which readers of YAML 1.2 do
not take for the end of a line.
"""

from typing import NamedTuple

from apidiscovery_service.openapi.protobuf.any_yaml_scalars import INDENT, simple_key, string
from apidiscovery_service.openapi.protobuf.json_reader import Value
from apidiscovery_service.openapi.protobuf.scalars import Misfit

# Each line of a deep value has its indentation: a few bytes of JSON are up to 256 bytes of YAML.
MAX_LEVELS = 64

_DASH = 2


def dump(value: Value) -> str:
    r"""Return the YAML of *value*, ending in a line break as the library writes it.

    Raises:
        Misfit: It nests deeper than `MAX_LEVELS`. (An unpaired surrogate is left for whoever
            encodes the text.)

    >>> dump({"rules": [{"rule": "self > 0"}, "yes"], "a": None})
    'rules:\n    - rule: self > 0\n    - yes\na: null\n'
    """
    out: list[str] = []
    _write(out, value, "", _Place(0, INDENT, MAX_LEVELS))
    return "".join(out)


class _Place(NamedTuple):
    """Where a value stands.

    Attributes:
        indent: Columns before its entries, if it is a collection.
        lines: Columns before its lines, if it is a text of several.
        levels: How many collections it may be.
    """

    indent: int
    lines: int
    levels: int


def _write(out: list[str], value: Value, lead: str, place: _Place) -> None:
    """Write a value behind *lead*, which stands on the line, as long as its indentation."""
    if not value or not isinstance(value, (dict, list)):
        out.append(lead + _leaf(value, place.lines))
    elif not place.levels:
        raise Misfit(f"want at most {MAX_LEVELS} levels of nesting in a value of any type")
    elif isinstance(value, dict):
        _mapping(out, value, lead, place)
    else:
        _sequence(out, value, lead, place)


def _sequence(out: list[str], items: list[Value], lead: str, place: _Place) -> None:
    pad = " " * place.indent
    column = place.indent + _DASH
    inner = _Place(column, column, place.levels - 1)
    for item in items:
        _write(out, item, lead + "- ", inner)
        lead = pad


def _mapping(out: list[str], entries: dict[str, Value], lead: str, place: _Place) -> None:
    pad = " " * place.indent
    # emitterc.go, yaml_emitter_increase_indent
    column = place.indent - place.indent % INDENT + INDENT
    inner = _Place(column, column, place.levels - 1)
    for key, value in entries.items():
        simple = simple_key(key)
        nested = bool(value) and isinstance(value, (dict, list))
        if simple is None:
            out.append(f"{lead}? {string(key, column)}")
            _write(out, value, f"{pad}:".ljust(column) if nested else f"{pad}: ", inner)
        elif nested:
            out.append(f"{lead}{simple}:\n")
            _write(out, value, " " * column, inner)
        else:
            out.append(f"{lead}{simple}: {_leaf(value, column)}")
        lead = pad


def _leaf(value: Value, lines: int) -> str:
    """Return a scalar or an empty collection, to the end of its last line."""
    if isinstance(value, str):
        return string(value, lines)
    if value is None:
        return "null\n"
    if isinstance(value, bool):
        return "true\n" if value else "false\n"
    return "{}\n" if isinstance(value, dict) else "[]\n"
