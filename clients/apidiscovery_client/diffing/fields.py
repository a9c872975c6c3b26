"""Changes of fields by kind, breaking ones first, and each in words."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import cast

from apidiscovery_client.diffing.findings import Severity
from apidiscovery_client.schema_diff import Change
from apidiscovery_client.schemas import FieldChanges

UNKNOWN = "unknown"  # the severity of what cannot be decided
HEADINGS = {Severity.BREAKING: "breaking", UNKNOWN: "not decided", Severity.COMPATIBLE: "other"}
ORDER: tuple[str, ...] = tuple(HEADINGS)  # of severities, the worst first

_MAX_VALUE = 60  # characters of a value in a line
_MAX_ITEMS = 8  # new and old items of a list in a line


def severity_of(change: Change) -> str:
    """Return `breaking`, `unknown` where something is undecided and nothing broken, `compatible`.

    What breaks is rejected, pruned or defaulted differently, absent or different for readers, or
    has other owners.
    """
    verdicts = change.verdicts
    if verdicts.breaks:
        return Severity.BREAKING
    return UNKNOWN if verdicts.has_unknown else Severity.COMPATIBLE


@dataclass(frozen=True, slots=True)
class FieldLine:
    """A change, with all versions that have it."""

    severity: str
    versions: tuple[str, ...]
    change: Change

    @property
    def place(self) -> str:
        """The versions and the path of the field, such as `v1,v1beta1 spec.size`."""
        versions = ",".join(filter(None, self.versions))
        return " ".join(filter(None, (versions, self.change.path))) or "the definition"

    @property
    def words(self) -> str:
        """What has changed, for whom it is not fine, and what is undecided; one line."""
        change = self.change
        parts = [f"{change.change}{_values(change)}", *_verdicts(change)]
        if change.verdicts.has_unknown:
            parts.append(change.verdicts.reason)
        return "; ".join(parts)


@dataclass(frozen=True, slots=True)
class FieldSection:
    """The changes of a kind, breaking ones first."""

    group: str
    kind: str
    lines: tuple[FieldLine, ...]

    @property
    def title(self) -> str:
        """The group, unless it is the core group, and the kind."""
        return " ".join(filter(None, (self.group, self.kind)))

    @property
    def rank(self) -> int:
        """The place of its worst severity in `ORDER`."""
        return min(ORDER.index(line.severity) for line in self.lines)


def sections_of(changes: Iterable[Change]) -> list[FieldSection]:
    """Return a section for each kind; those with breaking changes come first."""
    kinds = dict[tuple[str, str], dict[object, list[Change]]]()
    for change in changes:
        same = (change.path, change.change, json.dumps([change.before, change.after]))
        kinds.setdefault((change.group, change.kind), {}).setdefault(
            (*same, change.verdicts), []
        ).append(change)
    sections = [
        FieldSection(group, kind, _lines(several.values()))
        for (group, kind), several in kinds.items()
    ]
    return sorted(sections, key=lambda section: section.rank)


def _lines(several: Iterable[list[Change]]) -> tuple[FieldLine, ...]:
    lines = [
        FieldLine(severity_of(same[0]), tuple(one.version for one in same), same[0])
        for same in several
    ]
    return tuple(sorted(lines, key=lambda line: ORDER.index(line.severity)))


def summary(found: FieldChanges) -> str:
    """Return how many changes there are of each severity, and in how many kinds."""
    changes = found.changes
    severities = [severity_of(one) for one in changes]
    counts = [(severities.count(one), HEADINGS[one]) for one in ORDER]
    told = ", ".join(f"{count} {name}" for count, name in counts if count)
    kinds = len({(one.group, one.kind) for one in changes})
    return f"{told} in {kinds} kind{'s' if kinds != 1 else ''}" if told else "no differences"


def _verdicts(change: Change) -> Iterator[str]:
    """Yield for whom it is not fine."""
    verdicts = change.verdicts
    for who in ("writer", "reader", "stored", "applier"):
        verdict = str(getattr(verdicts, who))
        if verdict != "fine":
            yield f"{who} {verdict}"


def _values(change: Change) -> str:
    """Return the old and the new value in short; of schemas nothing, of switches nothing."""
    values = [change.before, change.after]
    if schemas := [cast("dict[str, object]", one) for one in values if isinstance(one, dict)]:
        rules = (schema.get("rule") for schema in schemas)
        text = next((rule for rule in rules if isinstance(rule, str)), "")
        return f" {_short(text)}" if text else ""
    if change.change.startswith("required-") or change.path == "":
        return ""
    if all(isinstance(one, list) for one in values):
        return _differing(change.before, change.after)
    if change.change.endswith("-added"):
        return f" {_short(change.after)}"
    if change.change.endswith("-removed"):
        return f" {_short(change.before)}"
    return f" {_short(change.before)} -> {_short(change.after)}"


def _differing(before: object, after: object) -> str:
    """Return which items of two lists are new and which are gone."""
    old, new = (
        {_short(item): None for item in cast("list[object]", side)} for side in (before, after)
    )
    told = [*(f"+{item}" for item in new if item not in old)]
    told += [f"-{item}" for item in old if item not in new]
    return (
        f" {' '.join(told[:_MAX_ITEMS])}{' ...' if len(told) > _MAX_ITEMS else ''}" if told else ""
    )


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."


def doubts_of(found: FieldChanges) -> Iterator[tuple[str, str]]:
    """Yield what could not be compared, and why."""
    yield from found.failures.items()
    if groups := found.uncovered:
        yield ", ".join(groups), "a release does not tell of groups that Kubernetes does not have"
