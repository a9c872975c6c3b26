"""Findings of a comparison: rules, their severity for clients, and the report."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a difference means for clients of the first side."""

    BREAKING = "breaking"  # something fails, or silently changes its meaning
    COMPATIBLE = "compatible"  # something was added
    INFO = "info"  # nothing fails, but it may matter


class Rule(StrEnum):
    """Kinds of differences, in the order of the report within a subject."""

    PART_UNKNOWN = "part-unknown"
    FRESHNESS_CHANGED = "freshness-changed"
    GROUP_REMOVED = "group-removed"
    GROUP_ADDED = "group-added"
    VERSION_REMOVED = "version-removed"
    VERSION_ADDED = "version-added"
    PREFERRED_VERSION_CHANGED = "preferred-version-changed"
    RESOURCE_REMOVED = "resource-removed"
    RESOURCE_ADDED = "resource-added"
    KIND_CHANGED = "kind-changed"
    KIND_VERSION_CHANGED = "kind-version-changed"
    SCOPE_CHANGED = "scope-changed"
    VERB_REMOVED = "verb-removed"
    VERB_ADDED = "verb-added"
    SUBRESOURCE_REMOVED = "subresource-removed"
    SUBRESOURCE_ADDED = "subresource-added"
    SHORT_NAME_REMOVED = "short-name-removed"
    SHORT_NAME_ADDED = "short-name-added"
    CATEGORY_REMOVED = "category-removed"
    CATEGORY_ADDED = "category-added"
    STORAGE_VERSION_CHANGED = "storage-version-changed"
    SHORT_NAME_STOLEN = "short-name-stolen"
    NAME_RESOLVES_ELSEWHERE = "name-resolves-elsewhere"
    NAME_REMOVED = "name-removed"
    NAME_MOVED = "name-moved"

    @property
    def severity(self) -> Severity:
        """The severity: removals break clients, additions do not."""
        if self in _INFO:
            return Severity.INFO
        return Severity.COMPATIBLE if self.endswith("-added") else Severity.BREAKING


_INFO = frozenset(
    {
        Rule.PART_UNKNOWN,
        Rule.FRESHNESS_CHANGED,
        Rule.PREFERRED_VERSION_CHANGED,
        Rule.KIND_VERSION_CHANGED,
        Rule.STORAGE_VERSION_CHANGED,
        Rule.NAME_MOVED,
    }
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference.

    Attributes:
        subject: What differs: a group, a group-version such as `apps/v1`, a resource such as
            `deployments.v1.apps` or `pods.v1.`, one of its subresources, or a name.
        message: One line, which does not repeat the subject.
        before: The former value, where it is one word; empty otherwise.
        after: The new value; the same.
        moves_to: Group-versions that serve the removed resources now.
    """

    rule: Rule
    subject: str
    message: str
    before: str = ""
    after: str = ""
    moves_to: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """The severity of the rule."""
        return self.rule.severity


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that could not be compared, so that nothing follows from it.

    Attributes:
        subject: As in `Finding`, or the path of a part: `/api` or `/apis`.
        reason: One line.
    """

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The differences between two sides.

    Attributes:
        before: The name of the first side.
        after: The name of the second side.
        findings: In the order of the first side, then of the second for additions.
        doubts: What could not be compared, unless that is a difference itself.
    """

    before: str
    after: str
    findings: tuple[Finding, ...]
    doubts: tuple[Doubt, ...] = ()

    def __repr__(self) -> str:
        doubts = f", {len(self.doubts)} doubts" if self.doubts else ""
        return f"<Report from {self.before} to {self.after}: {self.summary}{doubts}>"

    @property
    def is_same(self) -> bool:
        """Whether no difference was found."""
        return not self.findings

    @property
    def summary(self) -> str:
        """How many findings there are of each severity, such as `2 breaking, 1 info`."""
        counts = [(len(self.of(severity)), str(severity)) for severity in Severity]
        told = ", ".join(f"{count} {severity}" for count, severity in counts if count)
        return told or "no differences"

    @property
    def breaking(self) -> tuple[Finding, ...]:
        """The findings that break clients of the first side, in order."""
        return self.of(Severity.BREAKING)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity, in order."""
        return tuple(found for found in self.findings if found.severity == severity)
