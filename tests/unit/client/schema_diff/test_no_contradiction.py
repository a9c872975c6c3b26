"""What a server does with a value never contradicts the verdicts."""

import json
from collections import Counter
from random import Random

import pytest
from apidiscovery_client.schema_diff import compare
from hypothesis import given, settings
from hypothesis import strategies as st
from schema_pairs import changed, instance, schema
from schema_verdicts import contradiction

_VALUES = 20


def _check(random: Random) -> int:
    old = schema(random)
    new = changed(random, old)
    changes = compare(old, new, path="spec")
    valid = 0
    for _ in range(_VALUES):
        value = instance(random, old)
        found = None if value is None else contradiction(old, new, value, changes)
        valid += found is not None
        assert not found, (found, old, new, value, changes)
    return valid


@settings(deadline=None, max_examples=150)
@given(st.randoms(use_true_random=False))
def test_fine_is_not_contradicted_by_any_value_that_was_valid(random: Random) -> None:
    _check(random)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("seeds", "least"),
    [
        pytest.param(range(800), 10_000, id="short"),
        pytest.param(
            range(10_000, 18_500),
            100_000,
            id="long",
            marks=pytest.mark.long,
        ),
    ],
)
def test_fine_is_not_contradicted_in_many_values(seeds: range, least: int) -> None:
    assert sum(_check(Random(seed)) for seed in seeds) > least  # noqa: S311 - examples


def test_every_keyword_is_in_many_random_pairs() -> None:
    wanted = (
        *("oneOf", "anyOf", "allOf", "not", "enum", "pattern", "format", "nullable", "default"),
        *("minimum", "exclusiveMaximum", "multipleOf", "minLength", "maxItems", "minProperties"),
        *("x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"),
        *("x-kubernetes-embedded-resource", "x-kubernetes-list-map-keys"),
        *("x-kubernetes-validations", "required", "additionalProperties"),
    )
    found = Counter[str]()
    for seed in range(2_500):
        old = schema(Random(seed))  # noqa: S311 - examples
        found.update(keyword for keyword in wanted if f'"{keyword}":' in json.dumps(old))

    assert [keyword for keyword in wanted if found[keyword] < 10] == []


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_equal_schemas_have_no_changes(random: Random) -> None:
    one = schema(random)

    assert not compare(one, dict(one))
