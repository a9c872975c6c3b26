"""Strings as go.yaml.in/yaml/v3 writes those of nodes that have no style.

File names below are those of go.yaml.in/yaml/v3 (v3.0.4).
"""

import math
import re
from enum import Enum
from functools import lru_cache

from apidiscovery_service.openapi.wire_json import Number

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


# The line breaks that are printable (yamlprivateh.go, is_break and is_printable); a text with
# another one is in double quotes. Surrogates are let through for whoever encodes it to refuse.
_BREAKS = "\n\u2028\u2029"
_PRINTABLE = "\n\\x20-\\x7e\\xa0-\ufefe\uff00-\ufffd"

_NOT_LITERAL = re.compile(f"[^\t{_PRINTABLE}]| [{_BREAKS}]| \\Z")
_NOT_SINGLE_QUOTED = re.compile(f"[^{_PRINTABLE}]| [{_BREAKS}]|[{_BREAKS}] ")
_NOT_PLAIN = re.compile(
    r"""
      \A (?: --- | \.\.\. | [#,\[\]{}&*!|>'"%@`\ ] | [?-](?:\ |\Z) )
    | : (?:\ |\Z)
    | \ (?: \# | \Z)
    | [\u2028\u2029]
    """,
    re.VERBOSE,
)


def _style(text: str) -> _Style:
    if "\n" in text:
        return _Style.DOUBLE_QUOTED if _NOT_LITERAL.search(text) else _Style.LITERAL
    if _resolves(text) or _NOT_SINGLE_QUOTED.search(text):
        return _Style.DOUBLE_QUOTED
    return _Style.SINGLE_QUOTED if _NOT_PLAIN.search(text) else _Style.PLAIN


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
    if _ANY_BREAK.search(key) or len(key.encode("utf-8", "surrogatepass")) > _MAX_SIMPLE_KEY_BYTES:
        return None
    return string(key, 0)[:-1]


def _scalar(text: str) -> tuple[_Style, str]:
    """Return the style of a string, and its text if that does not depend on its place."""
    style = _style(text)
    if style is _Style.DOUBLE_QUOTED:
        # is_bom looks at the start of the string, whatever position it is asked about.
        escaped = _ANY if text.startswith("\ufeff") else _ESCAPED
        text = f'"{escaped.sub(_escape, text)}"'
    return style, text


_KEPT_LENGTH = 64  # characters: names and words, which come again and again
_kept_scalar = lru_cache(maxsize=16_384)(_scalar)

_ANY_BREAK = re.compile("[\r\n\x85\u2028\u2029]")  # yamlprivateh.go, is_break
_LINE_START = re.compile(f"(?<=[{_BREAKS}])(?=[^{_BREAKS}])")
_LITERAL_LINE_START = re.compile(f"(?:\\A|(?<=[{_BREAKS}]))(?=[^{_BREAKS}])")


def _literal(text: str, lines: int) -> str:
    """Return the block that begins with `|`, and hints at indentation and at the last breaks.

    Nothing follows a last line that ends with a break of its own.
    """
    indentation = str(INDENT) if text[0] in " " + _BREAKS else ""
    chomping, end = "", ""
    if text[-1] not in _BREAKS:
        chomping, end = "-", "\n"
    elif len(text) == 1 or text[-2] in _BREAKS:
        chomping = "+"
    return f"|{indentation}{chomping}\n{_LITERAL_LINE_START.sub(' ' * lines, text)}{end}"


_ANY = re.compile(".", re.DOTALL)
_ESCAPED = re.compile(f'[^{_PRINTABLE}]|["\\\\{_BREAKS}]')
_NAMED_ESCAPES = {  # emitterc.go, yaml_emitter_write_double_quoted_scalar
    "\0": "\\0",
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    "\x1b": "\\e",
    '"': '\\"',
    "\\": "\\\\",
    "\x85": "\\N",
    "\xa0": "\\_",
    "\u2028": "\\L",
    "\u2029": "\\P",
}


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    if char in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[char]
    if code <= 0xFF:  # noqa: PLR2004 - two, four or eight digits
        return f"\\x{code:02X}"
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"  # noqa: PLR2004


# --------------------------------------------------------------------------------------------------
# What a string would be to the library if it had no quotes: resolve.go, resolve.

_WORDS = frozenset(
    {
        *("true", "True", "TRUE", "false", "False", "FALSE"),
        *("", "~", "null", "Null", "NULL"),
        *(".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"),
        *("+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"),
        # `<<` is in resolve's table too, but nothing that begins with `<` is looked up there.
    },
)

# The next four: once the underscores are taken out. Decimals are among the floats.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_PREFIXED_INT = re.compile(r"([-+]?)0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_SIGN_AFTER_0B = re.compile(r"0b([-+])[01]+")  # strconv.ParseInt(plain[2:], 2, 64)
_SIGN_AFTER_0O = re.compile(r"0o([-+])[0-7]+")
_LARGEST = {"": 2**64 - 1, "+": 2**63 - 1, "-": 2**63}  # by sign: ParseInt or ParseUint

# strconv.ParseFloat gets what begins with a dot, and has underscores only between digits.
_DOTTED_FLOAT = re.compile(r"\.[0-9]+(?:_[0-9]+)*(?:[eE][-+]?[0-9]+(?:_[0-9]+)*)?")

# resolve.go, allowedTimestampFormats as time.Parse takes them: one digit will do for two, several
# spaces for one, a comma for the dot, an offset of up to 24:60.
_TIMESTAMP = re.compile(
    r"""
    (?P<year>[0-9]{4}) - (?P<month>[0-9]{1,2}) - (?P<day>[0-9]{1,2})
    (?:
        (?: (?P<zoned>[Tt]) | \ + )
        (?: [01]?[0-9] | 2[0-3] ) : [0-5]?[0-9] : [0-5]?[0-9] (?: [.,][0-9]+ )?
        (?(zoned) (?: Z | [-+] (?: [01][0-9] | 2[0-4] ) : (?: [0-5][0-9] | 60 ) ) )
    )?
    """,
    re.VERBOSE,
)


def _resolves(text: str) -> bool:
    """Whether *text* without quotes would be read as something else than a string."""
    if text in _WORDS:
        return True
    if text[0] not in "+-.0123456789":
        return False
    if text[0] == ".":
        return _is_finite(_DOTTED_FLOAT.fullmatch(text))
    plain = text.replace("_", "")
    return (
        _is_date(_TIMESTAMP.fullmatch(text))
        or _is_finite(_FLOAT.fullmatch(plain))
        or _fits_64_bits(_PREFIXED_INT.fullmatch(plain))
        or _fits_64_bits(_SIGN_AFTER_0B.fullmatch(plain))
        or _fits_64_bits(_SIGN_AFTER_0O.fullmatch(plain))
    )


def _is_finite(number: re.Match[str] | None) -> bool:
    return number is not None and math.isfinite(float(number[0]))


def _fits_64_bits(number: re.Match[str] | None) -> bool:
    if number is None:
        return False
    sign = number[1]
    unsigned = number[0].replace(sign, "", 1)
    return int(unsigned, base=0) <= _LARGEST[sign]


def _is_date(timestamp: re.Match[str] | None) -> bool:
    if timestamp is None:
        return False
    year, month, day = (int(timestamp[name]) for name in ("year", "month", "day"))
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    days = (31, 29 if leap else 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
    return 1 <= month <= len(days) and 1 <= day <= days[month - 1]
