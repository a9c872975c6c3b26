"""JSON written in pieces is the JSON that orjson writes at once."""

import orjson
import pytest
from apidiscovery_service.openapi import stepwise_writing
from apidiscovery_service.openapi.stepwise_writing import MAX_DEPTH, dumps, is_large
from hypothesis import given
from hypothesis import strategies as st

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=40)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=8)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=8)
    ),
    max_leaves=60,
)
WIDE = {f"field{number}": {"type": "string"} for number in range(30_000)}


@given(VALUES, st.integers(0, 20))
def test_whatever_the_size_of_the_pieces_the_text_is_the_same(value: object, at_once: int) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(stepwise_writing, "_AT_ONCE", at_once)
        written = dumps(value, orjson.OPT_NON_STR_KEYS)
    assert written == orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


@pytest.mark.parametrize(
    "value",
    [
        WIDE,
        [WIDE, [], {}, [[WIDE]]],
        {"a": list(range(50_000)), "b": "x" * 10**6},
        ["<&>\n" * 10**5],
    ],
    ids=["wide", "nested", "long", "text"],
)
def test_large_values_are_written_the_same(value: object) -> None:
    assert is_large(value)
    assert dumps(value) == orjson.dumps(value)


@pytest.mark.parametrize("levels", [MAX_DEPTH - 2, MAX_DEPTH - 1, MAX_DEPTH, 400, 2000])
@pytest.mark.parametrize("filled", [False, True])
def test_what_nests_too_deeply_is_refused_as_by_orjson(levels: int, *, filled: bool) -> None:
    value: object = WIDE if filled else {}
    for _ in range(levels):
        value = [value]
    try:
        wanted = orjson.dumps(value)
    except orjson.JSONEncodeError as error:
        with pytest.raises(orjson.JSONEncodeError, match=str(error)):
            dumps(value)
    else:
        assert dumps(value) == wanted


@pytest.mark.parametrize("wrong", [{1: 2}, {"a": 2**70}, {"a": "\ud800"}, {"a": object()}])
def test_what_json_has_not_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError):
        dumps([WIDE, wrong])
