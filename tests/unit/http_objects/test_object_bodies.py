"""Bodies are read with bounds, and warnings are written with bounds."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import pytest
from apidiscovery_formats.negotiation import JSON, PROTOBUF, YAML, Serializer
from apidiscovery_service.kube.objects.errors import ObjectError
from apidiscovery_service.serving.http.objects.write_requests import (
    MAX_BODY_BYTES,
    Disconnected,
    read_body,
    serializer_of,
    warning_headers,
)
from hypothesis import given
from hypothesis import strategies as st

Message = MutableMapping[str, Any]


def receiving(*messages: Message) -> Callable[[], Awaitable[Message]]:
    """Return what gives these messages, and then waits for ever."""
    left = list(messages)

    async def receive() -> Message:
        if left:
            return left.pop(0)
        await asyncio.Event().wait()
        raise AssertionError

    return receive


def piece(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


@given(pieces=st.lists(st.binary(max_size=64), min_size=1))
def test_pieces_are_joined(pieces: list[bytes]) -> None:
    messages = [piece(part, more=True) for part in pieces[:-1]] + [piece(pieces[-1])]
    assert asyncio.run(read_body(receiving(*messages))) == b"".join(pieces)


async def test_the_largest_body_is_read() -> None:
    largest = b"x" * MAX_BODY_BYTES
    assert await read_body(receiving(piece(largest))) == largest


async def test_a_larger_body_is_refused_without_waiting_for_its_end() -> None:
    with pytest.raises(ObjectError) as caught:
        await read_body(receiving(piece(b"x" * (MAX_BODY_BYTES + 1), more=True)))
    assert (caught.value.code, caught.value.reason) == (413, "RequestEntityTooLarge")
    assert str(caught.value) == "Request entity too large: limit is 3145728"


async def test_a_body_that_does_not_arrive_is_a_408() -> None:
    with pytest.raises(ObjectError) as caught:
        await read_body(receiving(piece(b"{", more=True)), timeout_s=0.01)
    assert (caught.value.code, caught.value.reason) == (408, "Timeout")


async def test_a_client_that_leaves_ends_the_reading() -> None:
    with pytest.raises(Disconnected):
        await read_body(receiving(piece(b"{", more=True), {"type": "http.disconnect"}))


@pytest.mark.parametrize(
    ("content_type", "serializer"),
    [
        ("", JSON),
        ("application/json", JSON),
        (" application/json ", JSON),
        ('application/json; charset="utf-8"', JSON),
        ("APPLICATION/YAML;a=b;c=d", YAML),
        ("application/vnd.kubernetes.protobuf", PROTOBUF),
    ],
)
def test_a_type_has_its_serializer(content_type: str, serializer: Serializer) -> None:
    assert serializer_of(content_type) is serializer


@pytest.mark.parametrize(
    "content_type", ["*/*", "text/json", "application/json, application/yaml", "application/json;a"]
)
def test_other_types_are_a_415(content_type: str) -> None:
    with pytest.raises(ObjectError) as caught:
        serializer_of(content_type)
    assert caught.value.code == 415


def test_each_warning_is_sent_once() -> None:
    assert warning_headers(["a", 'b "c\\', "a", ""]) == [
        (b"warning", b'299 - "a"'),
        (b"warning", b'299 - "b \\"c\\\\"'),
    ]


def test_no_warning_breaks_its_line() -> None:
    assert warning_headers(["a\r\nset-cookie: b", "a\x7f", "\u00e9\u4e00"]) == [
        (b"warning", '299 - "\u00e9\u4e00"'.encode())
    ]


@given(texts=st.lists(st.text(st.characters(categories=["L"]), max_size=2000), max_size=40))
def test_warnings_are_bounded(texts: list[str]) -> None:
    """They have 4096 characters at most, and the last one up to 256 more."""
    headers = warning_headers(texts)
    told = [value.decode().removeprefix('299 - "').removesuffix('"') for _, value in headers]
    assert sum(map(len, told)) < 4096 + 256
    distinct = [text for text in dict.fromkeys(texts) if text]
    assert all(text.startswith(said) for text, said in zip(distinct, told, strict=False))
    if sum(map(len, distinct)) <= 4096:
        assert told == distinct
