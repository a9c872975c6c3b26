"""Strings as go.yaml.in/yaml/v3 writes those of nodes that have no style.

File names below are those of go.yaml.in/yaml/v3 (v3.0.4).
"""

import re
from enum import Enum
from functools import lru_cache

from apidiscovery_formats.yaml_scalars import (
    ANY_BREAK,
    BREAKS,
    NOT_PLAIN,
    PRINTABLE,
    WORDS,
    escaped,
    fits_64_bits,
    is_number_or_date,
)

from apidiscovery_service.openapi.protobuf.json_reader import Number

INDENT = 4  # columns: encode.go, encoder.init
_MAX_SIMPLE_KEY_BYTES = 128  # emitterc.go, yaml_emitter_check_simple_key

# --------------------------------------------------------------------------------------------------
# Style of a string: asked for by encode.go, encoder.node; granted or refused by emitterc.go,
# yaml_emitter_select_scalar_style, for what yaml_emitter_analyze_scalar found in the text.


class _Style(Enum):
    PLAIN = ""
    SINGLE_QUOTED = "'"
    DOUBLE_QUOTED = '"'
    LITERAL = "|"


_NOT_LITERAL = re.compile(f"[^\t{PRINTABLE}]| [{BREAKS}]| \\Z")
_NOT_SINGLE_QUOTED = re.compile(f"[^{PRINTABLE}]| [{BREAKS}]|[{BREAKS}] ")


def _style(text: str) -> _Style:
    if "\n" in text:
        return _Style.DOUBLE_QUOTED if _NOT_LITERAL.search(text) else _Style.LITERAL
    if _resolves(text) or _NOT_SINGLE_QUOTED.search(text):
        return _Style.DOUBLE_QUOTED
    return _Style.SINGLE_QUOTED if NOT_PLAIN.search(text) else _Style.PLAIN


def string(text: str, lines: int) -> str:
    """Return a string or a number, to the end of its last line.

    Args:
        text: The string itself.
        lines: Columns before its lines after the first, if it has any.
    """
    if isinstance(text, Number):
        return text + "\n"
    style, whole = (_kept_scalar if len(text) <= _KEPT_LENGTH else _scalar)(text)
    if style is _Style.LITERAL:
        return _literal(text, lines)
    if style is _Style.SINGLE_QUOTED:
        indented = _LINE_START.sub(" " * lines, text)
        return "'" + indented.replace("'", "''") + "'\n"
    return whole + "\n"


def simple_key(key: str) -> str | None:
    """Return *key* as it stands before `:`, or None if it stands after `?` (check_simple_key)."""
    if ANY_BREAK.search(key) or len(key.encode("utf-8", "surrogatepass")) > _MAX_SIMPLE_KEY_BYTES:
        return None
    return string(key, 0)[:-1]


def _scalar(text: str) -> tuple[_Style, str]:
    """Return the style of a string, and its text if that does not depend on its place."""
    style = _style(text)
    if style is _Style.DOUBLE_QUOTED:
        text = f'"{escaped(text)}"'
    return style, text


_KEPT_LENGTH = 64  # characters: names and words, which come again and again
_kept_scalar = lru_cache(maxsize=16_384)(_scalar)

_LINE_START = re.compile(f"(?<=[{BREAKS}])(?=[^{BREAKS}])")
_LITERAL_LINE_START = re.compile(f"(?:\\A|(?<=[{BREAKS}]))(?=[^{BREAKS}])")


def _literal(text: str, lines: int) -> str:
    """Return the block that begins with `|`, and hints at indentation and at the last breaks.

    Nothing follows a last line that ends with a break of its own.
    """
    indentation = str(INDENT) if text[0] in " " + BREAKS else ""
    chomping, end = "", ""
    if text[-1] not in BREAKS:
        chomping, end = "-", "\n"
    elif len(text) == 1 or text[-2] in BREAKS:
        chomping = "+"
    return f"|{indentation}{chomping}\n{_LITERAL_LINE_START.sub(' ' * lines, text)}{end}"


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
