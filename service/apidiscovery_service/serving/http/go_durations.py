"""Durations as Go's standard library reads them."""

import re

_NUMBER_AND_UNIT = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")
_NS = 1
_US = 1000 * _NS
_MS = 1000 * _US
_S = 1000 * _MS
_UNITS_NS = {
    "ns": _NS,
    "us": _US,
    "\u00b5s": _US,  # the micro sign
    "\u03bcs": _US,  # the Greek letter mu
    "ms": _MS,
    "s": _S,
    "m": 60 * _S,
    "h": 3600 * _S,
}
_SPACE = 0x20
_FIRST_NON_ASCII = 0x80

_MAX_NS = 2**63  # as a magnitude; only -2**63 itself reaches it


def duration_error(text: str) -> str | None:
    """Return what time.ParseDuration says against a duration, None if it is well-formed."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return None
    invalid = f"time: invalid duration {_quote(text)}"
    if not rest:
        return invalid
    total_ns = 0
    while rest:
        match = _NUMBER_AND_UNIT.match(rest)
        if match is None:
            return invalid
        unit = match["unit"]
        if not unit:
            return f"time: missing unit in duration {_quote(text)}"
        if unit not in _UNITS_NS:
            return f"time: unknown unit {_quote(unit)} in duration {_quote(text)}"
        total_ns += _nanoseconds(match["number"], _UNITS_NS[unit])
        rest = rest[match.end() :]
    most = _MAX_NS if text.startswith("-") else _MAX_NS - 1
    return invalid if total_ns > most else None


def _nanoseconds(number: str, unit_ns: int) -> int:
    whole, _, fraction = number.partition(".")
    # Digits beyond the 19th are below a nanosecond of any unit.
    fraction = fraction[:19]
    scale: int = 10 ** len(fraction)
    return int(whole[:40] or "0") * unit_ns + int(fraction or "0") * unit_ns // scale


def _quote(text: str) -> str:
    """Return text as time's own `quote` does, which is not strconv's."""
    quoted = [
        f"\\{chr(byte)}"
        if byte in b'"\\'
        else chr(byte)
        if _SPACE <= byte < _FIRST_NON_ASCII
        else f"\\x{byte:02x}"
        for byte in text.encode("utf-8", "surrogateescape")
    ]
    return f'"{"".join(quoted)}"'
