"""Bounds of request bodies in every form."""

import json
from http import HTTPStatus

import pytest
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Serializer
from apidiscovery_service.kube.go_json import JSONValue
from apidiscovery_service.kube.objects.decoding import Undecodable, decode, from_value
from apidiscovery_service.kube.objects.encoding import encode
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.kube.objects.json_text import MAX_DEPTH
from apidiscovery_service.kube.objects.kinds import LEASE, STORAGE_VERSION
from apidiscovery_service.kube.objects.limits import MAX_JSON_BYTES, MAX_VALUES, MAX_YAML_BYTES
from apidiscovery_service.kube.wire import delimited
from decoded_bodies import refused, wire
from hypothesis import given
from hypothesis import strategies as st
from kube_samples import SUFFIXES, sample


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
def test_text_may_be_only_so_deep(opening: bytes, serializer: Serializer) -> None:
    message = refused(b'{"a":' + opening * 5_000, serializer)

    assert "exceeded max depth" in message


def test_the_deepest_text_that_is_read() -> None:
    strings = b'"' + b'[{\\"' * 200 + b'"'  # brackets in a string are no levels
    inner = b"[" * (MAX_DEPTH - 1) + strings + b"]" * (MAX_DEPTH - 1)

    assert decode(b'{"a":' + inner + b"}", JSON, LEASE).problems == ('unknown field "a"',)
    assert "exceeded max depth" in refused(b'{"a":[' + inner + b"]}")


def check(body: bytes, serializer: Serializer) -> None:
    """Check that a body is refused, or read as an object that survives a round trip."""
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
        pytest.param(b"[" * MAX_VALUES + b"[", JSON, id="json-levels"),
        pytest.param(b" " * 600_000 + b"{}", JSON, id="json-blanks"),
        pytest.param(b'{"a":' + b"1" * 600_000 + b"}", JSON, id="json-digits"),
        pytest.param(b'{"a":"' + b"\\n" * 70_000 + b'"}', JSON, id="json-escapes"),
        pytest.param(b'{"a":"' + b"x" * MAX_JSON_BYTES + b'"}', JSON, id="json-text"),
        pytest.param(b"\n" * (MAX_YAML_BYTES + 1), YAML, id="yaml-blanks"),
        pytest.param(wire(b"\x0a" + b"\xff" * MAX_JSON_BYTES), PROTOBUF, id="protobuf-bytes"),
    ],
)
def test_an_expensive_body_is_a_413(body: bytes, serializer: Serializer) -> None:
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
