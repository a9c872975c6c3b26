"""JSON read in windows is the JSON that a library reads at once."""

import json
import random

import orjson
import pytest
from apidiscovery_service.go_json import JSONValue
from apidiscovery_service.openapi.errors import InvalidOpenAPI
from apidiscovery_service.openapi.packed import PIECE_BYTES, Packing, pack
from apidiscovery_service.openapi.stepwise_json import (
    MAX_TEXT_BYTES,
    Reader,
    Widths,
    as_utf8,
    check_widths,
    dismantle,
    loads,
)

LEAVES: list[JSONValue] = [1, -2.5, 1e300, None, True, 2**63, "", "x" * 3000, 'é\u2028"\\\n' * 900]


def anything(chance: random.Random, levels: int) -> JSONValue:
    kind = chance.random()
    if not levels or kind < 0.3:
        return chance.choice(LEAVES)
    inner = [anything(chance, levels - 1) for _ in range(chance.randint(0, 12))]
    return inner if kind < 0.6 else {f"k{number}é": value for number, value in enumerate(inner)}


@pytest.mark.parametrize("seed", range(20))
def test_what_is_read_in_windows_is_the_same(seed: int) -> None:
    value = [anything(random.Random(seed), 4), "x" * 70_000, list(range(30_000))]  # noqa: S311 - the same at every run
    compact = orjson.dumps(value)
    for text in (compact, json.dumps(value, indent=1, ensure_ascii=False).encode()):
        assert loads(text) == value
        assert Reader(text, json.JSONDecoder(), dict).document() == value


@pytest.mark.parametrize("seed", range(20))
def test_what_is_no_json_is_none_in_windows_either(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - the same at every run
    text = orjson.dumps([anything(chance, 4), list(range(30_000))])
    place = chance.randrange(len(text))
    broken = text[:place] + chance.choice([b'"', b"{", b",", b"", b"\xff"]) + text[place + 1 :]
    try:
        wanted = orjson.loads(broken)
    except ValueError:
        with pytest.raises((ValueError, InvalidOpenAPI)):
            loads(broken)
    else:
        assert loads(broken) == wanted


def test_a_wide_object_is_told_with_its_path() -> None:
    text = orjson.dumps({"a": [{"b": {"c": {f"f{number}": "x" * 20 for number in range(9000)}}}]})
    reader = Reader(text, json.JSONDecoder(), dict, Widths(members=100))
    with pytest.raises(InvalidOpenAPI, match="want at most 100 members") as caught:
        reader.document()
    assert caught.value.path == ("a", 0, "b", "c")


def test_a_long_text_is_told_with_its_path_and_size() -> None:
    text = orjson.dumps({"a": ["\\" * MAX_TEXT_BYTES]})
    with pytest.raises(InvalidOpenAPI, match=f"got {2 * MAX_TEXT_BYTES}") as caught:
        loads(text)
    assert caught.value.path == ("a", 0)


def test_widths_of_values_are_told_with_their_path() -> None:
    value = {"a": [{"b": [None] * 20_000}]}
    with pytest.raises(InvalidOpenAPI, match="want at most 10000 items, got 20000") as caught:
        check_widths(value, ("spec",))
    assert caught.value.path == ("spec", "a", 0, "b")


def test_what_is_dismantled_is_empty_down_to_the_last() -> None:
    inner: list[object] = [1]
    value = {"a": [{"b": inner}]}
    dismantle(value)
    assert (value, inner) == ({}, [])


def test_bytes_that_are_no_text_are_replaced_also_where_pieces_meet() -> None:
    text = ("é" * 70_000).encode()[1:] + b"\xff"
    assert bytes(as_utf8(text)) == text.decode(errors="replace").encode()


@pytest.mark.parametrize("size", [0, 1, PIECE_BYTES, 5 * PIECE_BYTES + 7])
def test_a_packed_text_is_there_again_whole_and_in_parts(size: int) -> None:
    text = random.Random(1).randbytes(size)  # noqa: S311 - the same at every run
    packing = Packing()
    for begin in range(0, size, 100_000):
        packing.write(text[begin : begin + 100_000])
    packed = packing.packed()
    assert (packed.whole(), len(packed)) == (text, size)
    assert packed.hash == pack(text).hash
    part = packed.part(size // 3, size // 2).part(0, size // 2 - size // 3)
    assert part.whole() == text[size // 3 : size // 2]
    assert all(len(piece) <= PIECE_BYTES for piece in packed.pieces())
