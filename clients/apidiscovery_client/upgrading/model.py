"""The steps before an upgrade, and their urgency."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from apidiscovery_client.schema_diff import Change


class Urgency(StrEnum):
    """When a step is due, the most urgent first."""

    FIRST = "first"  # something fails now, or is certain to fail with the release
    BEFORE = "before"  # it may fail with the release; look at it before the upgrade
    LATER = "later"  # this release does not break it, a later one does


class Rule(StrEnum):
    """Kinds of steps, in the order of doing them."""

    WEBHOOK_DOWN = "webhook-down"
    API_SERVICE_DOWN = "api-service-down"
    REMOVED_API_CALLED = "removed-api-called"
    STORED_VERSION = "stored-version"
    STORAGE_VERSION_LAGS = "storage-version-lags"
    STALE_DISCOVERY = "stale-discovery"
    REMOVED_API = "removed-api"
    API_OFF = "api-off"
    FIELDS_CHANGED = "fields-changed"
    DEPRECATED_API_CALLED = "deprecated-api-called"
    DEPRECATED_API = "deprecated-api"

    @property
    def urgency(self) -> Urgency:
        """The urgency of its steps."""
        return _URGENCIES.get(self, Urgency.BEFORE)


_URGENCIES = {
    Rule.WEBHOOK_DOWN: Urgency.FIRST,
    Rule.API_SERVICE_DOWN: Urgency.FIRST,
    Rule.REMOVED_API_CALLED: Urgency.FIRST,
    Rule.DEPRECATED_API_CALLED: Urgency.LATER,
    Rule.DEPRECATED_API: Urgency.LATER,
}
_ORDER = tuple(Rule)


@dataclass(frozen=True, slots=True)
class Step:
    """A step before an upgrade.

    Attributes:
        subject: What it is about, such as `policy/v1beta1 PodSecurityPolicy`.
        message: Why, in one line.
        command: A command for a POSIX shell that does it, or shows what is to be changed; names
            from the server are quoted in it.
    """

    rule: Rule
    subject: str
    message: str
    command: str

    @property
    def urgency(self) -> Urgency:
        """The urgency of the rule."""
        return self.rule.urgency

    @property
    def rank(self) -> tuple[int, str]:
        """The sort key of steps: the rule, then the subject."""
        return _ORDER.index(self.rule), self.subject


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps before a cluster is upgraded.

    Attributes:
        name: Of the cluster.
        release: That it runs, such as `1.31`; empty where it is not known.
        target: The release that it is upgraded to.
        steps: The most urgent first.
        fields: Changes of fields of built-in kinds between the releases that break somebody or may;
            those that break come first.
        unread: Why something could not be read, in one line, by what it is.
    """

    name: str
    release: str
    target: str
    steps: tuple[Step, ...]
    fields: tuple[Change, ...]
    unread: Mapping[str, str]

    def of(self, urgency: Urgency) -> tuple[Step, ...]:
        """Return the steps of an urgency, in order."""
        return tuple(step for step in self.steps if step.urgency == urgency)
