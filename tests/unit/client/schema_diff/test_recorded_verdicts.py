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


def _told(record: dict[str, Any], who: str) -> tuple[Outcome, Outcome]:
    """Return the verdict, and the worst that happened to a witness."""
    changes = compare(record["old"], record["new"], path="spec")
    met = (Outcome(witness[who]) for witness in record["witnesses"])
    return worst(getattr(one.verdicts, who) for one in changes), worst(met)


@pytest.mark.parametrize("who", ["writer", "stored"])
def test_verdicts_are_what_the_server_did(who: str) -> None:
    for record in _RECORDS:
        verdict, met = _told(record, who)
        if record["name"].startswith("documented"):
            assert verdict in (met, Outcome.UNKNOWN), record["name"]
        is_safe = verdict == Outcome.UNKNOWN or _ORDER.index(verdict) >= _ORDER.index(met)
        assert is_safe, record["name"]


def test_few_verdicts_are_unknown_or_worse_than_what_happened() -> None:
    told = [_told(record, who) for record in _RECORDS for who in ("writer", "stored")]
    unknown = sum(verdict == Outcome.UNKNOWN for verdict, _ in told)
    worse = sum(verdict not in (met, Outcome.UNKNOWN) for verdict, met in told)

    assert len(_RECORDS) == 200
    assert unknown < _MOST_UNKNOWN * len(told)
    assert worse < _MOST_WORSE * len(told)
