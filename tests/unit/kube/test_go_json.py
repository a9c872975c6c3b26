"""JSON as Go writes it."""

import json

import pytest
from apidiscovery_service.kube.go_json import JSONValue, dumps, dumps_pretty, indent
from decoded import go_text
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("<", r"\u003c", id="less"),
        pytest.param(">", r"\u003e", id="greater"),
        pytest.param("&", r"\u0026", id="ampersand"),
        pytest.param("\u2028", r"\u2028", id="line-separator"),
        pytest.param("\u2029", r"\u2029", id="paragraph-separator"),
        pytest.param("\u2027\u202a", "\u2027\u202a", id="neighbours-of-the-separators"),
        pytest.param('"', r"\"", id="quote"),
        pytest.param("\\", r"\\", id="backslash"),
        pytest.param("\\u003c", r"\\u003c", id="what-looks-like-an-escape"),
        pytest.param("/", "/", id="slash"),
        pytest.param("'", "'", id="apostrophe"),
        pytest.param("\n\r\t\b\f", r"\n\r\t\b\f", id="short-forms"),
        pytest.param("\x00\x01\x0b\x1f", r"\u0000\u0001\u000b\u001f", id="other-controls"),
        pytest.param("\x7f\x80\x85", "\x7f\x80\x85", id="delete-and-c1-are-raw"),
        pytest.param("é漢😀\ufffd\ufeff", "é漢😀\ufffd\ufeff", id="other-characters-are-raw"),
    ],
)
def test_a_string_is_escaped_as_in_go(text: str, wanted: str) -> None:
    assert dumps({text: text}).decode() == f'{{"{wanted}":"{wanted}"}}'
    assert dumps_pretty([text]).decode() == f'[\n  "{wanted}"\n]'


@pytest.mark.parametrize(
    ("value", "compact", "pretty"),
    [
        pytest.param({}, "{}", "{}", id="empty-object"),
        pytest.param([], "[]", "[]", id="empty-list"),
        pytest.param((), "[]", "[]", id="empty-tuple"),
        pytest.param(None, "null", "null", id="null"),
        pytest.param([True, False, 7], "[true,false,7]", "[\n  true,\n  false,\n  7\n]", id="list"),
        pytest.param(
            {"b": {"a": []}, "a": {}},
            '{"b":{"a":[]},"a":{}}',
            '{\n  "b": {\n    "a": []\n  },\n  "a": {}\n}',
            id="keys-keep-their-order",
        ),
    ],
)
def test_a_value_is_written_as_in_go(value: JSONValue, compact: str, pretty: str) -> None:
    assert dumps(value).decode() == compact
    assert dumps_pretty(value).decode() == pretty
    assert indent(compact.encode()).decode() == pretty


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("\ud800", id="lone-surrogate"),
        pytest.param({"\udfff": 1}, id="lone-surrogate-in-a-key"),
        pytest.param(2**64, id="more-than-64-bits"),
    ],
)
def test_values_that_go_cannot_represent_are_refused(value: JSONValue) -> None:
    with pytest.raises(TypeError):
        dumps(value)


TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]) | st.sampled_from('<>&\u2028\u2029\\"u03c\x00\x1f')
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_text_is_that_of_another_writer_and_pretty_text_is_indented(value: JSONValue) -> None:
    text = dumps(value)
    assert text == go_text(value)
    assert indent(text) == dumps_pretty(value)
    assert json.loads(dumps_pretty(value)) == value
