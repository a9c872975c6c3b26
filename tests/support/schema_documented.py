"""The pairs of schemas and of definitions in the tables of docs/schema-diff.md."""

import json
from typing import Any

from repository import ROOT

_PAGE = ROOT / "docs" / "schema-diff.md"


def rows(of: str = "schema") -> list[list[str]]:
    """Return the cells of each row: rule, old, new, and four verdicts.

    Args:
        of: `schema` or `definition`.
    """
    _, _, rest = _PAGE.read_text("utf-8").partition(f"## Rules of a {of}\n")
    lines = [line for line in rest.partition("\n## ")[0].splitlines() if "| `{" in line]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def schema_in(cell: str) -> dict[str, Any]:
    """Return a schema as the page writes it: the type `object` is left out."""
    told: dict[str, Any] = json.loads(cell.strip("`"))
    typed = "type" in told or "x-kubernetes-int-or-string" in told
    return told if typed else {"type": "object", **told}


def definition_in(cell: str) -> dict[str, Any]:
    """Return a definition as the page writes it, with the omitted fields."""
    told: dict[str, Any] = {
        "names": {},
        "versions": [{"name": "v1"}],
        **json.loads(cell.strip("`")),
    }
    status = told.pop("status", {})
    told["names"] = {
        "plural": "widgets",
        "kind": "Widget",
        "listKind": "WidgetList",
        **told["names"],
    }
    for place, version in enumerate(told["versions"]):
        fields = version.pop("fields", {"a": {"type": "string"}})
        schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
        of_all = {"served": True, "storage": place == 0, "schema": schema}
        version.update({**of_all, **version})
    return {"spec": {"group": "example.com", "scope": "Namespaced", **told}, "status": status}


def pairs() -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return the rule and the two schemas of each row."""
    return [(rule, schema_in(old), schema_in(new)) for rule, old, new, *_ in rows()]
