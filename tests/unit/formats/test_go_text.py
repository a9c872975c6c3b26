"""Text as Go's fmt and strconv read and write it."""

import math

import pytest
from apidiscovery_formats.go_text import float_text, parse_bool, plain, quote


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
