"""What a comparison finds, rule by rule, and how bad each is for those who use the API."""

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """What a difference means for clients that work with the first side."""

    BREAKING = "breaking"  # something fails, or silently means something else
    COMPATIBLE = "compatible"  # there is more than before
    INFO = "info"  # nothing fails, but it may be of interest


class Rule(StrEnum):
    """What kind of difference it is; the order is that of the report within a subject."""

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
        """Return how bad it is: removals break, additions do not."""
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
        subject: What it is about: a group, a group-version such as `apps/v1`, a resource such as
            `deployments.v1.apps` or `pods.v1.`, one of its subresources, or a name.
        message: One line for people, which does not repeat the subject.
        before: What was there, where that is one word; empty otherwise.
        after: What is there now; the same.
        moves_to: Group-versions that serve what is removed; empty for none.
    """

    rule: Rule
    subject: str
    message: str
    before: str = ""
    after: str = ""
    moves_to: tuple[str, ...] = ()

    @property
    def severity(self) -> Severity:
        """Return that of the rule."""
        return self.rule.severity


@dataclass(frozen=True, slots=True)
class Doubt:
    """What could not be compared; nothing is concluded of it.

    Attributes:
        subject: As in `Finding`, or the path of a part: `/api` or `/apis`.
        reason: One line for people.
    """

    subject: str
    reason: str


@dataclass(frozen=True, slots=True)
class Report:
    """The differences between two sides.

    Attributes:
        before: What the first side is called.
        after: What the second side is called.
        findings: In the first side's order, then the second's for what is only there.
        doubts: What could not be compared, where that is no difference by itself.
    """

    before: str
    after: str
    findings: tuple[Finding, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether there is no difference, as far as is known."""
        return not self.findings

    @property
    def breaking(self) -> tuple[Finding, ...]:
        """Return what breaks clients of the first side, in order."""
        return self.of(Severity.BREAKING)

    def of(self, severity: Severity) -> tuple[Finding, ...]:
        """Return the findings of a severity, in order."""
        return tuple(found for found in self.findings if found.severity == severity)
