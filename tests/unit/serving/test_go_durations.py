"""Durations, as time.ParseDuration of Go reads them."""

import time

import pytest
from apidiscovery_service.serving.http.statuses import duration_error
from hypothesis import given
from hypothesis import strategies as st

# Those of Go's own time_test.go, `parseDurationTests`, among them.
WELL_FORMED = [
    *("0", "5s", "30s", "1478s", "-5s", "+5s", "-0", "+0", "5.0s", "5.6s", "5.s", ".5s", "1.0s"),
    *("1.00s", "1.004s", "1.0040s", "100.00100s", "10ns", "11us", "12µs", "12μs", "13ms", "14s"),
    *("15m", "16h", "3h30m", "10.5s4m", "-2m3.4s", "1h2m3s4ms5us6ns", "39h9m14.425s"),
    *("52763797000ns", "0.3333333333333333333h", "9007199254740993ns", "9223372036854775807ns"),
    *("9223372036854775.807us", "9223372036s854ms775us807ns", "-9223372036854775808ns"),
    *("-9223372036854775.808us", "-9223372036s854ms775us808ns", "-2562047h47m16.854775808s"),
    *("0.100000000000000000000h", "0.830103483285477580700h", "32s", "0s"),
]


@pytest.mark.parametrize("text", WELL_FORMED)
def test_a_duration_is_accepted(text: str) -> None:
    assert duration_error(text) is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        # time_test.go, `parseDurationErrorTests`
        pytest.param("", 'time: invalid duration ""', id="empty"),
        pytest.param("3", 'time: missing unit in duration "3"', id="no-unit"),
        pytest.param("-", 'time: invalid duration "-"', id="minus"),
        pytest.param("s", 'time: invalid duration "s"', id="unit-alone"),
        pytest.param(".", 'time: invalid duration "."', id="point"),
        pytest.param("-.", 'time: invalid duration "-."', id="minus-point"),
        pytest.param(".s", 'time: invalid duration ".s"', id="point-and-unit"),
        pytest.param("+.s", 'time: invalid duration "+.s"', id="plus-point-and-unit"),
        pytest.param("1d", 'time: unknown unit "d" in duration "1d"', id="days"),
        pytest.param("foo", 'time: invalid duration "foo"', id="word"),
        pytest.param("1s ", 'time: unknown unit "s " in duration "1s "', id="space"),
        pytest.param("1s-1s", 'time: unknown unit "s-" in duration "1s-1s"', id="minus-inside"),
        pytest.param("1S", 'time: unknown unit "S" in duration "1S"', id="capital"),
        pytest.param("0.", 'time: missing unit in duration "0."', id="point-at-the-end"),
        pytest.param("1h2", 'time: missing unit in duration "1h2"', id="no-unit-at-the-end"),
        # the same: what does not fit in 64 bits of nanoseconds
        pytest.param(
            "9223372036854775810ns", 'time: invalid duration "9223372036854775810ns"', id="too-long"
        ),
        pytest.param(
            "9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"', id="by-one"
        ),
        pytest.param("3000000h", 'time: invalid duration "3000000h"', id="too-many-hours"),
        # time.go, quote
        pytest.param('1"', r'time: unknown unit "\"" in duration "1\""', id="quote-is-escaped"),
        pytest.param(
            "1é", r'time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9"', id="non-ascii"
        ),
    ],
)
def test_other_text_has_the_error_of_go(text: str, error: str) -> None:
    assert duration_error(text) == error


NUMBERS = st.from_regex(r"[0-9]{1,5}(\.[0-9]{0,5})?|\.[0-9]{1,5}", fullmatch=True)
UNITS = st.sampled_from(["ns", "us", "µs", "μs", "ms", "s", "m", "h"])
PARTS = st.lists(st.builds("{}{}".format, NUMBERS, UNITS), min_size=1, max_size=4).map("".join)


@given(st.sampled_from(["", "+", "-"]), PARTS)
def test_signed_numbers_with_units_are_durations(sign: str, parts: str) -> None:
    assert duration_error(sign + parts) is None


@given(st.text(max_size=20) | st.text("0123456789.+-nmush", max_size=20))
def test_any_text_gets_an_answer(text: str) -> None:
    error = duration_error(text)
    assert error is None or error.startswith("time: ")


@pytest.mark.parametrize("part", ["1", "1s", ".", "1.", "s", "-"])
def test_a_hostile_duration_is_read_within_seconds(part: str) -> None:
    started = time.perf_counter()
    duration_error(part * 30000)
    assert time.perf_counter() - started < 5
