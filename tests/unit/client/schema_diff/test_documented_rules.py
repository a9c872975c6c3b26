"""The table in docs/schema-diff.md is what the library says."""

import pytest
from apidiscovery_client.schema_diff import compare
from schema_documented import rows, schema_in

_CELLS = 7


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_has_the_verdicts_of_its_pair(row: list[str]) -> None:
    assert len(row) == _CELLS
    rule, old, new, *verdicts = row

    changes = compare(schema_in(old), schema_in(new), path="spec")

    (told,) = [one.as_json() for one in changes if one.change == rule]
    assert [told[who] for who in ("writer", "reader", "stored", "applier")] == verdicts
    assert ("reason" in told) is ("unknown" in verdicts)


def test_the_table_is_found() -> None:
    assert len(rows()) > 50
