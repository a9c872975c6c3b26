"""Texts that options accept as values."""

import pytest
from apidiscovery_cli.options import boolean


def test_booleans_are_gos() -> None:
    assert (boolean("T"), boolean("0")) == (True, False)
    with pytest.raises(ValueError, match="'yes' is not a valid boolean"):
        boolean("yes")
