"""Times as Go's package time reads and writes them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from apidiscovery_formats.times import time_text
from apidiscovery_service.kube.objects.go_time import (
    RFC3339,
    RFC3339_MICRO,
    ZERO,
    Unparsable,
    micros_text,
    parse,
    seconds_text,
    unix_text,
)
from hypothesis import given
from hypothesis import strategies as st

LAYOUTS = {RFC3339: "2006-01-02T15:04:05Z07:00", RFC3339_MICRO: "2006-01-02T15:04:05.000000Z07:00"}


@given(
    st.datetimes(datetime(2, 1, 1), datetime(9998, 12, 31)),  # noqa: DTZ001 - hypothesis' wish
    st.integers(-24 * 60 + 1, 24 * 60 - 1),
)
def test_a_time_in_any_zone_is_the_same_moment(local: datetime, minutes: int) -> None:
    zoned = local.replace(tzinfo=timezone(timedelta(minutes=minutes)))
    text = zoned.isoformat(timespec="microseconds")

    instant = parse(text, RFC3339_MICRO)

    written = micros_text(instant)
    assert written is not None
    assert datetime.fromisoformat(written) == zoned
    assert (
        written == f"{zoned.astimezone(UTC).replace(tzinfo=None).isoformat('T', 'microseconds')}Z"
    )
    assert instant == parse(text, RFC3339)
    assert seconds_text(instant) == f"{written[:19]}Z"
    assert time_text(zoned, "microseconds") == written
    assert time_text(zoned) == seconds_text(instant)


def test_unix_time_loses_parts_of_a_second() -> None:
    assert unix_text(0.5) == "1970-01-01T00:00:00Z"


def test_the_zero_time_has_no_text() -> None:
    assert parse("0001-01-01T00:00:00Z", RFC3339) == ZERO
    assert seconds_text(ZERO) is None
    assert micros_text(ZERO) is None
    assert seconds_text(ZERO + 1_000_000) == "0001-01-01T00:00:01Z"


@pytest.mark.parametrize(
    ("text", "layout", "problem"),
    [
        ("", RFC3339, 'cannot parse "" as "2006"'),
        ("26-01-01T00:00:00Z", RFC3339, 'cannot parse "26-01-01T00:00:00Z" as "2006"'),
        ("2026/01/01", RFC3339, 'cannot parse "/01/01" as "-"'),
        ("2026-1-01T00:00:00Z", RFC3339, 'cannot parse "1-01T00:00:00Z" as "01"'),
        ("2026-01-01 00:00:00Z", RFC3339, 'cannot parse " 00:00:00Z" as "T"'),
        ("2026-01-01T00:00:00", RFC3339, 'cannot parse "" as "Z07:00"'),
        ("2026-01-01T00:00:00+0100", RFC3339, 'cannot parse "+0100" as "Z07:00"'),
        ("2026-01-01T00:00:00Z", RFC3339_MICRO, 'cannot parse "Z" as ".000000"'),
        ("2026-01-01T00:00:00.1234567Z", RFC3339_MICRO, 'cannot parse "7Z" as "Z07:00"'),
    ],
)
def test_text_outside_the_layout_has_the_error_of_go(text: str, layout: str, problem: str) -> None:
    with pytest.raises(Unparsable) as caught:
        parse(text, layout)

    assert str(caught.value) == f'parsing time "{text}" as "{LAYOUTS[layout]}": {problem}'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("2026-13-01T00:00:00Z", "month out of range"),
        ("2026-02-29T00:00:00Z", "day out of range"),
        ("2026-01-00T00:00:00Z", "day out of range"),
        ("2026-01-01T24:00:00Z", "hour out of range"),
        ("2026-01-01T00:60:00Z", "minute out of range"),
        ("2026-01-01T00:00:60Z", "second out of range"),
        ("2026-01-01T00:00:00+25:00", "time zone offset hour out of range"),
        ("2026-01-01T00:00:00+00:61", "time zone offset minute out of range"),
        ("0000-01-01T00:00:00Z", "year out of range"),
        ("9999-12-31T23:59:59-01:00", "year out of range"),
        ("2026-01-01T00:00:00Zx", 'extra text: "x"'),
    ],
)
def test_an_impossible_time_has_the_error_of_go(text: str, problem: str) -> None:
    with pytest.raises(Unparsable) as caught:
        parse(text, RFC3339)

    assert str(caught.value) == f'parsing time "{text}": {problem}'
