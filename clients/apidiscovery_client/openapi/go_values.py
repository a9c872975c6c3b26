"""Writes JSON values as Go's fmt prints them with `%v`."""

from decimal import Decimal
from typing import cast

_LEAST_PLAIN_EXPONENT, _LEAST_LARGE_EXPONENT = -4, 6


def go_text(value: object) -> str:
    """Return the text of a value that encoding/json decoded into `any`.

    Objects are in the order of their keys, as fmt sorts maps. The value must not be nested deeply.

    >>> go_text({"b": [1, "x"], "a": None})
    'map[a:<nil> b:[1 x]]'
    """
    if isinstance(value, dict):
        items = sorted(cast("dict[str, object]", value).items())
        return f"map[{' '.join(f'{key}:{go_text(item)}' for key, item in items)}]"
    if isinstance(value, list):
        return f"[{' '.join(map(go_text, cast('list[object]', value)))}]"
    if value is None or isinstance(value, bool):
        return "<nil>" if value is None else str(value).lower()
    return _number(value) if isinstance(value, (int, float)) else str(value)


def _number(value: float) -> str:
    """Return a float64 with the fewest digits; as `1e+06` from a million on, as `1e-05` below 1e-4.

    Source: Go strconv/ftoa.go `formatDigits`, format g with the shortest precision.
    """
    try:
        sign, digits, scale = Decimal(repr(float(value))).normalize().as_tuple()
    except OverflowError:  # an integer beyond float64, which encoding/json refuses
        return str(value)
    if not isinstance(scale, int):  # infinite, or no number
        return {"F": "-Inf" if sign else "+Inf"}.get(scale, "NaN")
    power = scale + len(digits) - 1
    if _LEAST_PLAIN_EXPONENT <= power < _LEAST_LARGE_EXPONENT:
        return f"{Decimal((sign, digits, scale)):f}"
    mantissa = "".join(map(str, digits))
    fraction = f".{mantissa[1:]}" if mantissa[1:] else ""
    return f"{'-' * sign}{mantissa[0]}{fraction}e{power:+03d}"
