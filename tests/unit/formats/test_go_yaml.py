"""YAML against Kubernetes' own output, the facts of go-yaml's source, and another reader.

Names of files in comments are those of go.yaml.in/yaml/v2 at v2.4.2.
"""

import json
import math
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml
from apidiscovery_formats import go_yaml
from apidiscovery_formats.go_yaml import dump, dump_item
from apidiscovery_service.kube.go_json import JSONValue
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

DOCUMENTS = sorted(
    path
    for folder in ("builtin", "edge", "kubernetes-wire")
    for path in (GOLDEN / folder).rglob("*.yaml")
)

LONG = "word " * 16  # 80 columns: what stands after it is past the best width
LS, PS, NEL, BOM = "\u2028", "\u2029", "\x85", "\ufeff"


def text(value: JSONValue) -> str:
    return dump(value).decode()


def test_there_are_goldens_of_each_kind() -> None:
    assert len(DOCUMENTS) == 4 + 2 + 12


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(GOLDEN)))
def test_a_document_of_kubernetes_is_written_byte_for_byte(path: Path) -> None:
    value = json.loads(path.with_suffix(".json").read_bytes())
    assert dump(value) == path.read_bytes()


# --------------------------------------------------------------------------------------------------
# Strings that would have another type without quotes are in double quotes.


@pytest.mark.parametrize(
    "value",
    [
        # resolve.go, init: resolveMapList
        *("y", "Y", "yes", "Yes", "YES", "on", "On", "ON", "true", "True", "TRUE"),
        *("n", "N", "no", "No", "NO", "off", "Off", "OFF", "false", "False", "FALSE"),
        *("", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN"),
        *(".inf", ".Inf", ".INF", "+.inf", "-.inf", "-.INF"),
        # resolve.go, resolve: strconv.ParseInt and ParseUint of base 0, without underscores
        *("0", "1", "-1", "+12", "1_000", "0_", "1__", "017", "0o17", "0O17", "0x1F", "-0X1f"),
        *("0b101", "-0b1", "0x_1", "0xFFFFFFFFFFFFFFFF", "-0x8000000000000000"),
        # the same, its own reading of 0b
        *("0b-1", "0b+1"),
        # the same, yamlStyleFloat; an int out of range is one of those
        *("1.5", "1.", "-.5", "+.5e3", "1e3", "1E-3", "089", "18446744073709551616"),
        # the same, strconv.ParseFloat of what begins with a dot
        *(".5", ".5e3", ".5_5", ".5e1_0"),
        # encode.go, isBase60Float
        *("1:30", "190:20:30.15", "+1_0:5", "00:00", "1:2."),
        # resolve.go, allowedTimestampFormats, as time.Parse takes them
        *("2020-1-1", "2020-01-01", "2000-02-29", "0000-2-29", "2001-12-14 21:59:43.10"),
        *("2001-12-14T21:59:43Z", "2001-12-14t1:2:3.10-05:00", "2001-12-14   1:2:3,123456789012"),
        "2020-1-1T0:0:0+24:60",
    ],
)
def test_a_string_that_would_be_read_as_another_value_is_in_double_quotes(value: str) -> None:
    assert text(value) == f'"{value}"\n'


@pytest.mark.parametrize(
    "value",
    [
        # resolve.go: only these capitals are listed; resolveTable has no hint for `<` and `=`
        *("yEs", "tRUE", "nULL", ".Nan", "+.nan", "nan", "inf", "<<", "=", "Norway"),
        # not of 64 bits, and no float either
        *("+0xFFFFFFFFFFFFFFFF", "0x10000000000000000", "-0x8000000000000001"),
        *("0b" + "1" * 65, "0b-1" + "0" * 62 + "1", "0o7777777777777777777777777"),
        # not finite
        *("1e999", "-1.5e400", ".5e400", "9" * 400),
        # digits that are none in their base, prefixes without digits
        *("0x", "0b", "0b2", "0o8", "0B-1", "-0b-1", "0xG", "+", ".", "+.", "1e", "1e+", "1.2.3"),
        # strconv, underscoreOK: only between digits
        *("._5", ".5_", ".5__5", ".5_e1", "_1"),
        # encode.go, base60float: no group of more than 59
        *("1:60", ":1", "1:2:a", "a1:30"),
        # time.Parse: out of range, or another form
        *("2020-13-1", "2020-0-1", "2020-1-32", "2021-2-29", "1900-2-29", "2020-1-0"),
        *("2020-1-1T24:0:0Z", "2020-1-1T0:60:0Z", "2020-1-1T0:0:0", "2020-1-1T0:0:0z"),
        *("2020-1-1T0:0:0+25:00", "2020-1-1T0:0:0+1:00", "2020-1-1 1:2:3Z", "202-1-1", "20200-1-1"),
        # Unicode's digits are none to Go
        *("٣", "1٣", "٢٣٢٣-1-1"),
    ],
)
def test_a_string_that_resembles_another_value_is_plain(value: str) -> None:
    assert text(value) == f"{value}\n"


# --------------------------------------------------------------------------------------------------
# The styles. emitterc.go, yaml_emitter_analyze_scalar, yaml_emitter_select_scalar_style and the
# yaml_emitter_write_*_scalar; yamlprivateh.go, is_printable, is_bom, is_break.


@pytest.mark.parametrize(
    "value",
    [
        *("a", "v1", "apps/v1", "a b", "a,b", "a:b", "a#b", "-a", "--", "?a", ":a", "..", "a'b"),
        *('a"b', "a\\b", "a{b}", "a- b", "a? b"),
        *("café", "漢字", "\xa0", "\ud7ff", "\ue000", "\ufffd"),
    ],
)
def test_a_string_without_indicators_is_plain(value: str) -> None:
    assert text(value) == f"{value}\n"


@pytest.mark.parametrize(
    "value",
    [
        *(first + "a" for first in '#,[]{}&*!|>"%@`'),
        *("---", "--- a", "---a", "...", "....", "-", "- a", "?", "? a", ":", "a:", "a: b", "a #b"),
        *(" a", "a ", " ", "  "),
    ],
)
def test_indicators_and_outer_spaces_are_in_single_quotes(value: str) -> None:
    assert text(value) == f"'{value}'\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("'a'", "'''a'''\n", id="quote"),
        pytest.param(f"a{LS}b", f"'a{LS}  b'\n", id="line-separator"),
        pytest.param(f"{LS}{PS}a{LS}{PS}b{LS}", f"'{LS}{PS}  a{LS}{PS}  b{LS}'\n", id="runs"),
        pytest.param(f" a{LS}b ", f"' a{LS}  b '\n", id="outer-spaces"),
    ],
)
def test_single_quotes_double_their_own_and_keep_separators(value: str, written: str) -> None:
    assert text(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("\0\a\b\t\v\f\r\x1b", r'"\0\a\b\t\v\f\r\e"', id="named"),
        pytest.param('\x01"\\', r'"\x01\"\\"', id="quote-and-backslash"),
        pytest.param("\x7f\x80\x9f" + NEL, r'"\x7F\x80\x9F\N"', id="c1-controls"),
        pytest.param("\t\xa0é漢", '"\\t\xa0é漢"', id="printable-stays"),
        pytest.param("\ufffe\uffff", r'"\uFFFE\uFFFF"', id="noncharacters"),
        pytest.param("emoji\U0001f600", r'"emoji\U0001F600"', id="beyond-16-bits"),
        pytest.param(f"a{BOM}b", r'"a\uFEFFb"', id="byte-order-mark"),
        pytest.param(f"{BOM}a \xa0é漢", r'"\uFEFF\x61\x20\_\xE9\u6F22"', id="after-leading-bom"),
        pytest.param("a \nb", r'"a \nb"', id="space-before-break"),
        pytest.param("a\nb ", r'"a\nb "', id="break-and-trailing-space"),
        pytest.param(f"a{LS} b", r'"a\L b"', id="space-after-separator"),
        pytest.param(f"a {PS}b", r'"a \Pb"', id="space-before-separator"),
        pytest.param("a\r\nb", r'"a\r\nb"', id="carriage-return"),
    ],
)
def test_a_string_that_no_other_style_can_hold_is_in_double_quotes(
    value: str, written: str
) -> None:
    assert text(value) == written + "\n"


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("a\nb", "|-\n  a\n  b\n", id="no-last-break"),
        pytest.param("a\nb\n", "|\n  a\n  b\n", id="one-last-break"),
        pytest.param("a\n\n", "|+\n  a\n\n", id="two-last-breaks"),
        pytest.param("\n", "|2+\n\n", id="only-a-break"),
        pytest.param("\na", "|2-\n\n  a\n", id="leading-break"),
        pytest.param(" a\n b", "|2-\n   a\n   b\n", id="leading-space"),
        pytest.param("a\n\n b\n", "|\n  a\n\n   b\n", id="empty-line"),
        pytest.param("1\n", "|\n  1\n", id="first-line-is-a-number"),
        pytest.param(f"a\n{LS}b", f"|-\n  a\n{LS}  b\n", id="separator"),
        pytest.param(f"a\n{LS}", f"|+\n  a\n{LS}", id="last-break-is-a-separator"),
        pytest.param(f"{LONG}a b\n", f"|\n  {LONG}a b\n", id="never-folded"),
    ],
)
def test_a_string_with_a_line_feed_is_a_literal(value: str, written: str) -> None:
    assert text(value) == written


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param("word " * 16 + "a b", "word " * 16 + "a\n  b", id="plain"),
        pytest.param("w" * 80 + " a", "w" * 80 + " a", id="column-80-is-not-past-it"),
        pytest.param("w" * 81 + " a", "w" * 81 + "\n  a", id="column-81-is"),
        pytest.param("w" * 81 + "  a b", "w" * 81 + "  a\n  b", id="not-at-two-spaces"),
        pytest.param("é" * 80 + " a", "é" * 80 + " a", id="columns-are-characters"),
        pytest.param("#" + "w" * 80 + " a", "'#" + "w" * 80 + "\n  a'", id="single-quotes"),
        pytest.param("w" * 90 + " ", "'" + "w" * 90 + " '", id="single-not-at-the-end"),
        pytest.param(
            "'" + "w" * 79 + f" a{LS}" + "w" * 79 + " b",
            "'''" + "w" * 79 + f"\n  a{LS}  " + "w" * 79 + "\n  b'",
            id="single-quotes-lines",
        ),
        pytest.param("\t" + "w" * 80 + " a", '"\\t' + "w" * 80 + '\n  a"', id="double-quotes"),
        pytest.param("\t" + "w" * 80 + "  a", '"\\t' + "w" * 80 + '\n  \\ a"', id="double-spaces"),
        pytest.param("\t" + "w" * 90 + " ", '"\\t' + "w" * 90 + ' "', id="double-not-at-the-end"),
        pytest.param("\t" + "w" * 90 + "  ", '"\\t' + "w" * 90 + '\n  \\ "', id="but-before-it"),
    ],
)
def test_a_string_is_folded_past_column_80(value: str, written: str) -> None:
    assert text(value) == written + "\n"


def test_the_column_counts_from_the_start_of_the_line() -> None:
    value = "w" * 74 + " a"
    assert text({"key": [value]}) == f"key:\n- {value}\n"
    assert text({"key": {"k": value}}) == f"key:\n  k: {value}\n"
    assert text({"key": {"ke": value}}) == "key:\n  ke: " + "w" * 74 + " a\n"
    assert text({"key": {"key": value}}) == "key:\n  key: " + "w" * 74 + "\n    a\n"
    assert text({"key": [[[[value]]]]}) == "key:\n- - - - " + "w" * 74 + "\n        a\n"


# --------------------------------------------------------------------------------------------------
# Numbers: encode.go, intv, uintv, floatv; resolve.go, resolve.


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (-(2**63), "-9223372036854775808"),
        (2**64 - 1, "18446744073709551615"),
        (2**64, "1.8446744073709552e+19"),
        (-(2**64), "-1.8446744073709552e+19"),
        (10**400, "1" + "0" * 400),
        (1.0, "1"),
        (-0.0, "-0"),
        (0.1, "0.1"),
        (999999.5, "999999.5"),
        (1e6, "1e+06"),
        (1234567.5, "1.2345675e+06"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (1e16, "1e+16"),
        (1e100, "1e+100"),
        (2.0**-24, "5.960464477539063e-08"),
        (5e-324, "5e-324"),
    ],
)
def test_numbers_are_written_as_go_yaml_writes_them(value: float, written: str) -> None:
    assert text(value) == written + "\n"


@pytest.mark.parametrize(
    ("value", "written"), [(math.nan, ".nan"), (math.inf, ".inf"), (-math.inf, "-.inf")]
)
def test_a_float_that_json_has_not_is_as_go_yaml_writes_it(value: float, written: str) -> None:
    assert dump([value]).decode() == f"- {written}\n"


@pytest.mark.parametrize(
    ("value", "written"), [("\ud800", "\ud800\n"), ({"\ud800": "\udc00"}, "\ud800: \udc00\n")]
)
def test_a_lone_surrogate_is_kept_in_text(value: JSONValue, written: str) -> None:
    assert go_yaml.text(value) == written


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(UnicodeEncodeError):
        dump("\ud800")


# --------------------------------------------------------------------------------------------------
# Collections: emitterc.go, yaml_emitter_emit_block_mapping_key and
# yaml_emitter_emit_block_sequence_item.


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({}, "{}\n", id="empty-mapping"),
        pytest.param([], "[]\n", id="empty-sequence"),
        pytest.param({"a": None, "b": True}, "a: null\nb: true\n", id="scalars"),
        pytest.param({"a": {"b": {"c": 1}}}, "a:\n  b:\n    c: 1\n", id="mappings"),
        pytest.param({"a": [1, [2, 3]]}, "a:\n- 1\n- - 2\n  - 3\n", id="sequences"),
        pytest.param([{"a": [1], "b": 2}], "- a:\n  - 1\n  b: 2\n", id="mapping-in-sequence"),
        pytest.param({"a": "x\n", "b": "y\n\n"}, "a: |\n  x\nb: |+\n  y\n\n", id="literals"),
        pytest.param([{"a": ["x\ny"]}], "- a:\n  - |-\n    x\n    y\n", id="literal-below"),
    ],
)
def test_collections_are_in_block_style_unless_empty(value: JSONValue, written: str) -> None:
    assert text(value) == written


# yaml_emitter_check_simple_key: of one line and at most 128 bytes.
@pytest.mark.parametrize(
    ("key", "value", "written"),
    [
        pytest.param("", 1, '"": 1', id="empty"),
        pytest.param("y", 1, '"y": 1', id="bool"),
        pytest.param("a: b", 1, "'a: b': 1", id="indicator"),
        pytest.param("w" * 100 + " a", 1, "w" * 100 + " a: 1", id="never-folded"),
        pytest.param("k" * 128, 1, "k" * 128 + ": 1", id="128-bytes"),
        pytest.param("k" * 129, 1, "? " + "k" * 129 + "\n: 1", id="129-bytes"),
        pytest.param("é" * 65, 1, "? " + "é" * 65 + "\n: 1", id="bytes-not-characters"),
        pytest.param("a\nb", 1, "? |-\n  a\n  b\n: 1", id="line-feed"),
        pytest.param(f"a{LS}b", 1, f"? 'a{LS}  b'\n: 1", id="line-separator"),
        pytest.param("a\rb", {}, '? "a\\rb"\n: {}', id="carriage-return"),
        pytest.param("a\n", {"b": 1, "c": 2}, "? |\n  a\n: b: 1\n  c: 2", id="mapping"),
        pytest.param("a\n", [1, 2], "? |\n  a\n: - 1\n  - 2", id="sequence"),
        pytest.param(
            LONG * 2, 1, "? '" + LONG[:-1] + "\n  " + (LONG * 2)[80:] + "'\n: 1", id="folded"
        ),
    ],
)
def test_a_key_of_many_lines_or_over_128_bytes_has_a_question_mark(
    key: str, value: JSONValue, written: str
) -> None:
    assert text({key: value}) == written + "\n"


# sorter.go, keyList.Less.
@pytest.mark.parametrize(
    "keys",
    [
        pytest.param(["B", "a", "aa", "b", "é", "漢"], id="letters-by-code-point"),
        pytest.param(["kind", "kindA", "kinda"], id="prefix-first"),
        pytest.param(["v1", "v2", "v10", "v100"], id="numbers-by-value"),
        pytest.param(["a0", "a1", "a01", "a2", "a02", "a10"], id="shorter-of-equal-first"),
        pytest.param(["a100", "a101", "a110", "a200"], id="zeros-inside"),
        pytest.param(["a-b", "a.b", "a_b", "a0b", "ab"], id="letters-after-the-rest"),
        pytest.param(["a", "a-", "a1", "a1-", "a1a", "aa"], id="end-then-sign-then-letter"),
        pytest.param(["v1alpha1", "v1beta1", "v1beta2", "v1beta10", "v2"], id="versions"),
        pytest.param(["a2", "a10", "a٣", "a٢٣"], id="digits-beyond-ascii"),
        pytest.param(["a9999999999999999999", "a1"], id="int64-wraps"),
    ],
)
def test_mappings_are_in_the_order_of_go_yaml(keys: list[str]) -> None:
    forwards, backwards = text(dict.fromkeys(keys)), text(dict.fromkeys(reversed(keys)))
    assert [line.removesuffix(": null") for line in forwards.splitlines()] == keys
    assert backwards == forwards


# --------------------------------------------------------------------------------------------------
# Any value.

# Where PyYAML's YAML 1.1 and go-yaml disagree on a string without quotes. go-yaml writes all of
# these plain; PyYAML knows `=` and `<<`, takes `_` for part of a number wherever it stands, has
# ints of any size, and fails on a date that does not exist or reads an infinite float.
NOT_SHARED = re.compile(
    r"""
      = | <<
    | [-+.0-9] .* _ .*
    | [-+]? 0 [xb] .{17,}
    | [0-9]{4} - .*
    | [-+.0-9] .* [eE] [-+]? [0-9]{3,}
    """,
    re.VERBOSE | re.DOTALL,
)


def is_shared(value: str) -> bool:
    return NOT_SHARED.fullmatch(value) is None


def has_a_point(number: float) -> bool:
    """PyYAML takes `1e+06` for a string."""
    return "e" not in text(number) or "." in text(number)


CHARACTERS = st.characters(exclude_categories=["Cs"])
AWKWARD = st.sampled_from(f"  \n\n{LS}{PS}{NEL}'\"\\:#-?.,[]{{}}&*!|>%@`~=<01289_+eExoyntT")
STRINGS = st.text(CHARACTERS | AWKWARD, max_size=200).filter(is_shared)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(has_a_point)
    | STRINGS
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(STRINGS, inner, max_size=4),
    max_leaves=12,
)


def read(document: bytes) -> Any:  # noqa: ANN401 - a value of YAML
    return yaml.load(document, Loader=yaml.CSafeLoader)


@given(VALUES)
def test_another_reader_gets_the_value_back(value: JSONValue) -> None:
    assert read(dump(value)) == value


@given(st.dictionaries(STRINGS, SCALARS, max_size=8), st.randoms())
def test_the_order_of_the_dict_does_not_matter(value: dict[str, JSONValue], random: Random) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert dump(dict(items)) == dump(value)


@given(st.lists(VALUES, min_size=1, max_size=4))
def test_items_make_up_the_sequence(items: list[JSONValue]) -> None:
    assert b"".join(map(dump_item, items)) == dump(items)
    assert b"items:\n" + b"".join(map(dump_item, items)) == dump({"items": items})
