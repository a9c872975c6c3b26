"""Patches: RFC 7386, RFC 6902 and strategic merge, each with what kube-apiserver says of errors."""

import copy
import json
import time
from typing import cast

import pytest
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects import patches
from apidiscovery_service.kube_objects.errors import ObjectError
from apidiscovery_service.kube_objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube_objects.patches import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
)
from hypothesis import given
from hypothesis import strategies as st

SERVER: JSONValue = {
    "apiServerID": "a",
    "encodingVersion": "v1",
    "decodableVersions": ["v1"],
}


def stored() -> Object:
    return {
        "kind": "StorageVersion",
        "apiVersion": "internal.apiserver.k8s.io/v1alpha1",
        "metadata": {
            "name": "apps.deployments",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"a": "1", "b": "2"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": "1"},
                {"apiVersion": "v1", "kind": "Pod", "name": "two", "uid": "2"},
            ],
            "finalizers": ["x/a", "x/b", "x/c"],
        },
        "spec": {},
        "status": {"storageVersions": [SERVER], "commonEncodingVersion": "v1"},
    }


def patched(content_type: str, patch: JSONValue) -> Object:
    text = json.dumps(patch).encode()
    return patches.apply(content_type, text, stored(), STORAGE_VERSION).object


def metadata(content_type: str, patch: JSONValue) -> dict[str, JSONValue]:
    return cast("dict[str, JSONValue]", patched(content_type, patch)["metadata"])


def refused(content_type: str, patch: bytes, *, strict: bool = False) -> ObjectError:
    with pytest.raises(ObjectError) as caught:
        patches.apply(content_type, patch, stored(), STORAGE_VERSION, strict=strict)
    return caught.value


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patches_are_those_of_rfc_7386_appendix_a(
    target: JSONValue, patch: JSONValue, result: JSONValue
) -> None:
    before = copy.deepcopy(target)
    assert patches.merge_patched(target, patch) == result
    assert target == before


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(VALUES, VALUES)
def test_a_merge_patch_does_the_same_twice(target: JSONValue, patch: JSONValue) -> None:
    once = patches.merge_patched(target, patch)
    assert patches.merge_patched(once, patch) == once


@given(st.dictionaries(st.sampled_from("abcd"), VALUES), VALUES)
def test_a_merge_patch_leaves_nothing_that_it_takes_away(
    target: dict[str, JSONValue], patch: JSONValue
) -> None:
    merged = patches.merge_patched(target, patch)
    if isinstance(patch, dict):
        assert isinstance(merged, dict)
        assert all((name in merged) is (patch[name] is not None) for name in patch)
        kept = target.keys() - patch.keys()
        assert {name: merged[name] for name in kept} == {name: target[name] for name in kept}


def test_a_merge_patch_of_an_object() -> None:
    labels: JSONValue = {"a": None, "c": "3"}
    changed = metadata(MERGE_PATCH, {"metadata": {"labels": labels, "finalizers": ["y/z"]}})
    assert changed["labels"] == {"b": "2", "c": "3"}
    assert changed["finalizers"] == ["y/z"]


def test_the_object_that_is_patched_is_not_changed() -> None:
    target = stored()
    for content_type, patch in (
        (JSON_PATCH, b'[{"op":"remove","path":"/metadata/labels/a"}]'),
        (MERGE_PATCH, b'{"metadata":{"labels":{"a":null}}}'),
        (STRATEGIC_MERGE_PATCH, b'{"metadata":{"labels":{"a":null},"finalizers":["q"]}}'),
    ):
        changed = patches.apply(content_type, patch, target, STORAGE_VERSION).object
        assert changed != target
        assert target == stored()


@pytest.mark.parametrize(
    ("operations", "labels"),
    [
        pytest.param([], {"a": "1", "b": "2"}, id="none"),
        pytest.param(
            [{"op": "add", "path": "/metadata/labels/c", "value": "3"}],
            {"a": "1", "b": "2", "c": "3"},
            id="add",
        ),
        pytest.param([{"op": "remove", "path": "/metadata/labels/a"}], {"b": "2"}, id="remove"),
        pytest.param(
            [{"op": "replace", "path": "/metadata/labels/a", "value": "9"}],
            {"a": "9", "b": "2"},
            id="replace",
        ),
        pytest.param(
            [{"op": "move", "from": "/metadata/labels/a", "path": "/metadata/labels/x~1y"}],
            {"b": "2", "x/y": "1"},
            id="move",
        ),
        pytest.param(
            [{"op": "copy", "from": "/metadata/labels/a", "path": "/metadata/labels/b"}],
            {"a": "1", "b": "1"},
            id="copy",
        ),
        pytest.param(
            [
                {"op": "test", "path": "/metadata/labels/a", "value": "1"},
                {"op": "remove", "path": "/metadata/labels/a"},
            ],
            {"b": "2"},
            id="test",
        ),
    ],
)
def test_a_json_patch_of_an_object(operations: list[JSONValue], labels: JSONValue) -> None:
    assert metadata(JSON_PATCH, operations)["labels"] == labels


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "test", "path": "/metadata/labels/a", "value": "2"}, id="other value"),
        pytest.param({"op": "remove", "path": "/metadata/labels/z"}, id="nothing to remove"),
        pytest.param({"op": "replace", "path": "/x/y", "value": 1}, id="nothing to replace"),
        pytest.param({"op": "copy", "from": "/x", "path": "/y"}, id="nothing to copy"),
        pytest.param({"op": "move", "from": "/x", "path": "/y"}, id="nothing to move"),
        pytest.param({"op": "copy", "path": "/y"}, id="copy from nowhere"),
        pytest.param({"op": "copy", "from": "/metadata"}, id="copy to nowhere"),
        pytest.param({"op": "add", "path": "/metadata/finalizers/9", "value": "x"}, id="index"),
        pytest.param({"op": "add", "path": "/metadata/finalizers/x", "value": "x"}, id="no index"),
        pytest.param({"op": "add", "path": "metadata", "value": "x"}, id="no pointer"),
        pytest.param({"op": "add", "path": "/~2", "value": "x"}, id="escape"),
        pytest.param({"op": "add", "path": "/metadata/name/x", "value": 1}, id="into a string"),
        pytest.param({"op": "copy", "from": "/metadata/finalizers/-", "path": "/x"}, id="the end"),
        pytest.param({"op": "remove", "path": ""}, id="everything"),
        pytest.param({"op": "fly", "path": "/x"}, id="operation"),
        pytest.param({"path": "/x"}, id="no operation"),
        pytest.param({"op": "add", "path": "/metadata/labels/c"}, id="no value"),
        pytest.param(None, id="null"),
    ],
)
def test_a_json_patch_that_cannot_be_applied_is_unprocessable(operation: JSONValue) -> None:
    error = refused(JSON_PATCH, json.dumps([operation]).encode())
    assert (error.code, error.reason) == (422, "Invalid")


@pytest.mark.parametrize(
    ("content_type", "patch", "message"),
    [
        pytest.param(JSON_PATCH, b"[", "invalid JSON patch", id="no JSON"),
        pytest.param(MERGE_PATCH, b"[" * 10_000, "invalid JSON patch", id="no JSON, deep"),
        pytest.param(
            MERGE_PATCH, b'{"a":' * 5000 + b"1" + b"}" * 5000, "invalid JSON patch", id="too deep"
        ),
        pytest.param(MERGE_PATCH, b"{}{}", "invalid JSON patch", id="two documents"),
        pytest.param(MERGE_PATCH, b'{"a":NaN}', "invalid JSON patch", id="NaN"),
        pytest.param(
            JSON_PATCH,
            b"{}",
            "error decoding patch: json: cannot unmarshal object into Go value of type "
            "[]handlers.jsonPatchOp",
            id="no list of operations",
        ),
        pytest.param(
            JSON_PATCH,
            b"[true]",
            "error decoding patch: json: cannot unmarshal bool into Go value of type "
            "handlers.jsonPatchOp",
            id="no operation",
        ),
        pytest.param(
            JSON_PATCH,
            b'[{"op":"add","path":1}]',
            "error decoding patch: json: cannot unmarshal number into Go struct field "
            "jsonPatchOp.path of type string",
            id="path",
        ),
        pytest.param(
            MERGE_PATCH,
            b"[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}",
            id="no merge patch",
        ),
        pytest.param(MERGE_PATCH, b"null", "Invalid JSON Patch", id="null"),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'"x"',
            "json: cannot unmarshal string into Go value of type map[string]interface {}",
            id="no strategic merge patch",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"$patch":"x"}',
            "unknown patch type: x in map: map[$patch:x]",
            id="directive",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"ownerReferences":[{"$patch":["x"],"uid":"1"}]}}',
            "unknown patch type: [x] in map: map[$patch:[x] uid:1]",
            id="directive in a list",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"ownerReferences":[{"name":"x"}]}}',
            "map: map[name:x] does not contain declared merge key: uid",
            id="merge key",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"ownerReferences":[{"uid":{}}]}}',
            "expected a plain value, but received map[]",
            id="merge key is an object",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$setElementOrder/ownerReferences":["x"]}}',
            "expected a map, but received x",
            id="no owner",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"finalizers":[1]}}',
            "list element types are not identical: [x/a x/b x/c 1]",
            id="types",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$deleteFromPrimitiveList":["x/a"]}}',
            "invalid patch format of primitive list",
            id="deletion",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$retainKeys":["labels"],"finalizers":["x"]}}',
            "invalid patch format of retainKeys",
            id="retained keys",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$retainKeys":{}}}',
            "invalid patch format of retainKeys",
            id="no list of keys",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$setElementOrder/labels":["a"]}}',
            "invalid patch format of setElementOrder list",
            id="order of no list",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"metadata":{"$setElementOrder/finalizers":["x/b","x/a"],"finalizers":["x/c"]}}',
            "The order in patch list:\n[x/c]\n doesn't match $setElementOrder list:\n[x/b x/a]\n",
            id="order without an item",
        ),
    ],
)
def test_what_is_no_patch_is_a_bad_request(content_type: str, patch: bytes, message: str) -> None:
    error = refused(content_type, patch)
    assert (error.code, error.message) == (400, message)


@pytest.mark.parametrize(
    "content_type",
    ["", "application/json", "application/apply-patch+yaml", "Application/merge-patch+json"],
)
def test_another_media_type_is_unsupported(content_type: str) -> None:
    error = refused(content_type, b"{}")
    assert error.code == 415
    assert error.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, "
        "application/strategic-merge-patch+json"
    )


def test_parameters_of_the_media_type_do_not_matter() -> None:
    outcome = patches.apply(f"{MERGE_PATCH}; charset=utf-8", b"{}", stored(), STORAGE_VERSION)
    assert outcome.object["metadata"] == stored()["metadata"]


def test_a_thousand_operations_are_done_and_one_more_is_refused() -> None:
    operation = {"op": "test", "path": "/metadata/name", "value": "apps.deployments"}
    most = [operation] * patches.MAX_OPERATIONS
    assert metadata(JSON_PATCH, cast("JSONValue", most))["name"] == "apps.deployments"
    error = refused(JSON_PATCH, json.dumps([*most, operation]).encode())
    assert (error.code, error.message) == (
        413,
        (
            "Request entity too large: The allowed maximum operations in a JSON patch is 1000, "
            "got 1001"
        ),
    )


def test_copies_cannot_double_an_object_without_end() -> None:
    copies = [{"op": "copy", "from": "/metadata", "path": "/metadata/x"}] * 1000
    started = time.monotonic()
    error = refused(JSON_PATCH, json.dumps(copies).encode())
    assert error.code == 422
    assert time.monotonic() - started < 10


def test_moves_cannot_nest_an_object_without_end() -> None:
    nest: list[JSONValue] = [
        {"op": "add", "path": "/y", "value": {}},
        {"op": "move", "from": "/x", "path": "/y/x"},
        {"op": "move", "from": "/y", "path": "/x"},
    ]
    moves: list[JSONValue] = [{"op": "add", "path": "/x", "value": {}}, *nest * 300]
    assert refused(JSON_PATCH, json.dumps(moves).encode()).code == 422


@pytest.mark.parametrize(
    ("patch", "changed"),
    [
        pytest.param(
            {"finalizers": ["x/d"]}, {"finalizers": ["x/d", "x/a", "x/b", "x/c"]}, id="add"
        ),
        pytest.param({"finalizers": ["x/a"]}, {}, id="one that is there"),
        pytest.param(
            {"finalizers": ["x/c", "x/a"]},
            {"finalizers": ["x/b", "x/c", "x/a"]},
            id="another order",
        ),
        pytest.param({"finalizers": None}, {"finalizers": None}, id="null"),
        pytest.param(
            {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/z"]},
            {"finalizers": ["x/b", "x/c"]},
            id="delete",
        ),
        pytest.param(
            {"$deleteFromPrimitiveList/finalizers": ["x/a"], "finalizers": ["x/d"]},
            {"finalizers": ["x/d", "x/b", "x/c"]},
            id="delete and add",
        ),
        pytest.param(
            {"$setElementOrder/finalizers": ["x/c", "x/b", "x/a"]},
            {"finalizers": ["x/c", "x/b", "x/a"]},
            id="order",
        ),
        pytest.param(
            {"$setElementOrder/finalizers": ["x/d", "x/a"], "finalizers": ["x/d"]},
            {"finalizers": ["x/d", "x/a", "x/b", "x/c"]},
            id="order and add",
        ),
        pytest.param(
            {"ownerReferences": [{"uid": "2", "name": "new"}]},
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": "1"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "new", "uid": "2"},
                ]
            },
            id="change an owner",
        ),
        pytest.param(
            {"ownerReferences": [{"$patch": "delete", "uid": "1"}]},
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "two", "uid": "2"}]},
            id="delete an owner",
        ),
        pytest.param(
            {
                "ownerReferences": [
                    {"$patch": "replace"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "three", "uid": "3"},
                ]
            },
            {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "three", "uid": "3"}]},
            id="replace owners",
        ),
        pytest.param(
            {"$setElementOrder/ownerReferences": [{"uid": "2"}, {"uid": "1"}]},
            {
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Pod", "name": "two", "uid": "2"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "one", "uid": "1"},
                ]
            },
            id="order of owners",
        ),
        pytest.param({"labels": {"a": None}}, {"labels": {"b": "2"}}, id="null label"),
        pytest.param(
            {"labels": {"$patch": "replace", "z": "9"}}, {"labels": {"z": "9"}}, id="replace"
        ),
        pytest.param({"labels": {"$patch": "delete"}}, {"labels": None}, id="delete a map"),
        pytest.param(
            {"labels": {"$retainKeys": ["b", "c"], "c": "3"}},
            {"labels": {"b": "2", "c": "3"}},
            id="retain keys",
        ),
        pytest.param(
            {"annotations": {"a": "1", "b": None}}, {"annotations": {"a": "1"}}, id="new map"
        ),
        pytest.param({"annotations": {"$patch": "delete"}}, {}, id="delete what is not there"),
    ],
)
def test_a_strategic_merge_patch_of_metadata(
    patch: JSONValue, changed: dict[str, JSONValue]
) -> None:
    wanted = cast("dict[str, JSONValue]", stored()["metadata"]) | changed
    # An empty map or list is not written.
    wanted = {name: value for name, value in wanted.items() if value is not None}
    assert metadata(STRATEGIC_MERGE_PATCH, {"metadata": patch}) == wanted


def test_entries_and_conditions_are_replaced_as_a_whole() -> None:
    other: JSONValue = {"apiServerID": "b", "encodingVersion": "v2", "decodableVersions": ["v2"]}
    patch: JSONValue = {"status": {"storageVersions": [other]}}
    status = patched(STRATEGIC_MERGE_PATCH, patch)["status"]
    assert status == {"storageVersions": [other], "commonEncodingVersion": "v1"}


def test_what_makes_no_object_is_invalid() -> None:
    error = refused(MERGE_PATCH, b'{"metadata":{"labels":7}}')
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith(' "" is invalid: patch: Invalid value: "{\\"kind\\":')
    error = refused(STRATEGIC_MERGE_PATCH, b'{"metadata":{"labels":7}}')
    assert error.message.startswith(
        ' "" is invalid: patch: Invalid value: "map[metadata:map[labels:7]]": '
    )


@pytest.mark.parametrize(
    "operation",
    [
        pytest.param({"op": "replace", "path": "", "value": 3}, id="no object"),
        pytest.param({"op": "replace", "path": "/kind", "value": "Lease"}, id="another kind"),
        pytest.param({"op": "replace", "path": "/apiVersion", "value": "v2"}, id="another version"),
        pytest.param({"op": "add", "path": "/status", "value": []}, id="type of a field"),
    ],
)
def test_a_json_patch_must_leave_an_object_of_the_kind(operation: JSONValue) -> None:
    error = refused(JSON_PATCH, json.dumps([operation]).encode())
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith(' "" is invalid: patch: Invalid value: ')


@pytest.mark.parametrize(
    ("content_type", "patch", "problems"),
    [
        pytest.param(
            MERGE_PATCH,
            b'{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"foo":1}}',
            ('duplicate field "metadata.labels.a"', 'unknown field "spec.foo"'),
            id="merge patch",
        ),
        pytest.param(
            STRATEGIC_MERGE_PATCH,
            b'{"spec":{"foo":1,"foo":1}}',
            ('duplicate field "spec.foo"', 'unknown field "spec.foo"'),
            id="strategic merge patch",
        ),
        pytest.param(
            JSON_PATCH,
            b'[{"op":"test","path":"/spec","value":{},"x":1,"op":"test"}]',
            ('json patch unknown field "[0].x"', 'json patch duplicate field "[0].op"'),
            id="json patch",
        ),
    ],
)
def test_unknown_and_duplicate_fields_are_problems_or_if_strict_errors(
    content_type: str, patch: bytes, problems: tuple[str, ...]
) -> None:
    outcome = patches.apply(content_type, patch, stored(), STORAGE_VERSION)
    assert outcome.problems == problems
    error = refused(content_type, patch, strict=True)
    assert error.code == 422
    assert error.message.endswith(f": strict decoding error: {', '.join(problems)}")


@given(
    st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(("add", "remove", "replace", "move", "copy", "test", "x"))},
            optional={
                "path": st.sampled_from(("", "/", "/a", "/a/-", "/a/0", "/a/01", "/b/c", "x")),
                "from": st.sampled_from(("", "/a", "/a/-", "/a/0", "/b", "/b/c", "/~")),
                "value": VALUES,
            },
        ),
        max_size=6,
    )
)
def test_any_json_patch_is_applied_or_refused_by_a_status(operations: list[JSONValue]) -> None:
    try:
        patches.json_patched(operations, {"a": [1, 2], "b": {"c": "d"}})
    except ObjectError as error:
        assert error.code == 422  # noqa: PT017 - both outcomes are right
