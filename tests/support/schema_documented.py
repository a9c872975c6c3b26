"""The pairs of schemas in the table of docs/schema-diff.md."""

import json
from typing import Any

from repository import ROOT

_PAGE = ROOT / "docs" / "schema-diff.md"


def rows() -> list[list[str]]:
    """Return the cells of each row: rule, old, new, and four verdicts."""
    lines = [line for line in _PAGE.read_text("utf-8").splitlines() if "| `{" in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def schema_in(cell: str) -> dict[str, Any]:
    """Return a schema as the page writes it: the type `object` is left out."""
    told: dict[str, Any] = json.loads(cell.strip("`"))
    typed = "type" in told or "x-kubernetes-int-or-string" in told
    return told if typed else {"type": "object", **told}


def pairs() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the rule and the two schemas of each row."""
    return [(rule, schema_in(old), schema_in(new)) for rule, old, new, *_ in rows()]
