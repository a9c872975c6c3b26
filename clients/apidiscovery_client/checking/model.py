"""The findings about manifests."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """The effect of a finding on applying the manifest."""

    ERROR = "error"  # the server refuses it, or loses a part of it
    WARNING = "warning"  # it works there, and will not with a later release
    UNDECIDED = "undecided"  # a rule of the schema that could not be evaluated


class Rule(StrEnum):
    """Kinds of findings."""

    NO_OBJECT = "no-object"
    NOT_SERVED = "not-served"
    UNKNOWN_FIELD = "unknown-field"
    PRUNED_FIELD = "pruned-field"
    REQUIRED_FIELD = "required-field"
    INVALID_VALUE = "invalid-value"
    REMOVED_LATER = "removed-later"
    DEPRECATED = "deprecated"
    UNDECIDED = "undecided"

    @property
    def severity(self) -> Severity:
        """The severity."""
        return _SEVERITIES.get(self, Severity.ERROR)


_SEVERITIES = {
    Rule.REMOVED_LATER: Severity.WARNING,
    Rule.DEPRECATED: Severity.WARNING,
    Rule.UNDECIDED: Severity.UNDECIDED,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem of an object.

    Attributes:
        path: The file, as it was named.
        line: Of the field, or of what is around it, from 1.
        source: The template that `helm template` names; empty without one.
        api_version: Of the object; so are the next three.
        field: Such as `spec.containers[0].name`; empty for the object.
        message: One line, which does not repeat the others.
        until: The last release of Kubernetes that serves it, such as `1.24`; empty where it is not
            known to end.
        replaced_by: The group-version that serves the kind instead; empty for none.
    """

    rule: Rule
    path: str
    line: int
    source: str
    api_version: str
    kind: str
    namespace: str
    name: str
    field: str
    message: str
    until: str = ""
    replaced_by: str = ""

    @property
    def severity(self) -> Severity:
        """The severity of the rule."""
        return self.rule.severity


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of a check.

    Attributes:
        against: The name of the server, snapshot or release.
        objects: How many objects there were.
        findings: In the order of files and lines.
        unchecked: Why kinds or group-versions could not be checked, in one line, by their names.
    """

    against: str
    objects: int
    findings: tuple[Finding, ...]
    unchecked: Mapping[str, str]

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity, in order."""
        return tuple(found for found in self.findings if found.severity == severity)
