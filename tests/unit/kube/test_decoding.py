"""Decoding of request bodies in JSON, and of values."""

import json

import pytest
from apidiscovery_formats.negotiation import JSON
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.decoding import Undecodable, decode, from_value, refusal
from apidiscovery_service.kube.objects.kinds import DELETE_OPTIONS, LEASE, STORAGE_VERSION
from decoded_bodies import TYPED, UNRECOGNIZED, read, refused

API_VERSION = "internal.apiserver.k8s.io/v1alpha1"
NO_KIND = UNRECOGNIZED + "couldn't get version/kind; json parse error: "
ANONYMOUS = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


@pytest.mark.parametrize("text", ["{}", "null", '{"kind":"","apiVersion":""}', '{"metadata":null}'])
def test_omitted_kind_and_version_are_those_of_the_path(text: str) -> None:
    assert read(text).object == {
        "kind": "StorageVersion",
        "apiVersion": API_VERSION,
        "metadata": {},
        "spec": {},
        "status": {},
    }


def test_an_object_has_its_keys_in_the_order_of_go_and_nothing_that_go_leaves_out() -> None:
    decoded = read(
        '{"status":{"storageVersions":[],"commonEncodingVersion":""},"metadata":{"uid":"u",'
        '"labels":{"b":"2","a":"1"},"name":"n","namespace":"","generation":0,"finalizers":[],'
        '"creationTimestamp":null,"deletionTimestamp":null,"deletionGracePeriodSeconds":0}}'
    )

    assert json.dumps(decoded.object["metadata"]) == (
        '{"name": "n", "uid": "u", "deletionGracePeriodSeconds": 0, "labels": {"a": "1", "b": "2"}}'
    )
    assert decoded.object["status"] == {"commonEncodingVersion": ""}
    assert decoded.problems == ()


def test_unknown_and_duplicate_fields_are_problems_in_the_order_of_the_body() -> None:
    decoded = read(
        '{"metadata":{"name":"a","name":"b","Name":"c","labels":{"k":"1","k":"2"}},'
        '"spec":{"x":{"y":{},"y":{}}},"status":{"conditions":[{},{"a\\"b":1}]},'
        '"kind":"StorageVersion","kind":"StorageVersion","metadata":{"uid":"u"}}'
    )

    assert decoded.problems == (
        'duplicate field "metadata.name"',
        'unknown field "metadata.Name"',
        'duplicate field "metadata.labels.k"',
        'unknown field "spec.x"',
        r'unknown field "status.conditions[1].a\"b"',
        'duplicate field "kind"',
        'duplicate field "metadata"',
    )
    # The last value counts, and structs that come twice are put together.
    assert decoded.object["metadata"] == {"name": "b", "uid": "u", "labels": {"k": "2"}}


def test_a_problem_is_reported_once_and_at_most_a_hundred_are() -> None:
    twice = read('{"status":{"x":1,"x":2}}')
    many = read(json.dumps({f"f{number}": number for number in range(150)}))

    assert twice.problems == ('unknown field "status.x"',)
    assert many.problems == tuple(f'unknown field "f{number}"' for number in range(100))


def test_strict_decoding_refuses_with_all_problems() -> None:
    assert refusal(['unknown field "a"', 'duplicate field "b"'], STORAGE_VERSION) == (
        f'{TYPED}strict decoding error: unknown field "a", duplicate field "b"'
    )


@pytest.mark.parametrize(
    ("text", "value", "field", "go_type"),
    [
        ('{"metadata":"x"}', "string", "StorageVersion.metadata", "v1.ObjectMeta"),
        ('{"status":[]}', "array", "StorageVersion.status", "v1alpha1.StorageVersionStatus"),
        (
            '{"metadata":{"labels":"x"}}',
            "string",
            "ObjectMeta.metadata.labels",
            "map[string]string",
        ),
        ('{"metadata":{"labels":{"a":1}}}', "number", "ObjectMeta.metadata.labels", "string"),
        ('{"metadata":{"finalizers":{}}}', "object", "ObjectMeta.metadata.finalizers", "[]string"),
        ('{"metadata":{"finalizers":[true]}}', "bool", "ObjectMeta.metadata.finalizers", "string"),
        (
            *('{"metadata":{"ownerReferences":[1]}}', "number"),
            *("ObjectMeta.metadata.ownerReferences", "v1.OwnerReference"),
        ),
        (
            *('{"metadata":{"ownerReferences":[{"controller":"x"}]}}', "string"),
            *("OwnerReference.metadata.ownerReferences.controller", "bool"),
        ),
        ('{"metadata":{"uid":1}}', "number", "ObjectMeta.metadata.uid", "types.UID"),
        (
            '{"metadata":{"generation":1.0}}',
            "number 1.0",
            "ObjectMeta.metadata.generation",
            "int64",
        ),
        (
            '{"metadata":{"generation":1e2}}',
            "number 1e2",
            "ObjectMeta.metadata.generation",
            "int64",
        ),
        (
            *('{"metadata":{"generation":9223372036854775808}}', "number 9223372036854775808"),
            *("ObjectMeta.metadata.generation", "int64"),
        ),
        ('{"metadata":{"generation":"1"}}', "string", "ObjectMeta.metadata.generation", "int64"),
        (
            *('{"metadata":{"creationTimestamp":1}}', "number"),
            *("ObjectMeta.metadata.creationTimestamp", "string"),
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_in_the_words_of_go(
    text: str, value: str, field: str, go_type: str
) -> None:
    problem = f"json: cannot unmarshal {value} into Go struct field {field} of type {go_type}"
    assert refused(text.encode()) == TYPED + problem


def test_the_first_wrong_type_is_reported_unless_a_time_is_wrong() -> None:
    text = '{"metadata":{"name":1,"uid":2,"creationTimestamp":"now"}}'

    assert refused(b'{"metadata":{"name":1,"uid":2}}').endswith(
        "ObjectMeta.metadata.name of type string"
    )
    assert refused(text.encode()) == (
        f'{TYPED}parsing time "now" as "2006-01-02T15:04:05Z07:00": cannot parse "now" as "2006"'
    )


def test_numbers_of_32_bits_have_their_own_range() -> None:
    smallest = read('{"spec":{"leaseDurationSeconds":-2147483648}}', kind=LEASE)

    assert smallest.object["spec"] == {"leaseDurationSeconds": -(2**31)}
    assert refused(b'{"spec":{"leaseTransitions":2147483648}}', kind=LEASE) == (
        'Lease in version "v1" cannot be handled as a Lease: json: cannot unmarshal number '
        "2147483648 into Go struct field LeaseSpec.spec.leaseTransitions of type int32"
    )


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "unexpected end of JSON input"),
        (b"{", "unexpected end of JSON input"),
        (b'{"a":"b', "unexpected end of JSON input"),
        (b'{"a":tr', "unexpected end of JSON input"),
        (b'{"a":1,}', "invalid character '}' looking for beginning of object key string"),
        (b'{"a":[1, ]}', "invalid character ']' looking for beginning of value"),
        (b'{"a" 1}', "invalid character '1' after object key"),
        (b'{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        (b"[1 2]", "invalid character '2' after array element"),
        (b"{'a':1}", r"invalid character '\'' looking for beginning of object key string"),
        (b'{"a":tru}', "invalid character '}' in literal true (expecting 'e')"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a":"\n"}', r"invalid character '\n' in string literal"),
        (b'{"a":"\\x"}', r"invalid character '\\' in string escape code"),
        (b"{} x", "invalid character 'x' after top-level value"),
        (b"\xff", "invalid character '\ufffd' looking for beginning of value"),
        (b"[]", f"json: cannot unmarshal array into Go value of type {ANONYMOUS}"),
        (b'{"kind":1}', "json: cannot unmarshal number into Go struct field .kind of type string"),
    ],
)
def test_a_malformed_body_is_refused_with_its_first_bytes(body: bytes, problem: str) -> None:
    shown = body.decode() if body.startswith(b"{") else body.hex() or "<empty>"
    assert refused(body) == f"{NO_KIND}{problem} ({shown})"


def test_thirty_bytes_of_a_long_body_are_shown() -> None:
    assert refused(b'{"a":' + b" " * 40).endswith('({"a":' + " " * 25 + " ...)")
    assert refused(b"x" * 31).endswith("(" + "78" * 30 + " ...)")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '{"kind":"Pod","apiVersion":"v1"}',
            'Pod in version "v1" cannot be handled as a StorageVersion: no kind "Pod" is '
            'registered for version "v1" in scheme "pkg/api/legacyscheme/scheme.go:30"',
            id="other-kind",
        ),
        pytest.param(
            '{"apiVersion":"internal.apiserver.k8s.io/v1"}',
            'StorageVersion in version "v1" cannot be handled as a StorageVersion: no kind '
            '"StorageVersion" is registered for version "internal.apiserver.k8s.io/v1" in scheme '
            '"pkg/api/legacyscheme/scheme.go:30"',
            id="other-version",
        ),
        pytest.param(
            '{"apiVersion":"a/b/c"}',
            UNRECOGNIZED + 'unexpected GroupVersion string: a/b/c ({"apiVersion":"a/b/c"})',
            id="no-version",
        ),
    ],
)
def test_another_kind_is_refused(text: str, problem: str) -> None:
    assert refused(text.encode()) == problem


@pytest.mark.parametrize(
    "api_version", ["", "v1", "meta.k8s.io/v1", "internal.apiserver.k8s.io/v1alpha1"]
)
def test_options_of_a_deletion_come_in_any_version(api_version: str) -> None:
    body = {"apiVersion": api_version, "preconditions": {"uid": "u"}, "dryRun": ["All"]}

    decoded = read(json.dumps(body), kind=DELETE_OPTIONS)

    assert decoded.object == {
        "kind": "DeleteOptions",
        "apiVersion": "meta.k8s.io/v1",
        "preconditions": {"uid": "u"},
        "dryRun": ["All"],
    }


def test_invalid_unicode_is_replaced_as_in_go() -> None:
    body = b'{"metadata":{"name":"\\ud800x\xff","labels":{"\\udc00":"\\ud83d\\ude00"}}}'

    assert decode(body, JSON, LEASE).object["metadata"] == {
        "name": "\ufffdx\ufffd",
        "labels": {"\ufffd": "😀"},
    }


def test_managed_fields_keep_their_json_and_its_order() -> None:
    text = '{"f:b":{".":{},"f:a":[1,1.5,null,true,18446744073709551615]}}'

    decoded = read(
        f'{{"metadata":{{"managedFields":[{{"fieldsV1":{text}}},{{"fieldsV1":null}}]}}}}'
    )

    assert decoded.object["metadata"] == {"managedFields": [{"fieldsV1": json.loads(text)}, {}]}
    assert text in json.dumps(decoded.object, separators=(",", ":"))


def test_times_are_written_in_utc_and_cut_to_what_they_hold() -> None:
    decoded = read(
        '{"metadata":{"creationTimestamp":"2026-01-01T00:30:00.999+01:00"},'
        '"spec":{"renewTime":"2026-01-01T00:30:00.123456-01:00",'
        '"acquireTime":"0001-01-01T00:00:00.000000Z"}}',
        kind=LEASE,
    )

    assert decoded.object["metadata"] == {"creationTimestamp": "2025-12-31T23:30:00Z"}
    assert decoded.object["spec"] == {
        "acquireTime": None,
        "renewTime": "2026-01-01T01:30:00.123456Z",
    }


def test_a_value_is_decoded_as_its_text_and_not_changed() -> None:
    value: dict[str, JSONValue] = {
        "metadata": {"labels": {"b": "1", "a": "2"}, "generation": 5, "x": 1.5},
        "status": {"storageVersions": ({"apiServerID": "s"},)},
    }
    before = json.dumps(value)

    decoded = from_value(value, STORAGE_VERSION)

    assert decoded == read(before)
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        pytest.param(
            [],
            NO_KIND + f"json: cannot unmarshal array into Go value of type {ANONYMOUS}",
            id="list",
        ),
        pytest.param(
            {"metadata": {"generation": 1.5}},
            TYPED + "json: cannot unmarshal number 1.5"
            " into Go struct field ObjectMeta.metadata.generation"
            " of type int64",
            id="fraction",
        ),
        pytest.param(
            {"metadata": {"generation": float("inf")}},
            TYPED + "json: cannot unmarshal number Infinity"
            " into Go struct field ObjectMeta.metadata.generation"
            " of type int64",
            id="infinite",
        ),
        pytest.param(
            {"metadata": {"managedFields": [{"fieldsV1": float("nan")}]}},
            TYPED + "json: cannot unmarshal number NaN into Go value of type float64",
            id="no-number",
        ),
    ],
)
def test_a_value_that_is_no_object_is_refused(value: JSONValue, problem: str) -> None:
    with pytest.raises(Undecodable) as caught:
        from_value(value, STORAGE_VERSION)

    assert str(caught.value) == problem
