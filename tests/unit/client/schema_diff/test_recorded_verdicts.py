"""The verdicts of 200 pairs are what a real kube-apiserver did, as it was recorded."""

import json
from typing import Any

import pytest
from apidiscovery_client.schema_diff import compare
from apidiscovery_client.schema_diff.model import Outcome, worst
from repository import GOLDEN

_RECORDS: list[dict[str, Any]] = json.loads(
    (GOLDEN / "schema-diff" / "verdicts.json").read_text("utf-8")
)
_MOST_UNKNOWN = 0.1
_MOST_WORSE = (
    0.03  # keywords of a random schema may exclude each other, so that there is no witness
)
_ORDER = list(Outcome)


@pytest.fixture(scope="module")
def told() -> list[tuple[str, Outcome, Outcome]]:
    """Return names of records, each with a verdict and the worst that happened to a witness."""
    found = list[tuple[str, Outcome, Outcome]]()
    for record in _RECORDS:
        changes = compare(record["old"], record["new"], path="spec")
        for who in ("writer", "stored"):
            verdict = worst(getattr(one.verdicts, who) for one in changes)
            met = worst(Outcome(witness[who]) for witness in record["witnesses"])
            found.append((f"{record['name']} {who}", verdict, met))
    return found


def test_verdicts_are_no_better_than_what_the_server_did(
    told: list[tuple[str, Outcome, Outcome]],
) -> None:
    for name, verdict, met in told:
        if name.startswith("documented"):
            assert verdict in (met, Outcome.UNKNOWN), name
        assert verdict == Outcome.UNKNOWN or _ORDER.index(verdict) >= _ORDER.index(met), name


def test_few_verdicts_are_unknown_or_worse_than_what_happened(
    told: list[tuple[str, Outcome, Outcome]],
) -> None:
    unknown = sum(verdict == Outcome.UNKNOWN for _, verdict, _ in told)
    worse = sum(verdict not in (met, Outcome.UNKNOWN) for _, verdict, met in told)

    assert len(told) == 2 * 200
    assert unknown < _MOST_UNKNOWN * len(told)
    assert worse < _MOST_WORSE * len(told)
