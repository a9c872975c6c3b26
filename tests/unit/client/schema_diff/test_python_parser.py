"""The private `re._parser` of Python still has the parts that patterns.py needs."""

import importlib
import re
from typing import Any

import pytest
from apidiscovery_client.schema_diff.patterns import find_string, matches


def _tree(pattern: str) -> list[tuple[str, Any]]:
    parser = importlib.import_module("re._parser")
    return [(str(op), value) for op, value in parser.parse(pattern)]


def test_a_tree_has_the_nodes_that_are_read() -> None:
    constants = importlib.import_module("re._constants")
    names = (
        *("LITERAL", "NOT_LITERAL", "ANY", "IN", "NEGATE", "RANGE", "CATEGORY", "AT", "BRANCH"),
        *("SUBPATTERN", "MAX_REPEAT", "MIN_REPEAT", "MAXREPEAT", "AT_BEGINNING", "AT_END"),
    )

    assert [name for name in names if not hasattr(constants, name)] == []
    assert _tree("^a$") == [
        ("AT", constants.AT_BEGINNING),
        ("LITERAL", ord("a")),
        ("AT", constants.AT_END),
    ]
    assert _tree("[^a-c]") == [
        ("IN", [(constants.NEGATE, None), (constants.RANGE, (ord("a"), ord("c")))])
    ]
    ((name, (least, most, inner)),) = _tree("a{2,3}")
    assert (name, least, most, list(inner)) == ("MAX_REPEAT", 2, 3, [(constants.LITERAL, 97)])
    ((name, (_, branches)),) = _tree("a.|bc")
    assert (name, [len(one) for one in branches]) == ("BRANCH", [2, 2])
    ((name, (*_, inner)),) = _tree("(ab)")
    assert (name, [value for _, value in inner]) == ("SUBPATTERN", [97, 98])


@pytest.mark.parametrize(
    "pattern",
    ["^(a|b){2,3}$", r"^[^c-e\d]+x?$", r"a\s*b", "^.$", r"\w\.-", "(ab)*c", "^[a-c]{0,2}d+$"],
)
def test_a_match_is_that_of_the_public_module(pattern: str) -> None:
    texts = ("", "a", "ab", "ba", "bbb", "x", "zx", "a b", "d", "cc", "abc", "w.-", "abd", "é")

    found = {text: matches(pattern, text) for text in texts}

    assert found == {text: re.search(pattern, text, re.ASCII) is not None for text in texts}
    text = find_string([pattern])
    assert text is not None
    assert re.search(pattern, text, re.ASCII)
