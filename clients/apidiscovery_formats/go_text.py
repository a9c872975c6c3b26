"""Text as Go's fmt and strconv read and write it, for messages equal to those of Kubernetes."""

import math
from decimal import Decimal
from typing import cast

_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))
_FALSE = frozenset(("0", "f", "F", "false", "FALSE", "False"))

_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_FIRST_SUPPLEMENTARY = 0x10000
_BYTES = range(0xDC80, 0xDD00)  # bytes that are not UTF-8, by `surrogateescape`


def quote(text: str) -> str:
    """Return text in double quotes as `%q` does. Source: strconv.Quote."""
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(character: str) -> str:
    if character.isprintable() and character not in _ESCAPES:
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if code < ord(" ") or code == 0x7F:  # noqa: PLR2004 - DEL
        return f"\\x{code:02x}"
    if code in _BYTES:
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < _FIRST_SUPPLEMENTARY else f"\\U{code:08x}"


def plain(value: object) -> str:
    """Return a JSON value as `%v` prints what encoding/json decodes it to.

    Keys are sorted and strings not quoted; all numbers are floats. The value must not be nested
    deeply. Source: fmt's print.go, `printValue`.

    >>> plain({"b": [1000000, "x"], "a": None})
    'map[a:<nil> b:[1e+06 x]]'
    """
    if isinstance(value, dict):
        items = sorted(cast("dict[str, object]", value).items())
        return f"map[{' '.join(f'{key}:{plain(item)}' for key, item in items)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(plain, cast('list[object]', value)))}]"
    if value is None or isinstance(value, bool):
        return "<nil>" if value is None else str(value).lower()
    if not isinstance(value, (int, float)):
        return str(value)
    try:
        return float_text(float(value))
    except OverflowError:  # an integer beyond float64, which encoding/json refuses
        return str(value)


def float_text(value: float) -> str:
    """Return what `strconv.FormatFloat(value, 'g', -1, 64)` does: the fewest digits.

    An exponent below -4 or above 5 is written.

    >>> [float_text(x) for x in (1.0, 999999.5, 1e6, 0.0001, 2.5e-5, -0.0)]
    ['1', '999999.5', '1e+06', '0.0001', '2.5e-05', '-0']
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'+' if value > 0 else '-'}Inf"
    shortest = repr(value)
    if value == 0 or 1e-4 <= abs(value) < 1e6:  # noqa: PLR2004 - as the docstring says
        return shortest.removesuffix(".0")
    digits, _, exponent = f"{Decimal(shortest).normalize():e}".partition("e")
    return f"{digits}e{int(exponent):+03}"


def parse_bool(text: str) -> bool | None:
    """Return the value of a text by strconv.ParseBool; None for an error."""
    if text in _TRUE:
        return True
    return False if text in _FALSE else None
