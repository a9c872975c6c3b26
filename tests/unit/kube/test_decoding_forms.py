"""Decoding of request bodies in YAML and protobuf."""

import pytest
from apidiscovery_formats.negotiation import PROTOBUF, YAML
from apidiscovery_service.kube.objects.decoding import decode
from apidiscovery_service.kube.objects.kinds import LEASE
from apidiscovery_service.kube.wire import delimited, envelope
from decoded_bodies import TYPED, UNRECOGNIZED, read, refused, wire

CORRUPT = "proto: cannot parse {}: the wire format is corrupt, or a string is not UTF-8"


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


def test_duplicate_keys_in_yaml_are_one_problem_and_the_last_counts() -> None:
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
        pytest.param("a: .inf", "yaml: line 1: .inf is not a number that JSON has", id="infinite"),
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
def test_yaml_without_a_json_value_is_refused(text: str, problem: str) -> None:
    assert refused(text.encode(), YAML).startswith(f"{UNRECOGNIZED}{problem} (")


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
        pytest.param(
            b"k8s\x00\x12",
            UNRECOGNIZED + CORRUPT.format("Unknown") + " (6b38730012)",
            id="cut-off",
        ),
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
def test_malformed_protobuf_is_refused(body: bytes, problem: str) -> None:
    assert refused(body, PROTOBUF) == problem


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param(b"\x0a\x02\x38", id="too-short"),
        pytest.param(b"\x53" * 200 + b"\x54" * 200, id="groups-too-deep"),
        pytest.param(b"\x0a\x04\x0a\x02n\xff", id="no-utf-8"),
    ],
)
def test_a_message_that_cannot_be_parsed_is_refused(raw: bytes) -> None:
    assert refused(wire(raw), PROTOBUF) == TYPED + CORRUPT.format("StorageVersion")


def test_protobuf_without_a_type_has_the_kind_of_the_path() -> None:
    assert decode(b"k8s\x00\x0a\x00\x12\x00", PROTOBUF, LEASE) == read("{}", kind=LEASE)
    assert "no kind" in refused(envelope("v1", "Pod", b""), PROTOBUF)


def test_unknown_fields_of_protobuf_are_skipped_and_known_ones_merged() -> None:
    first = delimited(1, delimited(1, b"old") + delimited(14, b"f"))
    second = delimited(1, delimited(1, b"n") + delimited(14, b"g"))

    decoded = decode(wire(first + b"\x98\x06\x05" + second, LEASE), PROTOBUF, LEASE)

    assert decoded.object["metadata"] == {"name": "n", "finalizers": ["f", "g"]}
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
