"""The YAML text inside gnostic's `Any`, byte for byte, and back.

gnostic reads the JSON of a document *as YAML* into nodes of go.yaml.in/yaml/v3 (v3.0.4), clears
their styles, and writes each example, default, value of an enumeration and extension with that
library (compiler/helpers.go, `Marshal`). File names below are those of go.yaml.in/yaml/v3. What
differs from `go_yaml`, which is v2 of the library, given plain maps:

- Keys stay in the order of the document, and numbers as they were written: `1.0`, `1E5`.
- Four columns for each level, lists too; two after the dash of a list.
- No line is folded.
- Only text that YAML 1.2 reads as something else is quoted: `yes`, `off`, `1:30` and `=` are plain.

gnostic loses or refuses some JSON, for it reads JSON as YAML: U+0085 becomes a space, and U+007F to
U+009F, U+FFFE, U+FFFF, surrogate pairs in escapes and keys of more than 1024 characters are errors.
Here they are characters like any other.

No parser can read back some texts of several lines: those in a list, or in an object in a list,
that begin with a space or a line break, for their indentation hint says four columns where there
are two; and those that end with U+2028 or U+2029, which YAML 1.2 does not treat as the end of a
line.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from apidiscovery_formats.yaml_scalars import (
    ANY_BREAK,
    BREAKS,
    NOT_PLAIN,
    PRINTABLE,
    WORDS,
    Style,
    escaped,
    fits_64_bits,
    is_number_or_date,
    literal,
)

from apidiscovery_service.kube.objects.json_text import Number
from apidiscovery_service.openapi.protobuf.encoder import Misfit, Value

# Each line of a deep value has its indentation: a few bytes of JSON are up to 256 bytes of YAML.
MAX_LEVELS = 64

_DASH = 2


def dump(value: Value) -> str:
    r"""Return the YAML of *value*, ending in a line break as the library writes it.

    Raises:
        Misfit: It nests deeper than `MAX_LEVELS`. Lone surrogates are left to the caller.

    >>> dump({"rules": [{"rule": "self > 0"}, "yes"], "a": None})
    'rules:\n    - rule: self > 0\n    - yes\na: null\n'
    """
    out: list[str] = []
    _write(out, value, "", _Layout(0, INDENT, MAX_LEVELS))
    return "".join(out)


class _Layout(NamedTuple):
    """The layout of a value.

    Attributes:
        indent: Columns before its entries, if it is a collection.
        lines: Columns before its lines, if it is a text of several lines.
        levels: The nested collections that it may have.
    """

    indent: int
    lines: int
    levels: int


def _write(out: list[str], value: Value, lead: str, layout: _Layout) -> None:
    """Write a value behind *lead*, which stands on the line, as long as its indentation."""
    if not value or not isinstance(value, (dict, list)):
        out.append(lead + _leaf(value, layout.lines))
    elif not layout.levels:
        raise Misfit(f"want at most {MAX_LEVELS} levels of nesting in a value of any type")
    elif isinstance(value, dict):
        _mapping(out, value, lead, layout)
    else:
        _sequence(out, value, lead, layout)


def _sequence(out: list[str], items: list[Value], lead: str, layout: _Layout) -> None:
    pad = " " * layout.indent
    column = layout.indent + _DASH
    inner = _Layout(column, column, layout.levels - 1)
    for item in items:
        _write(out, item, lead + "- ", inner)
        lead = pad


def _mapping(out: list[str], entries: dict[str, Value], lead: str, layout: _Layout) -> None:
    pad = " " * layout.indent
    # emitterc.go, yaml_emitter_increase_indent
    column = layout.indent - layout.indent % INDENT + INDENT
    inner = _Layout(column, column, layout.levels - 1)
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


INDENT = 4  # columns: encode.go, encoder.init
_MAX_SIMPLE_KEY_BYTES = 128  # emitterc.go, yaml_emitter_check_simple_key

# --------------------------------------------------------------------------------------------------
# Style of a string: asked for by encode.go, encoder.node; granted or refused by emitterc.go,
# yaml_emitter_select_scalar_style, for what yaml_emitter_analyze_scalar found in the text.

_NOT_LITERAL = re.compile(f"[^\t{PRINTABLE}]| [{BREAKS}]| \\Z")
_NOT_SINGLE_QUOTED = re.compile(f"[^{PRINTABLE}]| [{BREAKS}]|[{BREAKS}] ")


def _style(text: str) -> Style:
    if "\n" in text:
        return Style.DOUBLE_QUOTED if _NOT_LITERAL.search(text) else Style.LITERAL
    if _resolves(text) or _NOT_SINGLE_QUOTED.search(text):
        return Style.DOUBLE_QUOTED
    return Style.SINGLE_QUOTED if NOT_PLAIN.search(text) else Style.PLAIN


def string(text: str, lines: int) -> str:
    """Return a string or a number, to the end of its last line.

    Args:
        text: The string itself.
        lines: Columns before its lines after the first, if it has any.
    """
    if isinstance(text, Number):
        return text + "\n"
    style, whole = (_kept_scalar if len(text) <= _KEPT_LENGTH else _scalar)(text)
    if style is Style.LITERAL:
        return literal(text, lines, INDENT)
    if style is Style.SINGLE_QUOTED:
        indented = _LINE_START.sub(" " * lines, text)
        return "'" + indented.replace("'", "''") + "'\n"
    return whole + "\n"


def simple_key(key: str) -> str | None:
    """Return *key* as it stands before `:`, or None if it stands after `?` (check_simple_key)."""
    if ANY_BREAK.search(key) or len(key.encode("utf-8", "surrogatepass")) > _MAX_SIMPLE_KEY_BYTES:
        return None
    return string(key, 0)[:-1]


def _scalar(text: str) -> tuple[Style, str]:
    """Return the style of a string, and its text if that does not depend on its layout."""
    style = _style(text)
    if style is Style.DOUBLE_QUOTED:
        text = f'"{escaped(text)}"'
    return style, text


_KEPT_LENGTH = 64  # characters: names and words, which come again and again
_kept_scalar = lru_cache(maxsize=16_384)(_scalar)

_LINE_START = re.compile(f"(?<=[{BREAKS}])(?=[^{BREAKS}])")

# --------------------------------------------------------------------------------------------------
# What a string would be to the library if it had no quotes: resolve.go, resolve.

_SIGN_AFTER_0O = re.compile(r"0o([-+])[0-7]+")  # strconv.ParseInt(plain[2:], 8, 64)


def _resolves(text: str) -> bool:
    """Whether *text* without quotes would be read as something else than a string."""
    return (
        text in WORDS
        or is_number_or_date(text)
        or (text[0] == "0" and fits_64_bits(_SIGN_AFTER_0O.fullmatch(text.replace("_", ""))))
    )
