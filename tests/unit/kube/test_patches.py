"""JSON merge patches (RFC 7386), with the errors of kube-apiserver."""

import copy

import pytest
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import patches
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.kinds import STORAGE_VERSION, Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.patches import MERGE_PATCH
from hypothesis import given
from hypothesis import strategies as st

SERVER: JSONValue = {
    "apiServerID": "a",
    "encodingVersion": "v1",
    "decodableVersions": ["v1"],
}


def storage_version() -> Object:
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


def refused(content_type: str, patch: bytes, *, strict: bool = False) -> ObjectError:
    with pytest.raises(ObjectError) as caught:
        patches.apply(content_type, patch, storage_version(), STORAGE_VERSION, strict=strict)
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
def test_a_merge_patch_is_idempotent(target: JSONValue, patch: JSONValue) -> None:
    once = patches.merge_patched(target, patch)
    assert patches.merge_patched(once, patch) == once


@given(st.dictionaries(st.sampled_from("abcd"), VALUES), VALUES)
def test_a_merge_patch_sets_and_removes_its_fields_and_keeps_the_others(
    target: dict[str, JSONValue], patch: JSONValue
) -> None:
    merged = patches.merge_patched(target, patch)
    if isinstance(patch, dict):
        assert isinstance(merged, dict)
        assert all((name in merged) is (patch[name] is not None) for name in patch)
        kept = target.keys() - patch.keys()
        assert {name: merged[name] for name in kept} == {name: target[name] for name in kept}


def test_a_patched_object_is_a_changed_copy() -> None:
    """Parameters of the media type do not matter."""
    target = storage_version()
    patch = b'{"metadata":{"labels":{"a":null,"c":"3"},"finalizers":["y/z"]}}'
    content_type = f"{MERGE_PATCH}; charset=utf-8"
    changed = patches.apply(content_type, patch, target, STORAGE_VERSION).object
    assert metadata_of(changed)["labels"] == {"b": "2", "c": "3"}
    assert metadata_of(changed)["finalizers"] == ["y/z"]
    assert target == storage_version()


def test_what_is_no_unicode_is_replaced_as_in_go() -> None:
    patch = b'{"metadata":{"labels":{"a":"\xff","b":"\\ud800"}}}'
    changed = patches.apply(MERGE_PATCH, patch, storage_version(), STORAGE_VERSION).object
    assert metadata_of(changed)["labels"] == {"a": "\ufffd", "b": "\ufffd"}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        pytest.param(b"[", "invalid JSON patch", id="no JSON"),
        pytest.param(b"[" * 10_000, "invalid JSON patch", id="no JSON, deep"),
        pytest.param(b'{"a":' * 5000 + b"1" + b"}" * 5000, "invalid JSON patch", id="too deep"),
        pytest.param(b"{}{}", "invalid JSON patch", id="two documents"),
        pytest.param(b'{"a":NaN}', "invalid JSON patch", id="NaN"),
        pytest.param(
            b"[]",
            "error decoding patch: json: cannot unmarshal array into Go value of type "
            "map[string]interface {}",
            id="no merge patch",
        ),
        pytest.param(b"null", "Invalid JSON Patch", id="null"),
        pytest.param(
            b'{"a":1e999}',
            "error decoding patch: json: cannot unmarshal number 1e999 into Go value of type "
            "float64",
            id="beyond floats",
        ),
    ],
)
def test_a_malformed_patch_is_a_bad_request(patch: bytes, message: str) -> None:
    error = refused(MERGE_PATCH, patch)
    assert (error.code, error.message) == (400, message)


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "application/apply-patch+yaml",
        "application/json-patch+json",
        "application/strategic-merge-patch+json",
        "Application/merge-patch+json",
    ],
)
def test_another_media_type_is_unsupported(content_type: str) -> None:
    error = refused(content_type, b"{}")
    assert error.code == 415
    assert error.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/merge-patch+json"
    )


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(b'{"kind":"Lease"}', id="another kind"),
        pytest.param(b'{"apiVersion":"v2"}', id="another version"),
        pytest.param(b'{"status":[]}', id="type of a field"),
        pytest.param(b'{"metadata":{"labels":7}}', id="type of a field in metadata"),
    ],
)
def test_a_patch_whose_result_is_no_object_of_the_kind_is_a_422(patch: bytes) -> None:
    error = refused(MERGE_PATCH, patch)
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith(' "" is invalid: patch: Invalid value: "{\\"kind\\":')


def test_unknown_and_duplicate_fields_are_problems_or_if_strict_errors() -> None:
    patch = b'{"metadata":{"labels":{"a":"1","a":"2"}},"spec":{"foo":1}}'
    problems = ('duplicate field "metadata.labels.a"', 'unknown field "spec.foo"')
    outcome = patches.apply(MERGE_PATCH, patch, storage_version(), STORAGE_VERSION)
    assert outcome.problems == problems
    error = refused(MERGE_PATCH, patch, strict=True)
    assert error.code == 422
    assert error.message.endswith(f": strict decoding error: {', '.join(problems)}")
