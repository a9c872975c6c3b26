"""Rules for scalars that both versions of go-yaml share: styles, escapes, numbers and dates.

Source: resolve.go, emitterc.go and yamlprivateh.go of gopkg.in/yaml.v2 and go.yaml.in/yaml/v3
(v3.0.4), which agree in all that is here.
"""

import math
import re
from enum import Enum

# The line breaks that are printable (is_break and is_printable): others are only in double quotes.
BREAKS = "\n\u2028\u2029"
ANY_BREAK = re.compile("[\r\n\x85\u2028\u2029]")  # is_break

# For a class of characters: is_printable; surrogates pass, and fail when encoded.
PRINTABLE = "\n\\x20-\\x7e\\xa0-\ufefe\uff00-\ufffd"

# What an unquoted string may not begin with or contain: yaml_emitter_analyze_scalar.
NOT_PLAIN = re.compile(
    r"""
      \A (?: --- | \.\.\. | [#,\[\]{}&*!|>'"%@`\ ] | [?-](?:\ |\Z) )
    | : (?:\ |\Z)
    | \ (?: \# | \Z)
    | [\u2028\u2029]
    """,
    re.VERBOSE,
)

_ANY = re.compile(".", re.DOTALL)
_ESCAPED = re.compile(f'[^{PRINTABLE}]|["\\\\{BREAKS}]')
_NAMED_ESCAPES = {  # yaml_emitter_write_double_quoted_scalar
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


def escaped(text: str) -> str:
    """Return a string escaped for double quotes, in one line."""
    # is_bom looks at the start of the string, whatever position it is asked about.
    return (_ANY if text.startswith("\ufeff") else _ESCAPED).sub(_escape, text)


class Style(Enum):
    """How a string is written; the value is the character before its text."""

    PLAIN = ""
    SINGLE_QUOTED = "'"
    DOUBLE_QUOTED = '"'
    LITERAL = "|"


_LINE_START = re.compile(f"(?:\\A|(?<=[{BREAKS}]))(?=[^{BREAKS}])")


def literal(text: str, lines: int, indent: int) -> str:
    """Return the block that begins with `|`, and hints at indentation and at the last breaks.

    Nothing follows a last line that ends with a break of its own.

    Args:
        text: The string; not empty.
        lines: Columns before its lines.
        indent: Columns of a level, the hint where the first line begins with a space or a break.
    """
    indentation = str(indent) if text[0] in " " + BREAKS else ""
    chomping, end = "", ""
    if text[-1] not in BREAKS:
        chomping, end = "-", "\n"
    elif len(text) == 1 or text[-2] in BREAKS:
        chomping = "+"
    return f"|{indentation}{chomping}\n{_LINE_START.sub(' ' * lines, text)}{end}"


# Words that are not strings, beside numbers and dates: resolve.go, init.
# `<<` is in that table too, but nothing that begins with `<` is looked up there.
WORDS = frozenset(
    {
        *("true", "True", "TRUE", "false", "False", "FALSE"),
        *("", "~", "null", "Null", "NULL"),
        *(".nan", ".NaN", ".NAN", ".inf", ".Inf", ".INF"),
        *("+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"),
    },
)

# The next three: once the underscores are taken out. Decimals are among the floats, as are
# octals that begin with a bare 0.
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_PREFIXED_INT = re.compile(r"([-+]?)0(?:[xX][0-9a-fA-F]+|[oO][0-7]+|[bB][01]+)")
_SIGN_AFTER_0B = re.compile(r"0b([-+])[01]+")  # strconv.ParseInt(plain[2:], 2, 64)
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


def is_number_or_date(text: str) -> bool:
    """Return whether a string, not empty, would be read as a number or a date without quotes."""
    if text[0] not in "+-.0123456789":
        return False
    if text[0] == ".":
        return _is_finite(_DOTTED_FLOAT.fullmatch(text))
    plain = text.replace("_", "")
    return (
        _is_date(_TIMESTAMP.fullmatch(text))
        or _is_finite(_FLOAT.fullmatch(plain))
        or fits_64_bits(_PREFIXED_INT.fullmatch(plain) or _SIGN_AFTER_0B.fullmatch(plain))
    )


def _is_finite(number: re.Match[str] | None) -> bool:
    return number is not None and math.isfinite(float(number[0]))


def fits_64_bits(number: re.Match[str] | None) -> bool:
    """Return whether a match is an integer of 64 bits; its first group is the sign."""
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
