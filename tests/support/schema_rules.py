"""CEL rules for random schemas, each with the same rule in Python: the model needs no CEL."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


class UnknownRuleError(Exception):
    """A rule is not in the table."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule in Python.

    Attributes:
        holds: Returns the result of the rule for a value.
        needs: The selected fields with their types; the schema must have them.
    """

    holds: Callable[[Any], bool]
    needs: Mapping[str, str]


def _rule(holds: Callable[[Any], bool], **needs: str) -> Rule:
    return Rule(holds, needs)


# By type of the value: `object` has properties, `map` has additionalProperties.
RULES: dict[str, dict[str, Rule]] = {
    "string": {
        "self.startsWith('a')": _rule(lambda value: value.startswith("a")),
        "size(self) < 4": _rule(lambda value: len(value) < 4),
        "self != 'b'": _rule(lambda value: value != "b"),
        "self.matches('^[a-z]*$')": _rule(
            lambda value: all("a" <= letter <= "z" for letter in value)
        ),
        "self.lowerAscii() == self": _rule(lambda value: value.lower() == value),
        "self.contains('b') ? size(self) > 1 : true": _rule(
            lambda value: "b" not in value or len(value) > 1
        ),
        "self == oldSelf": _rule(lambda value: value is not None),
    },
    "integer": {
        "self > 2": _rule(lambda value: value > 2),
        "self != 3 || self == 4": _rule(lambda value: value != 3),
        "self % 2 == 0": _rule(lambda value: value % 2 == 0),
        "self in [1, 2, 3, 5]": _rule(lambda value: value in (1, 2, 3, 5)),
        "self < 100": _rule(lambda value: value < 100),
        "self >= oldSelf": _rule(lambda value: value is not None),
    },
    "boolean": {"self": _rule(lambda value: value), "!self": _rule(lambda value: not value)},
    "array": {
        "size(self) < 2": _rule(lambda value: len(value) < 2),
        "size(self) != 1": _rule(lambda value: len(value) != 1),
    },
    "map": {
        "size(self) < 2": _rule(lambda value: len(value) < 2),
        "!('p' in self)": _rule(lambda value: "p" not in value),
        "self.all(key, key != 'q')": _rule(lambda value: "q" not in value),
    },
    "object": {
        "has(self.a)": _rule(lambda value: "a" in value, a=""),
        "!has(self.b)": _rule(lambda value: "b" not in value, b=""),
        "!has(self.a) || has(self.b)": _rule(
            lambda value: "a" not in value or "b" in value, a="", b=""
        ),
        "has(self.a) != has(self.b)": _rule(
            lambda value: ("a" in value) != ("b" in value), a="", b=""
        ),
        "!has(self.a) || self.a != 'a'": _rule(lambda value: value.get("a") != "a", a="string"),
        "!has(self.b) || self.b > 1": _rule(
            lambda value: "b" not in value or value["b"] > 1, b="integer"
        ),
        # A KeyError is an error of evaluation.
        "self.c == 'ab'": _rule(lambda value: value["c"] == "ab", c="string"),
        "size(self.c) > 1 || has(self.a)": _rule(
            lambda value: "a" in value or len(value["c"]) > 1, a="", c="string"
        ),
        "has(self.b) ? self.b > 1 : has(self.c)": _rule(
            lambda value: value["b"] > 1 if "b" in value else "c" in value, b="integer", c=""
        ),
    },
}


def holds(rule: str, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether a rule of the table holds for a value of its type."""
    kinds: list[tuple[type, str]] = [(str, "string"), (bool, "boolean"), (int, "integer")]
    kinds.append((list, "array"))
    names = [name for kind, name in kinds if isinstance(value, kind)] or ["object", "map"]
    for name in names:
        if rule in RULES[name]:
            return RULES[name][rule].holds(value)
    raise UnknownRuleError(rule)


def is_evaluated(rule: str, value: Any) -> bool:  # noqa: ANN401 - JSON
    """Tell whether the evaluation of a rule ends without an error."""
    try:
        holds(rule, value)
    except KeyError:
        return False
    return True


def rules_for(schema: Mapping[str, Any]) -> list[str]:
    """Return the rules that a schema may have."""
    kind = str(schema.get("type", ""))
    if kind == "object" and "additionalProperties" in schema:
        kind = "map"
    fields = schema.get("properties", {})

    def fits(rule: Rule) -> bool:
        return all(
            name in fields
            and not fields[name].get("nullable")
            and (fields[name].get("type") == wanted if wanted else True)
            for name, wanted in rule.needs.items()
        )

    return [text for text, rule in RULES.get(kind, {}).items() if fits(rule)]
