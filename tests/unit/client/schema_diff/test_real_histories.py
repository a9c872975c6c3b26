"""Definitions of real projects over their releases: what is told of each step."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from apidiscovery_client.schema_diff import Change, compare, compare_definitions
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.schemas import read
from crd_histories import PROJECTS, steps
from repository import GOLDEN
from schema_pairs import instance
from schema_trials import is_object
from schema_verdicts import contradiction

_SUMMARY: dict[str, dict[str, dict[str, int]]] = json.loads(
    (GOLDEN / "schema-diff" / "histories.json").read_text("utf-8")
)
_SAMPLES = 6
_MOST_FIELDS = 40


def summary(changes: tuple[Change, ...]) -> dict[str, int]:
    """Return how often each rule is told with each verdict for writers and stored objects."""
    told = Counter(f"{one.change} {one.verdicts.writer} {one.verdicts.stored}" for one in changes)
    return dict(sorted(told.items()))


@pytest.mark.parametrize("project", PROJECTS)
def test_each_step_has_the_recorded_changes_and_no_unknown_lacks_a_reason(project: str) -> None:
    for name, old, new in steps(project):
        changes = compare_definitions(old, new)

        assert summary(changes) == _SUMMARY[project][name], name
        unexplained = [
            one for one in changes if one.verdicts.has_unknown and not one.verdicts.reason
        ]
        assert not unexplained, name


def _fields(old: Any, new: Any, depth: int = 0) -> list[tuple[dict[str, Any], dict[str, Any]]]:  # noqa: ANN401
    """Return the schemas of fields that differ and are small enough for samples."""
    if not is_object(old) or not is_object(new) or old == new:
        return []
    pairs = [] if depth == 0 or len(json.dumps([old, new])) > 20_000 else [(old, new)]
    for name, field in old.get("properties", {}).items():
        pairs += _fields(field, new.get("properties", {}).get(name), depth + 1)
    return pairs + _fields(old.get("items"), new.get("items"), depth + 1)


def _schemas(definition: dict[str, Any]) -> dict[str, Any]:
    return {
        one["name"]: one.get("schema", {}).get("openAPIV3Schema")
        for one in definition["spec"]["versions"]
    }


@pytest.mark.parametrize("project", PROJECTS)
def test_samples_do_not_contradict_the_verdicts(project: str) -> None:
    tried = 0
    for _, old, new in steps(project):
        pairs = [
            pair
            for version, one in _schemas(old).items()
            for pair in _fields(one, _schemas(new).get(version))
            if not _has_rules(pair)
        ]
        for one, other in pairs[:_MOST_FIELDS]:
            changes = compare(one, other, path="spec")
            for value in _values(one, other):
                found = contradiction(one, other, value, changes)
                tried += found is not None
                assert not found, (found, value, one, other)
    assert tried > 100


def _has_rules(pair: tuple[dict[str, Any], dict[str, Any]]) -> bool:
    """Tell whether the model of the server lacks something of the schemas."""
    text = json.dumps(pair)
    return any(part in text for part in ("x-kubernetes-validations", '"format":', "(?", r"\\p"))


def _values(old: dict[str, Any], new: dict[str, Any]) -> list[Any]:
    random = Random(0)  # noqa: S311 - examples
    examples = list(Examples(raw=True).of(read(old), read(new)))
    return [*examples[:_SAMPLES], *(instance(random, old) for _ in range(_SAMPLES))]
