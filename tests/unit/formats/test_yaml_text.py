"""YAML into values: types of scalars, refused documents, and bounds for untrusted text."""

import gzip
from pathlib import Path

import pytest
import yaml
from apidiscovery_formats.yaml_text import MAX_DEPTH, Unparsable, load
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

MANIFESTS = GOLDEN / "crds" / "manifests"

# Without digits, y and n: PyYAML writes these and some numbers of YAML 1.2 without quotes.
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Nd"], exclude_characters="yYnN"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS | st.floats(-1, 1),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


class JSONLoader(yaml.CSafeLoader):
    """PyYAML's own reader without the types that JSON lacks."""


JSONLoader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in known if not tag.endswith((":timestamp", ":value"))]
    for first, known in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


@pytest.mark.parametrize("package", sorted(MANIFESTS.glob("*.gz")), ids=lambda path: path.stem)
def test_manifests_in_use_are_read_as_by_pyyaml(package: Path) -> None:
    documents = gzip.decompress(package.read_bytes()).decode().split("\n---\n")
    for document in (each for each in documents if len(each) < 200_000):
        assert load(document) == yaml.load(document, JSONLoader)  # noqa: S506 - a safe one


@given(VALUES)
def test_a_written_value_is_read_again(value: object) -> None:
    assert load(yaml.safe_dump(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("a:", {"a": None}),
        ("[yes, Off, TRUE, n, Y, 'no', !!str on]", [True, False, True, False, True, "no", "on"]),
        ("[2020-01-02, 2020-01-02T03:04:05Z]", ["2020-01-02", "2020-01-02T03:04:05Z"]),
        ("[12:30, =, 1.2.3, -, +, .]", ["12:30", "=", "1.2.3", "-", "+", "."]),
        ("[0x1F, 0b11, 017, 0o17, 1_000, -5, +5]", [31, 3, 15, 15, 1000, -5, 5]),
        ("[1.5, .5, 1e3, 1.e-1, -0.0]", [1.5, 0.5, 1000.0, 0.1, 0.0]),
        ("18446744073709551616", 18446744073709551616.0),
        ("[1e308, 1e309, -1_0e308]", [1e308, "1e309", "-1_0e308"]),
        (f"[{'9' * 309}, -{'9' * 310}]", ["9" * 309, "-" + "9" * 310]),
        ("{a: &x {b: 1}, c: *x, <<: *x}", {"a": {"b": 1}, "c": {"b": 1}, "b": 1}),
        ("{b: 2, <<: [{b: 1, c: 1}, {c: 2, d: 2}]}", {"b": 2, "c": 1, "d": 2}),
        ("{'<<': 1}", {"<<": 1}),
        ("{1: a, 0x10: b, -2: c}", {"1": "a", "16": "b", "-2": "c"}),
        ("{1.5: a, .5: b, 1e3: c, 1e25: d}", {"1.5": "a", "0.5": "b", "1000": "c", "1e+25": "d"}),
        ("{y: a, No: b}", {"true": "a", "false": "b"}),
    ],
)
def test_scalars_and_aliases_are_read_as_by_kubectl(text: str, value: object) -> None:
    assert load(text) == value


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("a: 1\na: 2", 1, "the key 'a' is there twice"),
        ("a:\n  b: 1\n  b: 1", 2, "the key 'b' is there twice"),
        ("y: 1\non: 2", 1, "the key 'true' is there twice; unquoted, y, yes and on are true"),
        ("a\n---\nb", 1, "no YAML: a second document begins"),
        ("a: *x", 0, "no YAML: found undefined alias 'x'"),
        ("a: &x\n  b: *x", 1, "no YAML: a value contains itself"),
        ("a: !!set {b}", 0, "no YAML: tags are not understood"),
        ("a: !x b", 0, "no YAML: tags are not understood"),
        ("[.nan]", 0, "no YAML: .nan is nothing that JSON has"),
        ("? [a]\n: b", 0, "no YAML: a key is an object or a list"),
        ("a: 1\n~: b", 1, "no YAML: a key is null; want text"),
        ("18446744073709551615: b", 0, "no YAML: a key is the number 18446744073709551615"),
        ("1.2345678: b", 0, "no YAML: a key is the number 1.2345678"),
        ("a:\n  <<: 1", 1, "no YAML: want an object to merge"),
        ("9" * 500, 0, "no YAML: a number of 500 digits"),
        ("[" * (MAX_DEPTH + 1), 0, f"nested deeper than {MAX_DEPTH} levels"),
    ],
)
def test_an_error_has_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(Unparsable, match=message.replace("[", r"\[")) as caught:
        load(text)
    assert caught.value.line == line


def test_aliases_of_aliases_are_counted_and_not_built() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    with pytest.raises(Unparsable, match="more than 5000000 values"):
        load("\n".join(lines))
