"""What a server does with a value never contradicts the verdicts."""

from random import Random

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


def test_fine_is_not_contradicted_in_ten_thousand_values() -> None:
    assert sum(_check(Random(seed)) for seed in range(800)) > 10_000  # noqa: S311 - examples


@settings(deadline=None, max_examples=50)
@given(st.randoms(use_true_random=False))
def test_equal_schemas_have_no_changes(random: Random) -> None:
    one = schema(random)

    assert not compare(one, dict(one))
