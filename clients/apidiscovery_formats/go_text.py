"""Text as Go's fmt and strconv read and write it, and ages as kubectl does.

It makes messages equal to those of Kubernetes.
"""

import math
from collections.abc import Sequence
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

_MINUTE_S, _HOUR_S, _DAY_S, _YEAR_S = 60, 3600, 86_400, 365 * 86_400
# Unit in seconds and its letter, the limit of ages in it, and the smaller unit shown with it.
_AGES: Sequence[tuple[int, str, float, int, str]] = (
    (1, "s", 2 * _MINUTE_S, 0, ""),
    (_MINUTE_S, "m", 10 * _MINUTE_S, 1, "s"),
    (_MINUTE_S, "m", 3 * _HOUR_S, 0, ""),
    (_HOUR_S, "h", 8 * _HOUR_S, _MINUTE_S, "m"),
    (_HOUR_S, "h", 2 * _DAY_S, 0, ""),
    (_DAY_S, "d", 8 * _DAY_S, _HOUR_S, "h"),
    (_DAY_S, "d", 2 * _YEAR_S, 0, ""),
    (_YEAR_S, "y", 8 * _YEAR_S, _DAY_S, "d"),
    (_YEAR_S, "y", math.inf, 0, ""),
)


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


def human_duration(seconds: int) -> str:
    """Return an age such as 90s, 5m10s, 3h, 2d4h or 1y30d.

    A second in the future is `0s`, since clocks differ; more is `<invalid>`. Source: apimachinery
    pkg/util/duration/duration.go `HumanDuration`.
    """
    if seconds < 0:
        return "0s" if seconds == -1 else "<invalid>"
    unit_s, unit, _, part_s, part = next(row for row in _AGES if seconds < row[2])
    rest = seconds % unit_s // part_s if part_s else 0
    return f"{seconds // unit_s}{unit}" + (f"{rest}{part}" if rest else "")
