"""Text as Go's fmt and strconv read and write it."""

import math

import pytest
from apidiscovery_formats.go_text import float_text, human_duration, parse_bool, plain, quote

HOUR = 3600
DAY = 24 * HOUR
YEAR = 365 * DAY


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        pytest.param("a é 漢", '"a é 漢"', id="printable"),
        pytest.param('"\\', r'"\"\\"', id="quote and backslash"),
        pytest.param("\a\b\f\n\r\t\v", r'"\a\b\f\n\r\t\v"', id="named"),
        pytest.param("\x00\x1f\x7f", r'"\x00\x1f\x7f"', id="control"),
        pytest.param("\u2028\U000e0001", r'"\u2028\U000e0001"', id="not printable"),
        pytest.param("\udc80\udcff", r'"\x80\xff"', id="bytes that are not UTF-8"),
    ],
)
def test_quote(text: str, quoted: str) -> None:
    assert quote(text) == quoted


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        ({"b": [1, "x"], "a": None}, "map[a:<nil> b:[1 x]]"),
        ([True, False, "", "x"], "[true false  x]"),
        (1_000_000, "1e+06"),
        (10**400, str(10**400)),
    ],
)
def test_plain(value: object, printed: str) -> None:
    assert plain(value) == printed


def test_floats_that_are_not_finite_have_words() -> None:
    assert list(map(float_text, (math.inf, -math.inf, math.nan))) == ["+Inf", "-Inf", "NaN"]


@pytest.mark.parametrize(
    ("texts", "value"),
    [
        (("1", "t", "T", "TRUE", "true", "True"), True),
        (("0", "f", "F", "FALSE", "false", "False"), False),
        (("", "tRUE", "yes", "on", "2", "01", " 1", "true "), None),
    ],
)
def test_booleans_are_those_of_parse_bool(texts: tuple[str, ...], value: bool | None) -> None:  # noqa: FBT001 - a row of the table
    assert {parse_bool(text) for text in texts} == {value}


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [
        (-2, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (1, "1s"),
        (119, "119s"),
        (120, "2m"),
        (121, "2m1s"),
        (130, "2m10s"),
        (599, "9m59s"),
        (600, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR - 1, "7h59m"),
        (8 * HOUR, "8h"),
        (8 * HOUR + 60, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY - 1, "7d23h"),
        (8 * DAY, "8d"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR, "2y"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR - 1, "7y364d"),
        (8 * YEAR, "8y"),
        (9 * YEAR - 1, "8y"),
    ],
)
def test_ages_are_kubectls(seconds: int, wanted: str) -> None:
    """Source: apimachinery pkg/util/duration/duration_test.go `TestHumanDurationBoundaries`."""
    assert human_duration(seconds) == wanted
