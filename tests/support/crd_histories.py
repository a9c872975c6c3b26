"""CustomResourceDefinitions of several releases of real projects, from tests/golden/schema-diff."""

import json
import lzma
from itertools import pairwise
from typing import Any

from json_walks import is_object
from repository import GOLDEN

PROJECTS = ("argo-cd", "cert-manager", "gateway-api", "prometheus-operator")
FOLDER = GOLDEN / "schema-diff" / "histories"


def history(project: str) -> dict[str, dict[str, Any]]:
    """Return the definitions of each release, oldest first."""
    found: dict[str, dict[str, Any]] = json.loads(
        lzma.decompress((FOLDER / f"{project}.json.xz").read_bytes())
    )
    return {release: found[release] for release in sorted(found, key=_order)}


def steps(project: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Return `definition OLD..NEW` and both definitions, for all in two successive releases."""
    found = history(project)
    return [
        (f"{name} {one}..{other}", found[one][name], found[other][name])
        for one, other in pairwise(found)
        for name in sorted(found[one].keys() & found[other].keys())
    ]


def changed_fields(
    old: dict[str, Any], new: dict[str, Any], most: int = 20_000
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return the schemas of fields that differ, up to a length as JSON."""
    after = _schemas(new)
    return [
        pair
        for version, one in _schemas(old).items()
        for pair in _fields(one, after.get(version))
        if len(json.dumps(pair)) <= most
    ]


def _schemas(definition: dict[str, Any]) -> dict[str, Any]:
    return {
        one["name"]: one.get("schema", {}).get("openAPIV3Schema")
        for one in definition["spec"]["versions"]
    }


def _fields(
    old: Any,  # noqa: ANN401 - JSON
    new: Any,  # noqa: ANN401 - JSON
    depth: int = 0,
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    if not is_object(old) or not is_object(new) or old == new:
        return []
    pairs = [] if depth == 0 else [(old, new)]
    for name, field in old.get("properties", {}).items():
        pairs += _fields(field, new.get("properties", {}).get(name), depth + 1)
    return pairs + _fields(old.get("items"), new.get("items"), depth + 1)


def _order(release: str) -> list[int]:
    return [int(part) for part in release.removeprefix("v").split(".")]
