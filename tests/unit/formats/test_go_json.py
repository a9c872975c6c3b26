"""JSON as Go writes it, by the standard library."""

import pytest
from apidiscovery_formats.go_json import JSONValue, dumps, dumps_indented
from apidiscovery_service.kube import go_json
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(VALUES)
def test_json_is_as_the_service_writes_it(value: JSONValue) -> None:
    assert dumps(value).encode() == go_json.dumps(value)
    assert dumps_indented(value, 2).encode() == go_json.dumps_pretty(value)


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb"])
def test_a_lone_surrogate_is_replaced(text: str) -> None:
    replaced = "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text)
    assert dumps([text]) == f'["{replaced}"]'
