"""The line of a field is where its name stands, or that of the closest field that is there."""

import pytest
from apidiscovery_formats.manifest_text import lines
from apidiscovery_service.sources.fields import Path

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


def test_nothing_has_no_lines() -> None:
    assert lines("", [("a",), ()]) == [0, 0]
