"""No value is treated worse by the model of the server than the verdicts say."""

import copy
import json
from collections import Counter
from random import Random

import pytest
from apidiscovery_client.schema_diff import compare
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


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("seeds", "least"),
    [
        pytest.param(range(400), 5_000, id="short"),
        pytest.param(
            range(10_000, 18_500),
            100_000,
            id="long",
            marks=pytest.mark.long,
        ),
    ],
)
def test_no_valid_value_contradicts_fine(seeds: range, least: int) -> None:
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


def test_equal_schemas_have_no_changes() -> None:
    for seed in range(50):
        one = schema(Random(seed))  # noqa: S311 - examples
        assert not compare(one, copy.deepcopy(one)), one
