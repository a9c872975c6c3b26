"""Compares the verdicts of changes with the outcome for a value."""

import re
from collections.abc import Iterable
from typing import Any

from apidiscovery_client.schema_diff import Change
from schema_server import differences, serve, stored_errors

_ALLOWED = {
    "rejected": ("rejected", "unknown"),
    "pruned": ("pruned", "rejected", "unknown"),
    "defaulted": ("defaulted", "pruned", "rejected", "unknown"),
}


def is_related(one: str, other: str) -> bool:
    """Tell whether two paths are equal or one is above the other; `{}` stands for any field."""
    first, second = (re.findall(r"\.[^.\[{]+|\[\]|\{\}", path) for path in (one, other))
    return all(
        left == right or (left != "[]" != right and "{}" in (left, right))
        for left, right in zip(first, second, strict=False)
    )


def contradiction(
    old: dict[str, Any],
    new: dict[str, Any],
    value: Any,  # noqa: ANN401 - JSON
    changes: Iterable[Change],
) -> str | None:
    """Return an outcome that no change explains, empty for none; None for an invalid value.

    The changes are those of `compare` with the path `spec`.
    """
    told = list(changes)
    before = serve(old, value)
    if before.errors or "pruned" in differences(old, value, before.value, value).values():
        return None

    def missing(became: dict[str, str], who: str) -> str:
        for path, outcome in became.items():
            if not any(
                getattr(change.verdicts, who) in _ALLOWED[outcome]
                and is_related(f".spec{path}", f".{change.path}")
                for change in told
            ):
                return f"{who}: {outcome} at spec{path}"
        return ""

    after = serve(new, value)
    if after.errors:
        found = missing(dict.fromkeys(after.errors, "rejected"), "writer")
    else:
        found = missing(differences(new, before.value, after.value, value), "writer")
    read = serve(new, before.value).value
    errors = stored_errors(new, read)
    if errors is None:  # the server may refuse a rule that cannot be evaluated, or not
        return found
    if errors:
        return found or missing(dict.fromkeys(errors, "rejected"), "stored")
    return found or missing(differences(new, before.value, read, before.value), "stored")
