"""Texts that options accept as values."""

import pytest
from apidiscovery_cli.options import boolean


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *((text, True) for text in ("1", "t", "T", "TRUE", "true", "True")),
        *((text, False) for text in ("0", "f", "F", "FALSE", "false", "False")),
    ],
)
def test_booleans_are_gos(text: str, value: bool) -> None:  # noqa: FBT001 - a row of the table
    assert boolean(text) is value


@pytest.mark.parametrize("text", ["", "yes", "on", "tRUE", "2"])
def test_other_texts_are_not_booleans(text: str) -> None:
    with pytest.raises(ValueError, match="is not a valid boolean"):
        boolean(text)
