r"""Field selectors, such as `metadata.name=apps.deployments,metadata.namespace!=kube-system`.

In a value `\,`, `\=` and `\\` stand for the characters themselves. Sources: k8s.io/apimachinery
pkg/fields/selector.go; pkg/runtime/conversion.go:DefaultMetaV1FieldSelectorConversion for which
fields there are.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from apidiscovery_formats.go_text import quote

from apidiscovery_service.kube.objects import errors

NAME = "metadata.name"
NAMESPACE = "metadata.namespace"

_TERM = re.compile(r"((?:[^\\,]|\\.)*\\?)(?:,|\Z)", re.DOTALL)
_OPERATOR = re.compile("!=|==|=")
_SPECIAL = re.compile(r"[\\,=]")


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition: the field has, or has not, the value."""

    field: str
    value: str
    equal: bool = True

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Tell whether fields are as required; one that is not there reads as empty."""
        return (fields.get(self.field, "") == self.value) is self.equal

    def __str__(self) -> str:
        escaped = _SPECIAL.sub(r"\\\g<0>", self.value)
        return f"{self.field}{'=' if self.equal else '!='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Requirements that must all be met; none of them means all objects."""

    requirements: tuple[FieldRequirement, ...] = ()

    def matches(self, fields: Mapping[str, str]) -> bool:
        """Tell whether fields, named as in selectors, are as required."""
        return all(requirement.matches(fields) for requirement in self.requirements)

    def exact(self, field: str) -> str | None:
        """Return the one value that a field must have, if one is required."""
        for requirement in self.requirements:
            if requirement.field == field and requirement.equal:
                return requirement.value
        return None

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


def parse(selector: str) -> FieldSelector:
    """Return the selector that a query's `fieldSelector` is.

    Raises:
        ObjectError: It is none, or names a field that cannot be selected by; 400.
    """
    # Upstream sorts the terms before it reads them, which decides what error comes first.
    read = [_requirement(selector, term) for term in sorted(_terms(selector)) if term]
    for requirement in read:
        if requirement.field not in {NAME, NAMESPACE}:
            raise errors.bad_request(
                f"{quote(requirement.field)} is not a known field selector: "
                f"only {quote(NAME)}, {quote(NAMESPACE)}"
            )
    return FieldSelector(tuple(read))


def _terms(selector: str) -> Iterator[str]:
    for match in _TERM.finditer(selector):
        yield match[1]


def _requirement(selector: str, term: str) -> FieldRequirement:
    operator = _OPERATOR.search(term)
    if operator is None:
        raise errors.bad_request(f"invalid selector: '{selector}'; can't understand '{term}'")
    value = _unescaped(term[operator.end() :])
    return FieldRequirement(term[: operator.start()], value, equal=operator[0] != "!=")


def _unescaped(value: str) -> str:
    literal = list[str]()
    characters = iter(value)
    for character in characters:
        if character in ",=":
            # Upstream prints the number of the character.
            raise errors.bad_request(
                f"invalid field selector: unescaped character in value: {ord(character)}"
            )
        if character != "\\":
            literal.append(character)
            continue
        escaped = next(characters, "")
        if escaped not in {"\\", ",", "="}:
            raise errors.bad_request(
                f"invalid field selector: invalid escape sequence: \\{escaped}"
            )
        literal.append(escaped)
    return "".join(literal)
