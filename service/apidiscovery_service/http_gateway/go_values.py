"""Query parameters as Go's standard library reads them."""

import re

_PARSE_BOOL_TRUE = frozenset(("1", "t", "T", "true", "TRUE", "True"))

_NUMBER_AND_UNIT = re.compile(r"(?P<number>[0-9]+\.?[0-9]*|\.[0-9]+)(?P<unit>[^0-9.]*)")
_UNITS = frozenset(("ns", "us", "µs", "μs", "ms", "s", "m", "h"))


def parse_bool(text: str) -> bool:
    """Return what strconv.ParseBool makes of it, with its errors as False."""
    return text in _PARSE_BOOL_TRUE


def duration_error(text: str) -> str | None:
    """Return what time.ParseDuration says against a duration, None if it is well-formed."""
    rest = text[1:] if text[:1] in ("+", "-") else text
    if rest == "0":
        return None
    invalid = f'time: invalid duration "{text}"'
    if not rest:
        return invalid
    while rest:
        match = _NUMBER_AND_UNIT.match(rest)
        if match is None:
            return invalid
        if not match["unit"]:
            return f'time: missing unit in duration "{text}"'
        if match["unit"] not in _UNITS:
            return f'time: unknown unit "{match["unit"]}" in duration "{text}"'
        rest = rest[match.end() :]
    return None
