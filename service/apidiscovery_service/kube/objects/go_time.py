"""Parses and formats metav1.Time and metav1.MicroTime as Go's package time does.

An instant is the number of microseconds since 1970 in UTC; `ZERO` is Go's zero time, `null` in
JSON. Sources: Go's time/format.go (Parse); apimachinery pkg/apis/meta/v1/time.go and
micro_time.go.
"""

import re
from datetime import UTC, datetime, timedelta

from apidiscovery_formats.go_text import quote
from apidiscovery_formats.times import time_text

RFC3339 = "2006-01-02T15:04:05Z07:00"
RFC3339_MICRO = "2006-01-02T15:04:05.000000Z07:00"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MICROSECONDS = 1_000_000
ZERO = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND

# The parts of a layout and their patterns; Go accepts one digit for the hour too.
_START = (
    ("2006", r"\d{4}"),
    ("-", "-"),
    ("01", r"\d\d"),
    ("-", "-"),
    ("02", r"\d\d"),
    ("T", "T"),
    ("15", r"\d\d?"),
    (":", ":"),
    ("04", r"\d\d"),
    (":", ":"),
)
_ZONE = ("Z07:00", r"Z|[-+]\d\d:\d\d")


def _compiled(*parts: tuple[str, str]) -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((part, re.compile(pattern, re.ASCII)) for part, pattern in (*_START, *parts))


# Go accepts a fraction that the layout does not have.
_LAYOUTS = {
    RFC3339: _compiled(("05", r"\d\d(?:[.,]\d+)?"), _ZONE),
    RFC3339_MICRO: _compiled(("05", r"\d\d"), (".000000", r"[.,]\d{6}"), _ZONE),
}

_LIMITS = (
    ("month", "01", 1, 12),
    ("day", "02", 1, 31),
    ("hour", "15", 0, 23),
    ("minute", "04", 0, 59),
    ("second", "05", 0, 59),
)
_MAX_ZONE_HOURS = 24  # time.Parse takes up to 24:60
_MAX_ZONE_MINUTES = 60


class Unparsable(ValueError):
    """A text is not a time; the message is that of Go's `time.ParseError`."""


def parse(text: str, layout: str) -> int:
    """Return the instant of a text.

    Args:
        text: Such as `2026-01-02T03:04:05Z`.
        layout: `RFC3339` or `RFC3339_MICRO`.

    Raises:
        Unparsable: It is not in the layout, or no instant of the years 1 to 9999 in UTC.
    """
    parts = _split(text, layout)
    clock = [int(parts["2006"])]
    for name, part, least, most in _LIMITS:
        number = int(parts[part][:2])
        if not least <= number <= most:
            raise _out_of_range(text, name)
        clock.append(number)
    year, month, day, hour, minute, second = clock
    try:
        local = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError:
        raise _out_of_range(text, "day" if year else "year") from None
    instant = (local - _EPOCH) // _MICROSECOND + _fraction(parts) - _offset(text, parts["Z07:00"])
    if not ZERO <= instant <= _LAST:
        raise _out_of_range(text, "year")
    return instant


def _split(text: str, layout: str) -> dict[str, str]:
    """Return the text of each part of the layout."""
    parts: dict[str, str] = {}
    at = 0
    for part, pattern in _LAYOUTS[layout]:
        match = pattern.match(text, at)
        if match is None:
            rest = quote(text[at:])
            raise Unparsable(
                f"parsing time {quote(text)} as {quote(layout)}: "
                f"cannot parse {rest} as {quote(part)}"
            )
        parts[part] = match[0]
        at = match.end()
    if at < len(text):
        raise Unparsable(f"parsing time {quote(text)}: extra text: {quote(text[at:])}")
    return parts


def _fraction(parts: dict[str, str]) -> int:
    digits = parts.get(".000000", parts["05"][2:])[1:]
    return int(digits[:6].ljust(6, "0")) if digits else 0


def _offset(text: str, zone: str) -> int:
    """Return the offset of a zone from UTC, in microseconds."""
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:])
    if hours > _MAX_ZONE_HOURS:
        raise _out_of_range(text, "time zone offset hour")
    if minutes > _MAX_ZONE_MINUTES:
        raise _out_of_range(text, "time zone offset minute")
    seconds = (hours * 60 + minutes) * 60 * MICROSECONDS
    return -seconds if zone[0] == "-" else seconds


def _out_of_range(text: str, what: str) -> Unparsable:
    return Unparsable(f"parsing time {quote(text)}: {what} out of range")


def seconds_text(instant: int) -> str | None:
    """Return `2026-01-02T03:04:05Z`, as metav1.Time writes an instant; None for `ZERO`."""
    return None if instant == ZERO else f"{_at(instant):%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")


def micros_text(instant: int) -> str | None:
    """Return `2026-01-02T03:04:05.000006Z`, as metav1.MicroTime does; None for `ZERO`."""
    return None if instant == ZERO else f"{_at(instant):%Y-%m-%dT%H:%M:%S.%f}Z".rjust(27, "0")


def unix_text(seconds: float) -> str:
    """Return Unix time as metav1.Time."""
    return time_text(datetime.fromtimestamp(seconds, UTC))


def _at(instant: int) -> datetime:
    """Return the instant as a datetime.

    Raises:
        Unparsable: It is not in the years 1 to 9999.
    """
    if not ZERO <= instant <= _LAST:
        raise Unparsable(f"{instant // MICROSECONDS} s since 1970 is not in the years 1 to 9999")
    return _EPOCH + timedelta(microseconds=instant)
