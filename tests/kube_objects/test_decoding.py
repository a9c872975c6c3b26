"""Bodies of requests: what they say, what is wrong with them, and that none does harm."""

import json
from http import HTTPStatus

import pytest
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.kube_objects.decoding import (
    Decoded,
    Undecodable,
    decode,
    from_value,
    refusal,
)
from apidiscovery_service.kube_objects.encoding import encode
from apidiscovery_service.kube_objects.errors import ObjectError
from apidiscovery_service.kube_objects.json_text import MAX_DEPTH
from apidiscovery_service.kube_objects.kinds import DELETE_OPTIONS, LEASE, STORAGE_VERSION, Kind
from apidiscovery_service.kube_objects.limits import MAX_JSON_BYTES, MAX_VALUES, MAX_YAML_BYTES
from apidiscovery_service.media_type import JSON, PROTOBUF, YAML, Serializer
from apidiscovery_service.wire import delimited, envelope
from hypothesis import given
from hypothesis import strategies as st
from kube_samples import SUFFIXES, sample

API_VERSION = "internal.apiserver.k8s.io/v1alpha1"
TYPED = 'StorageVersion in version "v1alpha1" cannot be handled as a StorageVersion: '
UNRECOGNIZED = "the object provided is unrecognized (must be of type StorageVersion): "
NO_KIND = UNRECOGNIZED + "couldn't get version/kind; json parse error: "
ANONYMOUS = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; '
    r'Kind string "json:\"kind,omitempty\"" }'
)


def read(text: str, serializer: Serializer = JSON, kind: Kind = STORAGE_VERSION) -> Decoded:
    return decode(text.encode(), serializer, kind)


def refused(body: bytes, serializer: Serializer = JSON, kind: Kind = STORAGE_VERSION) -> str:
    with pytest.raises(Undecodable) as caught:
        decode(body, serializer, kind)
    return str(caught.value)


def wire(raw: bytes, kind: Kind = STORAGE_VERSION) -> bytes:
    return envelope(kind.api_version, kind.kind, raw)


@pytest.mark.parametrize("text", ["{}", "null", '{"kind":"","apiVersion":""}', '{"metadata":null}'])
def test_what_a_body_leaves_out_is_what_the_path_says(text: str) -> None:
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


def test_a_problem_is_told_once_and_no_more_than_a_hundred_are() -> None:
    twice = read('{"status":{"x":1,"x":2}}')
    many = read(json.dumps({f"f{number}": number for number in range(150)}))

    assert twice.problems == ('unknown field "status.x"',)
    assert many.problems == tuple(f'unknown field "f{number}"' for number in range(100))


def test_strict_decoding_refuses_with_all_problems() -> None:
    assert refusal(['unknown field "a"', 'duplicate field "b"'], STORAGE_VERSION) == (
        f'{TYPED}strict decoding error: unknown field "a", duplicate field "b"'
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param(
            '{"metadata":"x"}',
            "string into Go struct field StorageVersion.metadata of type v1.ObjectMeta",
            id="string-for-struct",
        ),
        pytest.param(
            '{"status":[]}',
            "array into Go struct field StorageVersion.status"
            " of type v1alpha1.StorageVersionStatus",
            id="array-for-struct",
        ),
        pytest.param(
            '{"metadata":{"labels":"x"}}',
            "string into Go struct field ObjectMeta.metadata.labels of type map[string]string",
            id="string-for-map",
        ),
        pytest.param(
            '{"metadata":{"labels":{"a":1}}}',
            "number into Go struct field ObjectMeta.metadata.labels of type string",
            id="number-in-map",
        ),
        pytest.param(
            '{"metadata":{"finalizers":{}}}',
            "object into Go struct field ObjectMeta.metadata.finalizers of type []string",
            id="object-for-list",
        ),
        pytest.param(
            '{"metadata":{"finalizers":[true]}}',
            "bool into Go struct field ObjectMeta.metadata.finalizers of type string",
            id="bool-in-list",
        ),
        pytest.param(
            '{"metadata":{"ownerReferences":[1]}}',
            "number into Go struct field ObjectMeta.metadata.ownerReferences"
            " of type v1.OwnerReference",
            id="number-in-list-of-structs",
        ),
        pytest.param(
            '{"metadata":{"ownerReferences":[{"controller":"x"}]}}',
            "string into Go struct field OwnerReference.metadata.ownerReferences.controller"
            " of type bool",
            id="string-for-bool",
        ),
        pytest.param(
            '{"metadata":{"uid":1}}',
            "number into Go struct field ObjectMeta.metadata.uid of type types.UID",
            id="named-type",
        ),
        pytest.param(
            '{"metadata":{"generation":1.0}}',
            "number 1.0 into Go struct field ObjectMeta.metadata.generation of type int64",
            id="fraction",
        ),
        pytest.param(
            '{"metadata":{"generation":1e2}}',
            "number 1e2 into Go struct field ObjectMeta.metadata.generation of type int64",
            id="exponent",
        ),
        pytest.param(
            '{"metadata":{"generation":9223372036854775808}}',
            "number 9223372036854775808 into Go struct field ObjectMeta.metadata.generation"
            " of type int64",
            id="too-large",
        ),
        pytest.param(
            '{"metadata":{"generation":"1"}}',
            "string into Go struct field ObjectMeta.metadata.generation of type int64",
            id="string-for-number",
        ),
        pytest.param(
            '{"metadata":{"creationTimestamp":1}}',
            "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
            id="number-for-time",
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_in_the_words_of_go(text: str, problem: str) -> None:
    assert refused(text.encode()) == f"{TYPED}json: cannot unmarshal {problem}"


def test_the_first_wrong_type_is_told_but_a_wrong_time_goes_before() -> None:
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
        pytest.param(b"", "unexpected end of JSON input (<empty>)", id="empty"),
        pytest.param(b"{", "unexpected end of JSON input ({)", id="cut-off"),
        pytest.param(
            b'{"a":"b', 'unexpected end of JSON input ({"a":"b)', id="cut-off-in-a-string"
        ),
        pytest.param(b'{"a":tr', 'unexpected end of JSON input ({"a":tr)', id="cut-off-in-a-word"),
        pytest.param(
            b'{"a":1,}',
            "invalid character '}' looking for beginning of object key string ({\"a\":1,})",
            id="trailing-comma",
        ),
        pytest.param(
            b'{"a" 1}', "invalid character '1' after object key ({\"a\" 1})", id="no-colon"
        ),
        pytest.param(
            b'{"a":1 "b"}',
            'invalid character \'"\' after object key:value pair ({"a":1 "b"})',
            id="no-comma-in-object",
        ),
        pytest.param(
            b"[1 2]",
            "invalid character '2' after array element (5b3120325d)",
            id="no-comma-in-array",
        ),
        pytest.param(
            b"{'a':1}",
            r"invalid character '\'' looking for beginning of object key string ({'a':1})",
            id="apostrophes",
        ),
        pytest.param(
            b'{"a":tru}',
            "invalid character '}' in literal true (expecting 'e') ({\"a\":tru})",
            id="word",
        ),
        pytest.param(
            b'{"a":NaN}',
            "invalid character 'N' looking for beginning of value ({\"a\":NaN})",
            id="not-a-number",
        ),
        pytest.param(
            b'{"a":"\n"}',
            'invalid character \'\\n\' in string literal ({"a":"\n"})',
            id="line-feed-in-string",
        ),
        pytest.param(
            b'{"a":"\\x"}',
            'invalid character \'\\\\\' in string escape code ({"a":"\\x"})',
            id="escape",
        ),
        pytest.param(
            b"{} x", "invalid character 'x' after top-level value ({} x)", id="more-than-one"
        ),
        pytest.param(
            b"\xff", "invalid character '\ufffd' looking for beginning of value (ff)", id="no-text"
        ),
        pytest.param(
            b"[]",
            f"json: cannot unmarshal array into Go value of type {ANONYMOUS} (5b5d)",
            id="array",
        ),
        pytest.param(
            b'{"kind":1}',
            'json: cannot unmarshal number into Go struct field .kind of type string ({"kind":1})',
            id="kind",
        ),
    ],
)
def test_what_is_no_object_is_refused_with_its_first_bytes(body: bytes, problem: str) -> None:
    assert refused(body) == NO_KIND + problem


def test_of_a_long_body_thirty_bytes_are_shown() -> None:
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


def test_what_is_no_unicode_is_replaced_as_go_does() -> None:
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


def test_a_value_that_never_was_text_is_read_alike_and_left_alone() -> None:
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


def nested(levels: int) -> JSONValue:
    value: JSONValue = 1
    for _ in range(levels):
        value = [value]
    return value


def test_a_value_may_be_only_so_deep() -> None:
    with pytest.raises(Undecodable, match="exceeded max depth"):
        from_value({"metadata": {"managedFields": [{"fieldsV1": nested(5000)}]}}, STORAGE_VERSION)


@pytest.mark.parametrize("opening", [b"[", b'{"a":'])
@pytest.mark.parametrize("serializer", [JSON, YAML])
def test_levels_are_bounded_however_many_there_are(opening: bytes, serializer: Serializer) -> None:
    message = refused(b'{"a":' + opening * 5_000, serializer)

    assert "exceeded max depth" in message


def test_the_deepest_text_that_is_read() -> None:
    strings = b'"' + b'[{\\"' * 200 + b'"'  # brackets in a string are no levels
    inner = b"[" * (MAX_DEPTH - 1) + strings + b"]" * (MAX_DEPTH - 1)

    assert decode(b'{"a":' + inner + b"}", JSON, LEASE).problems == ('unknown field "a"',)
    assert "exceeded max depth" in refused(b'{"a":[' + inner + b"]}")


def check(body: bytes, serializer: Serializer) -> None:
    """See to it that a body is read or refused, and that what was read can be written and read."""
    try:
        item = decode(body, serializer, STORAGE_VERSION).object
    except Undecodable:
        return
    again = decode(encode(item, STORAGE_VERSION, PROTOBUF), PROTOBUF, STORAGE_VERSION)
    assert again.object == item


@given(st.sampled_from(list(SUFFIXES)), st.data())
def test_damaged_bodies_are_read_or_refused_and_nothing_else(
    serializer: Serializer, data: st.DataObject
) -> None:
    body = bytearray(sample("HEAD", STORAGE_VERSION, serializer))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(body[: data.draw(st.integers(0, len(body)))]), serializer)


@given(st.binary(max_size=60), st.sampled_from(list(SUFFIXES)))
def test_any_bytes_are_read_or_refused(body: bytes, serializer: Serializer) -> None:
    check(body, serializer)
    check(wire(body), serializer)


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        pytest.param(b"", UNRECOGNIZED + "empty data (<empty>)", id="empty"),
        pytest.param(b"k8s\x00", UNRECOGNIZED + "empty body (6b387300)", id="magic-alone"),
        pytest.param(
            b"{}",
            UNRECOGNIZED + "provided data does not appear to be a protobuf message, "
            "expected prefix [107 56 115 0] ({})",
            id="no-magic",
        ),
        pytest.param(b"k8s\x00\x12", UNRECOGNIZED + "unexpected EOF (6b38730012)", id="cut-off"),
        pytest.param(
            wire(b"\x08\x01"),
            TYPED + "proto: wrong wireType for field Metadata",
            id="number-for-message",
        ),
        pytest.param(wire(b"\x0a\x02\x38"), TYPED + "unexpected EOF", id="too-short"),
        pytest.param(wire(b"\x0a\x02\x38\xff"), TYPED + "unexpected EOF", id="number-cut-off"),
        pytest.param(
            wire(b"\x0a\x0c\x38" + b"\xff" * 11),
            TYPED + "proto: integer overflow",
            id="number-of-eleven-bytes",
        ),
        pytest.param(
            wire(b"\x0c"), TYPED + "proto: illegal tag 1 (wire type 4)", id="end-of-no-group"
        ),
        pytest.param(wire(b"\x02\x00"), TYPED + "proto: illegal tag 0 (wire type 2)", id="field-0"),
        pytest.param(wire(b"\x53" * 50), TYPED + "unexpected EOF", id="groups-without-end"),
        pytest.param(
            wire(b"\x0a\x09\x42\x07\x08\xff\xff\xff\xff\xff\x7f"),
            TYPED + "4398046511103 s since 1970 is not in the years 1 to 9999",
            id="year-141338",
        ),
        pytest.param(
            wire(delimited(1, b"\x8a\x01\x05\x3a\x03\x0a\x01{")),
            TYPED + "fieldsV1 holds no JSON: unexpected end of JSON input",
            id="fields-v1",
        ),
    ],
)
def test_what_is_no_protobuf_of_kubernetes_is_refused(body: bytes, problem: str) -> None:
    assert refused(body, PROTOBUF) == problem


def test_protobuf_without_a_type_is_what_the_path_says() -> None:
    assert decode(b"k8s\x00\x0a\x00\x12\x00", PROTOBUF, LEASE) == read("{}", kind=LEASE)
    assert "no kind" in refused(envelope("v1", "Pod", b""), PROTOBUF)


def test_unknown_fields_of_protobuf_are_skipped_and_known_ones_merged() -> None:
    group = b"\xa3\x06" + b"\x08\x01" + b"\x12\x01x" + b"\xa3\x06\xa4\x06" + b"\xa4\x06"
    fixed = b"\xa1\x06" + b"8" * 8 + b"\xa5\x06" + b"4" * 4
    first = delimited(1, delimited(1, b"old") + delimited(14, b"f") + group)
    second = delimited(1, delimited(1, b"n\xff") + delimited(14, b"g") + fixed)

    decoded = decode(wire(first + b"\x98\x06\x05" + second, LEASE), PROTOBUF, LEASE)

    assert decoded.object["metadata"] == {"name": "n\ufffd", "finalizers": ["f", "g"]}
    assert decoded.problems == ()


def test_times_of_protobuf_are_cut_to_what_they_hold() -> None:
    spec = delimited(3, b"") + delimited(4, b"\x08\x01\x10\xff\x93\xeb\xdc\x03")  # 999 999 999 ns
    metadata = delimited(8, b"\x08\x01\x10\xff\x93\xeb\xdc\x03")

    decoded = decode(wire(delimited(1, metadata) + delimited(2, spec), LEASE), PROTOBUF, LEASE)

    assert decoded.object["metadata"] == {"creationTimestamp": "1970-01-01T00:00:01Z"}
    assert decoded.object["spec"] == {
        "acquireTime": None,
        "renewTime": "1970-01-01T00:00:01.999999Z",
    }


def test_yaml_is_read_as_kubernetes_does() -> None:
    decoded = read(
        "base: &base {uid: u, name: base}\n"
        "metadata:\n"
        "  <<: *base\n"
        "  name: 2026-01-01\n"
        "  generation: 0x1_0\n"
        "  deletionGracePeriodSeconds: 1e2\n"
        '  labels: {y: "1", 12: !!str 2, a: "no"}\n'
        "---\nsecond: document\n",
        YAML,
    )

    assert decoded.object["metadata"] == {
        "name": "2026-01-01",
        "uid": "u",
        "generation": 16,
        "deletionGracePeriodSeconds": 100,
        "labels": {"12": "2", "a": "no", "true": "1"},
    }
    assert decoded.problems == ('unknown field "base"',)


def test_keys_that_are_twice_in_yaml_are_one_problem_and_the_last_counts() -> None:
    decoded = read("metadata:\n  name: a\n  name: b\nx: 1\nx: 2\n", YAML)

    assert decoded.object["metadata"] == {"name": "b"}
    assert decoded.problems == (
        (
            'yaml: unmarshal errors:\n  line 3: key "name" already set in map\n'
            '  line 5: key "x" already set in map'
        ),
        'unknown field "x"',
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("a: *x", "yaml: unknown anchor 'x' referenced", id="no-such-anchor"),
        pytest.param("a: &a [*a]", "yaml: anchor 'a' value contains itself", id="in-itself"),
        pytest.param("a: .inf", "yaml: line 1: .inf is no number that JSON has", id="infinite"),
        pytest.param("\n? [a]\n: 1", "yaml: line 2: invalid map key", id="key-that-is-a-list"),
        pytest.param("~: 1", "yaml: line 1: unsupported map key", id="key-that-is-null"),
        pytest.param(
            "<<: 1\n",
            "yaml: line 2: map merge requires map or sequence of maps as the value",
            id="merge",
        ),
        pytest.param(
            "a: !!python/object:os.system x",
            "yaml: line 1: tag tag:yaml.org,2002:python/object:os.system is not supported",
            id="tag",
        ),
    ],
)
def test_what_json_cannot_say_is_refused(text: str, problem: str) -> None:
    assert refused(text.encode(), YAML).startswith(f"{UNRECOGNIZED}{problem} (")


def test_aliases_cannot_multiply_without_end() -> None:
    lines = ["a0: &a0 [1,1,1,1,1,1,1,1,1,1]"]
    lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]

    assert "document contains excessive aliasing" in refused("\n".join(lines).encode(), YAML)


@pytest.mark.parametrize(
    ("body", "serializer"),
    [
        pytest.param(
            b'{"status":{"conditions":[' + b"{}," * MAX_VALUES + b"{}]}}", JSON, id="json"
        ),
        pytest.param(b"- a\n" * (2 * MAX_VALUES + 1), YAML, id="yaml"),
        pytest.param(wire(delimited(3, b"\x1a\x00") * MAX_VALUES), PROTOBUF, id="protobuf"),
        pytest.param(wire(b"\x0b" * 2 * MAX_VALUES), PROTOBUF, id="protobuf-groups"),
        pytest.param(b"[" * MAX_VALUES + b"[", JSON, id="json-levels"),
        pytest.param(b" " * 600_000 + b"{}", JSON, id="json-blanks"),
        pytest.param(b'{"a":' + b"1" * 600_000 + b"}", JSON, id="json-digits"),
        pytest.param(b'{"a":"' + b"\\n" * 70_000 + b'"}', JSON, id="json-escapes"),
        pytest.param(b'{"a":"' + b"x" * MAX_JSON_BYTES + b'"}', JSON, id="json-text"),
        pytest.param(b"\n" * (MAX_YAML_BYTES + 1), YAML, id="yaml-blanks"),
        pytest.param(wire(b"\x0a" + b"\xff" * MAX_JSON_BYTES), PROTOBUF, id="protobuf-bytes"),
    ],
)
def test_what_costs_too_much_is_too_large(body: bytes, serializer: Serializer) -> None:
    with pytest.raises(ObjectError, match=r"^Request entity too large: limit is ") as refusal:
        decode(body, serializer, STORAGE_VERSION)

    assert refusal.value.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE


def test_a_long_text_that_is_json_itself_costs_little() -> None:
    inner = json.dumps({f"k{n}": [n, {}] for n in range(MAX_VALUES)})
    body = json.dumps({"metadata": {"name": "a.b", "annotations": {"a": inner}}}).encode()

    assert decode(body, JSON, STORAGE_VERSION).object["metadata"] == {
        "name": "a.b",
        "annotations": {"a": inner},
    }
