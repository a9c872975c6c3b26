"""The tables in docs/schema-diff.md are what the library says."""

import pytest
from apidiscovery_client.schema_diff import Change, compare, compare_definitions
from schema_documented import definition_in, rows, schema_in

_CELLS = 7


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_a_row_has_the_verdicts_of_its_pair(row: list[str]) -> None:
    _, old, new, *_ = row
    _check(row, compare(schema_in(old), schema_in(new), path="spec"))


@pytest.mark.parametrize("row", rows("definition"), ids=lambda row: row[0])
def test_a_row_of_definitions_has_the_verdicts_of_its_pair(row: list[str]) -> None:
    rule, old, new, *_ = row
    changes = compare_definitions(definition_in(old), definition_in(new))
    _check(row, changes)
    assert {one.change for one in changes} - {"version-removed"} <= {rule}


def _check(row: list[str], changes: tuple[Change, ...]) -> None:
    assert len(row) == _CELLS
    rule, _, _, *verdicts = row
    (told,) = [one.as_json() for one in changes if one.change == rule]
    assert [told[who] for who in ("writer", "reader", "stored", "applier")] == verdicts
    assert ("reason" in told) is ("unknown" in verdicts)


def test_the_tables_are_found() -> None:
    assert len(rows()) > 50
    assert len(rows("definition")) > 20
