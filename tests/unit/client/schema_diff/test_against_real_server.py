"""A real kube-apiserver does with manifests and stored objects what the verdicts say."""

import itertools
import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from apidiscovery_client.schema_diff import compare
from apidiscovery_client.schema_diff.examples import Examples
from apidiscovery_client.schema_diff.model import worst
from apidiscovery_client.schema_diff.schemas import read
from crd_histories import PROJECTS, changed_fields, steps
from markers import IS_LONG
from real_cluster import running
from record_schema_verdicts import answers
from repository import GOLDEN
from schema_pairs import changed, instance, schema
from schema_server import serve, stored_errors
from schema_trials import RefusedError, Server, Told, Trial, outcome

_PAIRS = 250 if IS_LONG else 120
_TRIALS = 60
_LONGEST = 4_000
_SEVERITY = ("fine", "defaulted", "pruned", "unknown", "rejected")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running("1.36", tmp_path_factory.mktemp("schemas")) as cluster:
        yield Server(cluster)


def _trials() -> list[Trial]:
    """Return pairs that are changed, each with a value that is valid under the old schema."""
    found = list[Trial]()
    seed = 0
    while len(found) < _PAIRS:
        seed += 1
        random = Random(seed)  # noqa: S311 - examples
        old = schema(random)
        new = changed(random, old)
        values = [instance(random, old) for _ in range(9)]
        valid = [one for one in values if one is not None and not serve(old, one).errors]
        # The property of the trial is itself absent in the objects of all others.
        old.pop("default", None)
        new.pop("default", None)
        if old != new and valid:
            worse = [one for one in valid if serve(new, one).errors]
            found.append(Trial(old, new, (worse or valid)[0]))
    return found


def _tried(server: Server, trials: list[Trial]) -> list[tuple[Trial, Told]]:
    for attempt in range(8):
        try:
            told = server.trials(f"pairs{attempt}", trials)
        except RefusedError as error:
            if not error.trials:
                raise
            trials = [one for at, one in enumerate(trials) if at not in error.trials]
        else:
            return list(zip(trials, told, strict=True))
    pytest.fail("the server refuses the definitions")


def test_what_the_server_does_is_what_model_and_verdicts_say(server: Server) -> None:
    told = _tried(server, _trials())

    assert len(told) > _PAIRS * 0.8
    for trial, answer in told:
        assert answer.writer, (trial, answer)
        before = serve(trial.old, trial.value)
        after = serve(trial.new, trial.value)
        model = "rejected" if after.errors else outcome(before.value, after.value, trial.value)
        assert (answer.before, answer.writer) == (before.value, model), (trial, answer)
        read = serve(trial.new, before.value)
        kept = outcome(before.value, read.value, before.value)
        errors = stored_errors(trial.new, read.value)
        if errors is None:  # whether a rule reads a value of a wrong type is not modelled
            assert answer.stored in (kept, "rejected"), (trial, answer)
        else:
            assert answer.stored == ("rejected" if errors else kept), (trial, answer)
        changes = compare(trial.old, trial.new, path="spec")
        for who, did in (("writer", answer.writer), ("stored", answer.stored)):
            verdict = worst(getattr(one.verdicts, who) for one in changes)
            assert verdict == "unknown" or _SEVERITY.index(verdict) >= _SEVERITY.index(did), (
                who,
                trial,
                answer,
                changes,
            )


def test_the_server_does_what_was_recorded(server: Server) -> None:
    records: list[dict[str, Any]] = json.loads(
        (GOLDEN / "schema-diff" / "verdicts.json").read_text("utf-8")
    )
    recorded = [
        (Trial(record["old"], record["new"], one["value"]), (one["writer"], one["stored"]))
        for record in records
        for one in record["witnesses"]
    ]

    told = answers(server, [trial for trial, _ in recorded], "recorded")

    for (trial, expected), answer in zip(recorded, told, strict=True):
        assert answer is not None, trial
        assert (answer.writer, answer.stored) == expected, (trial, answer)


def _from_history(project: str) -> Iterator[Trial]:
    """Return fields that differ between releases, each with values that were valid before."""
    found = set[str]()
    for _, old, new in steps(project):
        for one, other in changed_fields(old, new, most=_LONGEST):
            first, second = (
                {key: value for key, value in schema.items() if key not in ("default", "nullable")}
                for schema in (one, other)
            )
            examples = Examples(raw=True).of(read(first), read(second))
            for value in itertools.islice((one for one in examples if one is not None), 4):
                key = json.dumps([first, second, value])
                if key not in found:
                    found.add(key)
                    yield Trial(first, second, value)


@pytest.mark.parametrize("project", PROJECTS)
def test_what_the_server_does_between_releases_is_no_worse_than_the_verdicts(
    server: Server, project: str
) -> None:
    trials = list(itertools.islice(_from_history(project), _TRIALS))

    told = answers(server, trials, project.replace("-", ""))

    answered = [(one, answer) for one, answer in zip(trials, told, strict=True) if answer]
    assert len(answered) > len(trials) / 2
    for trial, answer in answered:
        changes = compare(trial.old, trial.new, path="spec")
        for who, did in (("writer", answer.writer), ("stored", answer.stored)):
            verdict = worst(getattr(one.verdicts, who) for one in changes)
            decided = verdict != "unknown"
            is_worse = _SEVERITY.index(verdict) < _SEVERITY.index(did)
            assert not (decided and is_worse), (who, verdict, trial, answer)


_INTEGER: dict[str, Any] = {"type": "integer"}
_TWO = {"type": "object", "properties": {"a": _INTEGER, "b": _INTEGER}}


@pytest.mark.parametrize(
    ("old", "new", "fields"),
    [
        pytest.param(_TWO, {**_TWO, "required": ["b"]}, {"a": 3}, id="required"),
        pytest.param(_TWO, {**_TWO, "maxProperties": 4}, {"a": 3, "b": 4}, id="maxProperties"),
        pytest.param(
            _TWO,
            {**_TWO, "x-kubernetes-validations": [{"rule": "!has(self.a) || self.a > 5"}]},
            {"a": 3},
            id="rule",
        ),
        pytest.param(
            _TWO,
            {**_TWO, "oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {"a": 3, "b": 4},
            id="oneOf",
        ),
        pytest.param(
            _TWO,
            {"type": "object", "properties": {"a": {**_INTEGER, "maximum": 1}, "b": _INTEGER}},
            {"a": 3},
            id="field",
        ),
    ],
)
def test_rules_of_the_whole_object_are_not_tolerated_in_updates(
    server: Server,
    request: pytest.FixtureRequest,
    old: dict[str, Any],
    new: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    plural = "roots" + request.node.callspec.id.lower()
    told = server.roots(plural, old, new, fields)

    changes = compare(old, new)

    assert worst(one.verdicts.writer for one in changes) == told.writer == "rejected"
    assert worst(one.verdicts.stored for one in changes) == told.stored
