"""Verdicts for each step between releases of real projects."""

import json
from collections import Counter
from random import Random
from typing import Any

import pytest
from apidiscovery_client.schema_diff import Change, compare, compare_definitions
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.schemas import read
from crd_histories import PROJECTS, changed_fields, steps
from markers import IS_LONG
from repository import GOLDEN
from schema_pairs import instance
from schema_verdicts import contradiction

_SUMMARY: dict[str, dict[str, dict[str, int]]] = json.loads(
    (GOLDEN / "schema-diff" / "histories.json").read_text("utf-8")
)
_SAMPLES = 6
_MOST_FIELDS = 20 if IS_LONG else 6
# They take most of the time, and their rules and fields are in other routes, agents or steps too.
_ROUTES = tuple(
    f"httproutes.gateway.networking.k8s.io {one}" for one in ("v0.7", "v0.8", "v1.2", "v1.4")
)
_FOR_LONG_RUNS = (
    *_ROUTES,
    *("tcproutes.", "tlsroutes.", "udproutes.", "gateways.gateway.networking.k8s.io v1.2.1"),
    "prometheuses.monitoring.coreos.com v0.86.2",
)


def _steps(project: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    return [one for one in steps(project) if IS_LONG or not one[0].startswith(_FOR_LONG_RUNS)]


def summary(changes: tuple[Change, ...]) -> dict[str, int]:
    """Return how often each rule is told with each verdict for writers and stored objects."""
    told = Counter(f"{one.change} {one.verdicts.writer} {one.verdicts.stored}" for one in changes)
    return dict(sorted(told.items()))


@pytest.mark.parametrize("project", PROJECTS)
def test_each_step_has_the_recorded_changes_and_no_unknown_lacks_a_reason(project: str) -> None:
    for name, old, new in _steps(project):
        changes = compare_definitions(old, new)

        assert summary(changes) == _SUMMARY[project][name], name
        unexplained = [
            one for one in changes if one.verdicts.has_unknown and not one.verdicts.reason
        ]
        assert not unexplained, name


@pytest.mark.parametrize("project", PROJECTS)
def test_samples_do_not_contradict_the_verdicts(project: str) -> None:
    tried, done = 0, set[str]()
    for _, old, new in _steps(project):
        pairs = [pair for pair in changed_fields(old, new) if not _has_rules(pair)]
        for one, other in pairs[:_MOST_FIELDS]:
            text = json.dumps([one, other])
            if text in done:  # a kind of the same project has it too
                continue
            done.add(text)
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
