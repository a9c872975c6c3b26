"""Records how a real kube-apiserver treats pairs of schemas, for tests/golden/schema-diff.

    PYTHONPATH=tests/support python tests/support/record_schema_verdicts.py 1.36

It starts a kube-apiserver (real_cluster.py explains how it is found) and writes verdicts.json.
"""

import itertools
import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any

from apidiscovery_client.schema_diff import compare
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.model import Outcome, worst
from apidiscovery_client.schema_diff.schemas import read
from json_walks import is_array, is_object
from real_cluster import running
from repository import GOLDEN
from schema_documented import pairs
from schema_pairs import changed, instance, schema
from schema_rules import UnknownRuleError
from schema_server import serve, stored_errors
from schema_trials import RefusedError, Server, Told, Trial, outcome

_TARGET = GOLDEN / "schema-diff" / "verdicts.json"
_PAIRS = 200
_BATCH = 250
_WITNESSES = 12
_SEVERITY = ("fine", "defaulted", "pruned", "rejected")
_SAME = 5  # pairs of the same rules


def _generated(count: int) -> Iterable[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield random pairs, of which few have the same rules."""
    seen = Counter[frozenset[str]]()
    numbers = itertools.count(1)
    while count:
        seed = next(numbers)
        random = Random(seed)  # noqa: S311 - examples
        old = schema(random)
        new = changed(random, old)
        for keyword in ("default", "nullable"):  # a pair is a property of one object
            old.pop(keyword, None)
            new.pop(keyword, None)
        rules = frozenset(one.change for one in compare(old, new, path="spec"))
        seen[rules] += 1
        if rules and seen[rules] <= _SAME:
            count -= 1
            yield f"seed {seed}", old, new


def _witnesses(name: str, old: dict[str, Any], new: dict[str, Any]) -> list[Any]:
    """Return some values that may be valid under the old schema, the worst first."""
    random = Random(0)  # noqa: S311 - examples
    found = list(Examples(raw=True, doubtful=True).of(read(old), read(new)))
    found += [instance(random, old) for _ in range(_WITNESSES)]
    found += [{}, [None], {"a": None}, {"example": None}, [{"a": None}], {"example": [None]}]
    texts = {json.dumps(one, sort_keys=True): one for one in found if one is not None}
    try:
        expected = [(one, *_expected(old, new, one)) for one in texts.values()]
    except (UnknownRuleError, re.error):  # a rule or a pattern that the model does not know
        return [*texts.values()][:_WITNESSES]
    several = {
        json.dumps(max(expected, key=itemgetter(at))[0]): max(expected, key=itemgetter(at))[0]
        for at in (1, 2)
    }
    if name.startswith("documented"):
        several |= dict(itertools.islice(texts.items(), _WITNESSES))
    return [*several.values()]


def _expected(old: dict[str, Any], new: dict[str, Any], value: Any) -> tuple[int, int]:  # noqa: ANN401
    """Return the severity for a writer and for a stored object, by the model of the server."""
    before, after = serve(old, value), serve(new, value)
    if before.errors:
        return -1, -1
    read_again = serve(new, before.value).value
    writer = "rejected" if after.errors else outcome(before.value, after.value, value)
    refused = stored_errors(new, read_again) != ()
    stored = "rejected" if refused else outcome(before.value, read_again, before.value)
    return _SEVERITY.index(writer), _SEVERITY.index(stored)


def answers(server: Server, trials: Sequence[Trial], name: str) -> list[Told | None]:
    """Try pairs on the server; None where it refuses a schema or the value under the old one."""
    found = list[Told | None]()
    for at in range(0, len(trials), _BATCH):
        batch = trials[at : at + _BATCH]
        refused = set[int]()
        for attempt in itertools.count():
            left = [number for number in range(len(batch)) if number not in refused]
            try:
                told = server.trials(f"{name}{at}x{attempt}", [batch[number] for number in left])
            except RefusedError as error:
                if not error.trials:
                    raise
                refused |= {left[number] for number in error.trials}
                continue
            by_number = dict(zip(left, told, strict=True))
            found += [by_number.get(number) for number in range(len(batch))]
            break
    return [None if one is None or not one.writer else one for one in found]


def _best(told: list[tuple[Any, Told]]) -> list[Any]:
    """Return the fewest witnesses of the worst outcomes for writers and for stored objects."""
    picked = list[Any]()
    for who in ("writer", "stored"):
        most = worst(Outcome(getattr(one, who)) for _, one in told)
        if not any(getattr(one, who) == most for _, one in picked):
            picked.append(next(pair for pair in told if getattr(pair[1], who) == most))
    return [{"value": value, "writer": one.writer, "stored": one.stored} for value, one in picked]


def record(server: Server) -> list[dict[str, Any]]:
    """Return the records."""
    documented = [(f"documented: {rule}", old, new) for rule, old, new in pairs()]
    cases = [*documented, *_generated(_PAIRS)]
    trials = [
        (at, Trial(old, new, value))
        for at, (name, old, new) in enumerate(cases)
        for value in _witnesses(name, old, new)
    ]
    told = answers(server, [trial for _, trial in trials], "records")
    records = list[dict[str, Any]]()
    for at, (name, old, new) in enumerate(cases):
        met = [
            (trial.value, one)
            for (number, trial), one in zip(trials, told, strict=True)
            if number == at and one is not None and _is_kept(trial, one)
        ]
        if met and len(records) < _PAIRS:
            witnesses = _best(met)
            records.append({"name": name, "old": old, "new": new, "witnesses": witnesses})
    return records


def _is_kept(trial: Trial, told: Told) -> bool:
    """Tell whether the manifest was valid before: nothing of it was lost."""
    sent = _without_nulls(trial.value)
    return outcome(sent, told.before, sent) != "pruned"


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a value without the fields that are null, which the server may drop."""
    if is_object(value):
        return {key: _without_nulls(one) for key, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if is_array(value) else value


def main(release: str) -> None:
    """Write the golden file."""
    with tempfile.TemporaryDirectory() as folder, running(release, Path(folder)) as cluster:
        records = record(Server(cluster))
    lines = ",\n".join(json.dumps(one, sort_keys=True) for one in records)
    _TARGET.write_text(f"[\n{lines}\n]\n", "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
