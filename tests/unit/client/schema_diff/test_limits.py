"""References, and hostile schemas."""

import gzip
import time
from typing import Any

import pytest
import yaml
from apidiscovery_client.schema_diff import InvalidSchema, compare, compare_definitions
from repository import GOLDEN
from schema_trials import is_array, is_object

_MANIFESTS = GOLDEN / "crds" / "manifests"
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


def test_what_stands_beside_a_reference_counts() -> None:
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


class _Loader(yaml.CSafeLoader):
    """Reads `=`, an operator in prometheus-operator's enums, as the text that it is."""


_Loader.add_constructor("tag:yaml.org,2002:value", lambda _, node: node.value)


def _definitions() -> list[dict[str, Any]]:
    return [
        one
        for path in sorted(_MANIFESTS.glob("*.gz"))
        for one in yaml.load_all(gzip.decompress(path.read_bytes()), _Loader)
        if one and one["kind"] == "CustomResourceDefinition"
    ]


def _without(value: Any, every: int, counter: list[int]) -> Any:  # noqa: ANN401 - JSON
    """Return a copy in which each so-many-th string has another limit."""
    if is_object(value):
        found = {key: _without(inner, every, counter) for key, inner in value.items()}
        if found.get("type") == "string" and "enum" not in found:
            counter[0] += 1
            if counter[0] % every == 0:
                found["maxLength"] = 3
        return found
    return [_without(one, every, counter) for one in value] if is_array(value) else value


def test_real_definitions_that_lose_some_fields_have_changes() -> None:
    counter = [0]
    pairs = [(one, _without(one, 200, counter)) for one in _definitions()]

    assert sum(len(compare_definitions(old, new)) for old, new in pairs) > len(pairs)
