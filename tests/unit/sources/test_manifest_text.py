"""The text of manifests: its documents, the JSON that is refused, and the lines of fields."""

import json
import re

import pytest
from apidiscovery_formats.manifest_text import Text, documents, lines, members
from apidiscovery_formats.yaml_text import Budget, Unparsable
from apidiscovery_service.sources.fields import Path
from apidiscovery_service.sources.manifests.file import MAX_FLOW_CHARACTERS, parse
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
def test_a_duplicate_key_is_named(inner: str) -> None:
    text = json.dumps({"a": WIDE, "b": 0})
    with pytest.raises(Unparsable, match="the key 'k' is there twice"):
        parse(text.replace('"b": 0', f'"b": {inner}'), None)


def test_a_duplicate_key_of_a_wide_object_is_named() -> None:
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
def test_text_that_is_no_json_has_a_reason(end: str, reason: str) -> None:
    text = json.dumps(WIDE | {"long": "x" * MAX_FLOW_CHARACTERS}, indent=1)[:-2]
    with pytest.raises(Unparsable, match=reason):
        parse(text + end, None)


def test_members_have_each_key_once() -> None:
    assert members([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    with pytest.raises(Unparsable, match="the key 'b' is there twice"):
        members([("a", 1), ("b", 2), ("b", 2)])


@pytest.mark.parametrize(("line", "of_file"), [(0, 5), (1, 6), (3, 6)])
def test_an_error_is_in_a_line_of_the_file_that_is_not_blank(line: int, of_file: int) -> None:
    assert Text(2, 5, "a: 1\nb: [\n\n\n").line_of(Unparsable("", line)) == of_file


def test_commas_in_strings_are_not_counted() -> None:
    value = {"text": 'a"\\,{[:' * 30_000, "more": [",,,,"] * 500, "b": WIDE}
    assert parse(json.dumps(value), Budget(40_600)) == value
    with pytest.raises(Unparsable, match="more than 20000 values"):
        parse(json.dumps(value), Budget(20_000))


# The line of a field is that of its name, or that of its closest ancestor in the text.

TEXT = """\
# A comment.
kind: Thing
? complex: [1, 2]
: of: no matter
spec: &spec
  versions:
  - name: v1
    schema: {type: object,
      properties: {a: 1}}
  - &second
    name: v2
  "quoted": |
    text
    more
again: *spec
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ((), 0),
        (("kind",), 1),
        (("kind", "below"), 1),
        (("spec",), 4),
        (("spec", "versions"), 5),
        (("spec", "versions", 0), 6),
        (("spec", "versions", 0, "schema", "type"), 7),
        (("spec", "versions", 0, "schema", "properties", "a"), 8),
        (("spec", "versions", 1), 9),
        (("spec", "versions", 1, "name"), 10),
        (("spec", "versions", 7, "name"), 5),
        (("spec", "quoted"), 11),
        (("again", "versions", 0), 14),
        (("nothing", "there"), 0),
    ],
)
def test_a_field_is_found_alone_and_among_others(path: Path, line: int) -> None:
    assert lines(TEXT, [path]) == [line]
    others: list[Path] = [("spec", "versions", 1, "name"), ("again",), ("kind",)]
    assert lines(TEXT, [*others, path, path]) == [10, 14, 1, line, line]


def test_fields_of_an_empty_text_are_in_its_first_line() -> None:
    assert lines("", [("a",), ()]) == [0, 0]
