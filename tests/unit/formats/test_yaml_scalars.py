"""Rules of scalars that both versions of go-yaml share."""

import pytest
from apidiscovery_formats.yaml_scalars import literal


@pytest.mark.parametrize(
    ("text", "block"),
    [
        pytest.param("a\n\nb", "|-\n   a\n\n   b\n", id="no-break-at-the-end"),
        pytest.param("a\n", "|\n   a\n", id="one-break"),
        pytest.param("a\n\n", "|+\n   a\n\n", id="two-breaks"),
        pytest.param("\n", "|4+\n\n", id="a-break-alone"),
        pytest.param(" a\n", "|4\n    a\n", id="hint-at-indentation"),
    ],
)
def test_a_literal_is_indented_with_hints_at_its_level_and_last_breaks(
    text: str, block: str
) -> None:
    assert literal(text, 3, 4) == block
