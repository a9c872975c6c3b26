"""The table in docs/schema-diff.md is what the library says."""

import json
from typing import Any

import pytest
from apidiscovery_client.schema_diff import compare
from repository import ROOT

_PAGE = ROOT / "docs" / "schema-diff.md"
_CELLS = 7


def _rows() -> list[list[str]]:
    lines = [line for line in _PAGE.read_text("utf-8").splitlines() if "| `{" in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def _schema(text: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(text.strip("`"))
    typed = "type" in told or "x-kubernetes-int-or-string" in told
    return told if typed else {"type": "object", **told}


@pytest.mark.parametrize("row", _rows(), ids=lambda row: row[0])
def test_a_row_has_the_verdicts_of_its_pair(row: list[str]) -> None:
    assert len(row) == _CELLS
    rule, old, new, *verdicts = row

    changes = compare(_schema(old), _schema(new), path="spec")

    (told,) = [one.as_json() for one in changes if one.change == rule]
    assert [told[who] for who in ("writer", "reader", "stored", "applier")] == verdicts
    assert ("reason" in told) is ("unknown" in verdicts)


def test_the_table_is_found() -> None:
    assert len(_rows()) > 50
