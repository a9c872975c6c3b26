"""References, and hostile schemas."""

import time
from typing import Any

import pytest
from apidiscovery_client.schema_diff import InvalidSchema, compare

_STRING = {"type": "string"}


def _props(name: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    ref = {"$ref": name}
    fields: dict[str, Any] = {
        "not": ref,
        "properties": {"type": "object", "additionalProperties": ref},
        **more,
    }
    return {"type": "object", "properties": fields}


def test_a_schema_that_refers_to_itself_is_walked_once() -> None:
    old, new = _props("a", gone=_STRING, kept=_STRING), _props("b", kept=_STRING)

    changes = compare(
        {"$ref": "a"}, {"$ref": "b"}, resolve_old={"a": old}.get, resolve_new={"b": new}.get
    )

    assert "gone" in {change.path for change in changes}
    assert {change.change for change in changes} == {"property-removed"}


def test_keywords_beside_a_reference_count() -> None:
    target = {"t": {"type": "object", "properties": {"a": _STRING}}}
    old: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"allOf": [{"$ref": "t"}], "default": {}}},
    }
    new = {"type": "object", "properties": {"x": {"allOf": [{"$ref": "t"}]}}}

    (change,) = compare(old, new, resolve_old=target.get, resolve_new=target.get)

    assert (change.path, change.change) == ("x", "default-removed")


@pytest.mark.parametrize(
    ("targets", "problem"),
    [
        pytest.param({}, "no schema 'a' is known", id="nowhere"),
        pytest.param({"a": {"$ref": "a"}}, "leads to itself", id="circle"),
    ],
)
def test_a_reference_that_leads_nowhere_is_an_error(targets: Any, problem: str) -> None:  # noqa: ANN401
    with pytest.raises(InvalidSchema, match=problem):
        compare({"$ref": "a"}, {}, resolve_old=targets.get)


@pytest.mark.parametrize("depth", [150, 5_000, 100_000])
def test_a_schema_that_is_too_deep_is_an_error(depth: int) -> None:
    old: dict[str, Any] = dict(_STRING)
    new: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        old = {"type": "object", "properties": {"a": old}}
        new = {"type": "object", "properties": {"a": new}}

    with pytest.raises(InvalidSchema, match="nested"):
        compare(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({"pattern": "(a*)*" * 30}, {"pattern": "(a|aa)+$" * 30}, id="patterns"),
        pytest.param({"pattern": "a{1,9999}"}, {"pattern": "b{9999}"}, id="repeats"),
        pytest.param({}, {"enum": [str(at) for at in range(50_000)]}, id="enum"),
        pytest.param({}, {"maxLength": 10**9}, id="length"),
        pytest.param({}, {"anyOf": [{"pattern": f"^{at}"} for at in range(500)]}, id="branches"),
    ],
)
def test_a_hostile_keyword_takes_bounded_time(old: Any, new: Any) -> None:  # noqa: ANN401 - JSON
    start = time.process_time()

    changes = compare({**old, **_STRING}, {**new, **_STRING}, path="spec")

    assert len(changes) == 1
    assert time.process_time() - start < 10


def test_a_wide_schema_takes_bounded_time() -> None:
    fields = {f"field{at}": {"type": "string"} for at in range(5_000)}
    old = {"type": "object", "properties": fields}
    new = {**old, "x-kubernetes-validations": [{"rule": "size(self.field7) > 3"}]}
    start = time.process_time()

    (change,) = compare(old, new, path="spec")

    assert change.verdicts.writer != "fine"
    assert time.process_time() - start < 10
