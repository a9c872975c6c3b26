"""The text of manifests: where documents begin and end, and what JSON is refused."""

import json
import re

import pytest
from apidiscovery_formats.manifest_text import documents
from apidiscovery_formats.yaml_text import Budget, Unparsable
from apidiscovery_service.sources.manifests import values
from apidiscovery_service.sources.manifests.values import parse
from hypothesis import given
from hypothesis import strategies as st

SEPARATOR = re.compile(r"^---(?=[ \t\r]|$)", re.MULTILINE)
WIDE = {f"field{number}": {"type": "string"} for number in range(10_000)}


def at_once(text: str) -> list[tuple[int, int, str]]:
    """Return the documents of a text as kubectl finds them: number, first line and text."""
    found: list[tuple[int, int, str]] = []
    start, number, line = 0, 1, 1
    for end, after in [*(m.span() for m in SEPARATOR.finditer(text)), (len(text), 0)]:
        part = text[start:end]
        if any(one.strip()[:1] not in ("", "#") for one in part.splitlines()):
            found.append((number, line, part))
            number += 1
        elif start:
            number += 1
        line += text.count("\n", start, end)
        start = after
    return found


@given(st.text("-\n #ab\r\t\u2028", max_size=80))
def test_documents_are_those_between_lines_of_dashes(text: str) -> None:
    found = [(one.number, one.first_line, one.text) for one in documents(text)]
    assert found == at_once(text)


@pytest.mark.parametrize("indent", [None, 1])
def test_a_wide_document_is_what_json_says(indent: int | None) -> None:
    value = {"a": WIDE, "b": ["x" * 200_000, 2**60, 1.5, "é\u2028"], "c": {}}
    assert parse(json.dumps(value, indent=indent), Budget(1_000_000)) == value


@pytest.mark.parametrize("inner", ['{"k":1,"k":2}', '[{"a":{"k":1,"k":2}}]'])
def test_a_key_that_is_there_twice_is_named(inner: str) -> None:
    text = json.dumps({"a": WIDE, "b": 0})
    with pytest.raises(Unparsable, match="the key 'k' is there twice"):
        parse(text.replace('"b": 0', f'"b": {inner}'), None)


def test_a_key_that_a_wide_object_has_twice_is_named() -> None:
    text = json.dumps(WIDE)
    with pytest.raises(Unparsable, match="the key 'field7' is there twice"):
        parse(f'{text[:-1]}, "field7": 1}}', None)


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("}}", "unexpected content after document"),
        ("", "unexpected end of data"),
        (', "z": NaN}', "expected a JSON value"),
        (', "z": "\\ud800"}', "JSON"),
    ],
)
def test_what_is_no_json_is_told_with_its_line(end: str, reason: str) -> None:
    text = json.dumps(WIDE | {"long": "x" * values.MAX_FLOW_CHARACTERS}, indent=1)[:-2]
    with pytest.raises(Unparsable, match=reason):
        parse(text + end, None)


def test_commas_in_texts_count_for_nothing_when_there_are_too_many() -> None:
    value = {"text": 'a"\\,{[:' * 30_000, "more": [",,,,"] * 500, "b": WIDE}
    assert parse(json.dumps(value), Budget(40_600)) == value
    with pytest.raises(Unparsable, match="more than 20000 values"):
        parse(json.dumps(value), Budget(20_000))
