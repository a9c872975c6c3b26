"""Regular expressions and CEL rules, evaluated for a text or a value."""

import pytest
from apidiscovery_client.schema_diff.cel import holds
from apidiscovery_client.schema_diff.examples import Examples, remembered
from apidiscovery_client.schema_diff.patterns import UndecidableError, find_string, matches
from apidiscovery_client.schema_diff.schemas import read


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("^a$", "a", True),
        ("^a$", "a\n", False),
        ("b", "abc", True),
        (r"^\d{2,3}$", "1234", False),
        (r"^\w+$", "é", False),
        ("^(a|b)*?c", "abac", True),
        (r"^\pL$", "a", None),
        ("(?i)a", "A", None),
        ("(", "a", None),
    ],
)
def test_a_match_is_that_of_go(pattern: str, text: str, expected: object) -> None:
    assert matches(pattern, text) is expected


def test_a_narrower_expression_has_no_counterexample() -> None:
    assert find_string(["^[a-z]+$"], "^[a-z0-9]+$") is None
    assert find_string(["^[a-z0-9]+$"], "^[a-z]+$") == "0"
    assert find_string(["^[a-z]{1,40}$"], least=41) is None
    assert len(find_string(["^[a-z]+$"], least=64) or "") == 64


def test_an_expression_that_is_too_large_is_not_decided() -> None:
    with pytest.raises(UndecidableError):
        find_string(["(a{99}){99}"])


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        ("!has(self.a) || self.a > 5", {"a": 3}, False),
        ("!has(self.a) || self.a > 5", {}, True),
        ("self.a > 5", {}, False),
        ("self.a > 5 || true", {}, True),
        ("!self.a == false", {"a": True}, True),
        ("self.all(x, x.startsWith('a'))", ["ab", "b"], False),
        ("size(self) <= 2 && self.matches('^a')", "ab", True),
        ("self in ['x', 'y']", "z", False),
        ("self + 9223372036854775807 > 0", 1, False),
        ("self > 5 ? true : false", 3, False),
        ("self > 5 ? self < 7 : self > 2 ? true : false", 2, False),
        ("size([self > 5 ? 'a' : 'b', 'c']) == 2 && (self > 1 ? self % 2 == 1 : false)", 3, True),
        ("self % 2 == -1", -3, True),
        ("self % 0 == 0", 3, False),
        ("self.upperAscii() == 'AÉ'", "aÉ", True),
        ("(self > 5", 3, None),
        ("self > 5)", 3, None),
        ("self ? : 3", 3, None),
        ("self.trim() == self", "a", None),
        ("self.__class__", {}, None),
        ("[x for x in self]", [], None),
        ("__import__('os')", {}, None),
        ("self.metadata.name == 'x'", {}, None),
    ],
)
def test_a_rule_holds_fails_or_is_not_decided(rule: str, value: object, expected: object) -> None:
    assert holds(rule, value) is expected


def test_an_impossible_string_is_not_searched() -> None:
    # The pattern of a name in gateway-api v0.8.1, for which a search is too long.
    label = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
    rest = r"\/[A-Za-z0-9\/\-._~%!$&'()*+,;=:]+$"
    pattern = rf"^Hostname|IPAddress|NamedAddress|{label}(\.{label})*{rest}"
    assert find_string([pattern], pattern, least=1, most=253) is None
    assert find_string([pattern], least=254, most=253) is None


def test_readers_of_a_search_share_its_results() -> None:
    schema = read({"type": "object", "properties": {"a": {"type": "string"}}})
    with remembered():
        first = iter(Examples(budget=12).of(schema, schema))
        one = next(first)
        again = list(Examples(budget=12).of(schema, schema))
        assert again[0] is one
        assert [one, *first] == again
