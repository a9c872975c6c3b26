"""Validation of names, StorageVersions and metadata.

The cases are those of kubernetes/kubernetes
pkg/apis/apiserverinternal/validation/validation_test.go and k8s.io/apimachinery
pkg/api/validation/objectmeta_test.go, and what they leave out. Lengths are in bytes, and an
unset pointer is shown as `null`, since Kubernetes 1.32.
"""

import json

import pytest
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects import formats, validation
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION, Object
from hypothesis import given
from hypothesis import strategies as st

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL_1035 = (
    "must consist of lower case alphanumeric characters or '-', start with an alphabetic "
    "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used "
    "for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
QUALIFIED = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or "
    "'12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
THREE_PARTS = (
    f"a valid label key {QUALIFIED.removeprefix('name part ')} "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
DISAGREE = (
    "should be nil if servers do not agree on the same encoding version, or if there is no server "
    "reporting the supported versions yet"
)
NOT_INCLUDED = "decodableVersions must include encodingVersion"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("", ["name must be in the form of <group>.<resource>"]),
        ("pods", ["name must be in the form of <group>.<resource>"]),
        ("core.pods", []),
        ("authentication.k8s.io.tokenreviews", []),
        (f"{'x' * 253}.tokenreviews", []),
        (f"{'x' * 254}.tokenreviews", ["the group segment must be no more than 253 bytes"]),
        (f"authentication.k8s.io.{'x' * 63}", []),
        (
            f"authentication.k8s.io.{'x' * 64}",
            ["the resource segment must be no more than 63 bytes"],
        ),
        (
            "_.9",
            [
                f"the group segment {SUBDOMAIN}",
                f"the resource segment a DNS-1035 label {LABEL_1035}",
            ],
        ),
        ("core.pods\n", [f"the resource segment a DNS-1035 label {LABEL_1035}"]),
    ],
)
def test_a_name_is_group_and_resource(name: str, expected: list[str]) -> None:
    assert formats.storage_version_name(name) == expected


DNS = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?(\.[a-z0-9]{1,5}){0,3}", fullmatch=True)
DNS_1035 = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@given(DNS, DNS_1035)
def test_every_group_and_resource_make_a_name_and_a_version(group: str, resource: str) -> None:
    assert formats.storage_version_name(f"{group}.{resource}") == []
    assert formats.api_version(f"{group}/{resource}") == []


@given(st.text())
def test_a_label_value_that_is_not_empty_is_a_label_key(text: str) -> None:
    if text and "/" not in text:
        assert bool(formats.label_value(text)) == bool(formats.qualified_name(text))


def server(
    server_id: str, encoding: str, decodable: list[str], served: list[str] | None = None
) -> dict[str, JSONValue]:
    entry: dict[str, JSONValue] = {
        "apiServerID": server_id,
        "encodingVersion": encoding,
        "decodableVersions": decodable,
    }
    return entry if served is None else entry | {"servedVersions": served}


def messages(status: dict[str, JSONValue]) -> list[str]:
    return [str(cause) for cause in validation.status(status)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (server("fea", "v1alpha1", ["v1alpha1", "v1"]), {}),
        (server("fea", "mygroup.com/v2", ["v1alpha1", "v1", "mygroup.com/v2"]), {}),
        (server("fea", "v1", ["v1", "v2"], ["v2"]), {}),
        (server("-fea", "v1alpha1", ["v1alpha1", "v1"]), {"apiServerID": f'"-fea": {SUBDOMAIN}'}),
        (
            server("fea", "v1alpha1", ["v1beta1", "v1"]),
            {"decodableVersions": f'["v1beta1","v1"]: {NOT_INCLUDED} v1alpha1'},
        ),
        (
            server("fea", "v1alpha1", []),
            {"decodableVersions": f"null: {NOT_INCLUDED} v1alpha1"},
        ),
        (
            server("fea", "v1alpha1", ["v1alpha1", "v1", "-fea"]),
            {"decodableVersions[2]": f'"-fea": version part: a DNS-1035 label {LABEL_1035}'},
        ),
        (
            server("fea", "mygroup.com/v2", ["mygroup.com/v2", "/v3"]),
            {"decodableVersions[1]": '"/v3": group part: must be non-empty'},
        ),
        (
            server("fea", "mygroup.com/v2", ["mygroup.com/v2", "mygroup.com/"]),
            {"decodableVersions[1]": '"mygroup.com/": version part: must be non-empty'},
        ),
        (
            server("fea", "/v3", ["mygroup.com/v2", "/v3"]),
            {
                "encodingVersion": '"/v3": group part: must be non-empty',
                "decodableVersions[1]": '"/v3": group part: must be non-empty',
            },
        ),
        (
            server("fea", "v1", ["v1", "mygroup_com/v2"]),
            {"decodableVersions[1]": f'"mygroup_com/v2": group part: {SUBDOMAIN}'},
        ),
        (
            server("fea", "v1", ["v1", "a.b/v2_"]),
            {"decodableVersions[1]": f'"a.b/v2_": version part: a DNS-1035 label {LABEL_1035}'},
        ),
        (
            server("fea", "v1", ["v1", "mygroup.com/v2/myresource"]),
            {
                "decodableVersions[1]": '"mygroup.com/v2/myresource": an apiVersion is a DNS-1035 '
                f"label, which {LABEL_1035} with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyVersion')"
            },
        ),
        (
            server("fea", "v1", ["v1", "v2"], ["v1", "v3"]),
            {
                "servedVersions[1]": '"v3": individual served version : v3 must be included in '
                "decodableVersions : [v1 v2]"
            },
        ),
    ],
)
def test_an_entry_keeps_the_rules_of_its_versions(
    entry: dict[str, JSONValue], expected: dict[str, str]
) -> None:
    common = entry["encodingVersion"]
    assert messages({"storageVersions": [entry], "commonEncodingVersion": common}) == [
        f"status.storageVersions[0].{field}: Invalid value: {text}"
        for field, text in expected.items()
    ]


def two(first: str, second: str) -> list[JSONValue]:
    return [server("1", first, [first]), server("2", second, [second])]


@pytest.mark.parametrize(
    ("servers", "common", "expected"),
    [
        pytest.param([], "v1alpha1", [f'"v1alpha1": {DISAGREE}'], id="no server"),
        pytest.param([], None, [], id="no server and none"),
        pytest.param(
            two("v1alpha1", "v1"), "v1alpha1", [f'"v1alpha1": {DISAGREE}'], id="disagreement"
        ),
        pytest.param(two("v1alpha1", "v1"), None, [], id="disagreement and none"),
        pytest.param(
            two("v1alpha1", "v1alpha1"),
            None,
            ["null: the common encoding version is v1alpha1"],
            id="agreement and none",
        ),
        pytest.param(
            two("v1alpha1", "v1alpha1"),
            "v1",
            ['"v1": the actual common encoding version is v1alpha1'],
            id="agreement on another",
        ),
        pytest.param(
            two("v1alpha1", "v1alpha1"),
            "",
            ['"": the actual common encoding version is v1alpha1'],
            id="an empty string is not none",
        ),
        pytest.param(two("v1alpha1", "v1alpha1"), "v1alpha1", [], id="agreement"),
        pytest.param([server("1", "v1alpha1", ["v1alpha1"])], "v1alpha1", [], id="one server"),
    ],
)
def test_the_common_version_is_that_of_all_entries(
    servers: list[JSONValue], common: str | None, expected: list[str]
) -> None:
    status: dict[str, JSONValue] = {"storageVersions": servers}
    if common is not None:
        status["commonEncodingVersion"] = common
    assert messages(status) == [
        f"status.commonEncodingVersion: Invalid value: {text}" for text in expected
    ]


def condition(**fields: str) -> dict[str, JSONValue]:
    good: dict[str, JSONValue] = {"type": "fea", "status": "True", "reason": "r", "message": "m"}
    return good | fields


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        pytest.param(
            [condition(type="-fea")],
            [f'status[0].type: Invalid value: "-fea": {QUALIFIED}'],
            id="type",
        ),
        pytest.param(
            [condition(status="-True")],
            [f'status[0].status: Invalid value: "fea": {QUALIFIED}'],
            id="status, which shows the type",
        ),
        pytest.param(
            [condition(reason="")],
            ["status[0].reason: Required value: reason cannot be empty"],
            id="reason",
        ),
        pytest.param(
            [condition(message="")],
            ["status[0].message: Required value: message cannot be empty"],
            id="message",
        ),
        pytest.param(
            [condition(), condition()],
            [
                (
                    'status[1].type: Invalid value: "fea": the type of the condition is not unique'
                    ", it also appears in conditions[0]"
                )
            ],
            id="twice",
        ),
        pytest.param([condition()], [], id="good"),
    ],
)
def test_conditions_are_whole_and_unique(conditions: list[JSONValue], expected: list[str]) -> None:
    assert messages({"conditions": conditions}) == expected


def storage_version(**metadata: JSONValue) -> Object:
    return {"metadata": {"name": "apps.deployments"} | metadata, "spec": {}, "status": {}}


def created(**metadata: JSONValue) -> list[str]:
    return [
        str(cause) for cause in validation.created(storage_version(**metadata), STORAGE_VERSION)
    ]


OWNER: dict[str, JSONValue] = {"apiVersion": "v1", "kind": "Pod", "name": "n", "uid": "1"}


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {"annotations": {"UPPER.case/X": "any \n"}},
        {"annotations": {"a": "b" * (256 * 1024 - 1)}},
        {"ownerReferences": [OWNER, OWNER | {"controller": True}, OWNER]},
        {"finalizers": ["example.com/x"]},
    ],
)
def test_valid_metadata_of_a_new_object_has_no_cause(metadata: dict[str, JSONValue]) -> None:
    assert created(**metadata) == []


CONTROLLERS: list[dict[str, JSONValue]] = [
    OWNER | {"kind": kind, "controller": True} for kind in ("A", "B")
]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("name", "", ["Required value: name or generateName is required"]),
        ("name", "x", ['Invalid value: "x": name must be in the form of <group>.<resource>']),
        (
            *("generateName", "x-"),
            ['Invalid value: "x-": name must be in the form of <group>.<resource>'],
        ),
        ("namespace", "x", ["Forbidden: not allowed on this type"]),
        ("generation", -1, ["Invalid value: -1: must be greater than or equal to 0"]),
        (
            *("labels", {"-a": "ok", "b": "-"}),
            [f'Invalid value: "-a": {QUALIFIED}', f'Invalid value: "-": {LABEL_VALUE}'],
        ),
        ("labels", {"/x": ""}, ['Invalid value: "/x": prefix part must be non-empty']),
        ("annotations", {"a-": ""}, [f'Invalid value: "a-": {QUALIFIED}']),
        ("annotations", {"a/b/c": ""}, [f'Invalid value: "a/b/c": {THREE_PARTS}']),
        (
            *("annotations", {"a": "b" * (128 * 1024), "c": "é" * (64 * 1024)}),
            ["Too long: may not be more than 262144 bytes"],
        ),
        (
            *("ownerReferences", CONTROLLERS),
            [
                (
                    f"Invalid value: {json.dumps(CONTROLLERS, separators=(',', ':'))}: Only one "
                    "reference can have Controller set to true. "
                    'Found "true" in references for A/n and B/n'
                )
            ],
        ),
        ("finalizers", ["-"], [f'Invalid value: "-": {QUALIFIED}']),
        (
            *("finalizers", ["orphan", "foregroundDeletion"]),
            [
                (
                    'Invalid value: ["orphan","foregroundDeletion"]: '
                    "finalizer orphan and foregroundDeletion cannot be both set"
                )
            ],
        ),
    ],
)
def test_metadata_of_a_new_object_is_validated(
    field: str, value: JSONValue, expected: list[str]
) -> None:
    assert created(**{field: value}) == [f"metadata.{field}: {text}" for text in expected]


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (
            {"ownerReferences": [{"apiVersion": "a/b/c"}]},
            [
                (
                    '.ownerReferences[0].apiVersion: Invalid value: "a/b/c": '
                    "must be <group>/<version> or <version>"
                ),
                ".ownerReferences[0].kind: Required value: must not be empty",
                ".ownerReferences[0].name: Required value: must not be empty",
                ".ownerReferences[0].uid: Required value: must not be empty",
            ],
        ),
        (
            {"ownerReferences": [OWNER | {"kind": "Event"}]},
            [
                (
                    '.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event",'
                    '"name":"n","uid":"1"}: /v1, Kind=Event is disallowed from being an owner'
                )
            ],
        ),
        (
            {
                "managedFields": [
                    {"operation": "Update", "manager": "kubectl", "fieldsType": "FieldsV1"},
                    {"operation": "Merge", "manager": "a\x07", "fieldsType": "FieldsV2"},
                    {"manager": "m" * 129, "subresource": "s" * 257},
                ]
            },
            [
                (
                    '.managedFields[1].operation: Unsupported value: "Merge": '
                    'supported values: "Apply", "Update"'
                ),
                '.managedFields[1].fieldsType: Invalid value: "FieldsV2": must be `FieldsV1`',
                (
                    '.managedFields[1].manager: Invalid value: "a\\a": '
                    "invalid character U+0007 (at position 1)"
                ),
                ".managedFields[2].operation: Required value: must not be empty",
                ".managedFields[2].manager: Too long: may not be more than 128 bytes",
                ".managedFields[2].subresource: Too long: may not be more than 256 bytes",
            ],
        ),
    ],
)
def test_owners_and_managers_of_a_new_object_are_validated(
    metadata: dict[str, JSONValue], expected: list[str]
) -> None:
    assert created(**metadata) == [f"metadata{text}" for text in expected]


def test_a_new_object_is_refused_for_its_status_too() -> None:
    wrong = storage_version() | {"status": {"commonEncodingVersion": "v1"}}
    (cause,) = validation.created(wrong, STORAGE_VERSION)
    assert cause.field == "status.commonEncodingVersion"


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param({"name": "apiserver-x", "namespace": "kube-system"}, [], id="good"),
        pytest.param(
            {"name": "apiserver-x"}, ["metadata.namespace: Required value"], id="no namespace"
        ),
        pytest.param(
            {"name": "apiserver-x", "namespace": "a.b"},
            ['metadata.namespace: Invalid value: "a.b": must not contain dots'],
            id="namespace",
        ),
        pytest.param(
            {"name": "a", "generateName": "apiserver-", "namespace": "n"}, [], id="generateName"
        ),
        pytest.param(
            {"name": "_", "namespace": "n"},
            [f'metadata.name: Invalid value: "_": {SUBDOMAIN}'],
            id="name",
        ),
    ],
)
def test_metadata_of_a_lease(metadata: dict[str, JSONValue], expected: list[str]) -> None:
    causes = validation.created({"metadata": metadata}, LEASE)
    assert [str(cause) for cause in causes] == expected


KEPT: dict[str, JSONValue] = {"resourceVersion": "1", "uid": "u", "generation": 5}
IMMUTABLE = "field is immutable"
AT, LATER = "1970-01-01T00:16:40Z", "1970-01-01T00:33:20Z"
DELETED: dict[str, JSONValue] = {"deletionTimestamp": AT, "deletionGracePeriodSeconds": 30}


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {}, []),
        ({}, {"generation": 6}, []),
        ({}, {"generation": 4}, [".generation: Invalid value: 4: must not be decremented"]),
        (
            *({}, {"resourceVersion": ""}),
            ['.resourceVersion: Invalid value: "": must be specified for an update'],
        ),
        ({}, {"name": "a.b"}, [f'.name: Invalid value: "a.b": {IMMUTABLE}']),
        ({}, {"uid": "v"}, [f'.uid: Invalid value: "v": {IMMUTABLE}']),
        (
            *({}, {"creationTimestamp": AT}),
            [f'.creationTimestamp: Invalid value: "{AT}": {IMMUTABLE}'],
        ),
        (
            *({"creationTimestamp": AT}, {}),
            [f".creationTimestamp: Invalid value: null: {IMMUTABLE}"],
        ),
        (DELETED, DELETED, []),
        (
            *({}, {"deletionTimestamp": AT}),
            [f'.deletionTimestamp: Invalid value: "{AT}": {IMMUTABLE}'],
        ),
        (
            *({"deletionTimestamp": AT}, {}),
            [f".deletionTimestamp: Invalid value: null: {IMMUTABLE}"],
        ),
        (
            *({"deletionTimestamp": AT}, {"deletionTimestamp": LATER}),
            [f'.deletionTimestamp: Invalid value: "{LATER}": {IMMUTABLE}'],
        ),
        (
            *(DELETED, DELETED | {"deletionGracePeriodSeconds": 40}),
            [f".deletionGracePeriodSeconds: Invalid value: 40: {IMMUTABLE}"],
        ),
        (
            *(DELETED | {"finalizers": ["x/a"]}, DELETED | {"finalizers": ["x/a", "y/b"]}),
            [
                (
                    ".finalizers: Forbidden: no new finalizers can be added if the object is being "
                    'deleted, found new finalizers []string{"y/b"}'
                )
            ],
        ),
        (DELETED | {"finalizers": ["x/a", "y/b"]}, DELETED | {"finalizers": ["x/a"]}, []),
        ({"finalizers": ["x/a"]}, {"finalizers": ["y/b"]}, []),
        # A wrong label is reported twice.
        ({}, {"labels": {"-": ""}}, [f'.labels: Invalid value: "-": {QUALIFIED}'] * 2),
    ],
)
def test_metadata_of_an_update(
    old: dict[str, JSONValue], new: dict[str, JSONValue], expected: list[str]
) -> None:
    causes = validation.updated(
        storage_version(**(KEPT | new)), storage_version(**(KEPT | old)), STORAGE_VERSION
    )
    assert [str(cause) for cause in causes] == [f"metadata{text}" for text in expected]


def test_only_an_update_of_the_status_looks_at_it() -> None:
    old = storage_version(**KEPT)
    new = old | {"status": {"commonEncodingVersion": "v1"}}
    assert validation.updated(new, old, STORAGE_VERSION) == []
    (cause,) = validation.status_updated(new, old)
    assert cause.field == "status.commonEncodingVersion"
