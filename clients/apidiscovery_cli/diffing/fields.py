"""Formats changes of fields as text, as JSON, and as Markdown."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast

from apidiscovery_client._terminal import printable
from apidiscovery_client.schema_diff import Change, Outcome, changes_json
from apidiscovery_client.schema_diff.model import worst
from apidiscovery_client.schemas import FieldChanges

from apidiscovery_cli.diffing.findings import Severity
from apidiscovery_cli.diffing.rendering import PLAIN, Format, code, colour_of, escaped

_UNKNOWN = "unknown"
_MAX_VALUE = 60  # characters of a value in a line
_MAX_ITEMS = 8  # new and old items of a list in a line
_HEADINGS = {Severity.BREAKING: "breaking", _UNKNOWN: "not decided", Severity.COMPATIBLE: "other"}
_MARKS = {Severity.BREAKING: "!", _UNKNOWN: "?", Severity.COMPATIBLE: " "}
_ORDER = tuple(_MARKS)


@dataclass(frozen=True, slots=True)
class FieldReport:
    """The changes of fields between two sides.

    Attributes:
        before: The name of the first side.
        after: The name of the second side.
        found: What is different.
    """

    before: str
    after: str
    found: FieldChanges

    def of(self, *, breaking_only: bool) -> tuple[Change, ...]:
        """Return the changes; with `breaking_only` those that break somebody or may."""
        changes = self.found.changes
        if not breaking_only:
            return changes
        return tuple(one for one in changes if severity_of(one) != Severity.COMPATIBLE)


def severity_of(change: Change) -> str:
    """Return `breaking`, `unknown` where something is undecided and nothing broken, `compatible`.

    What breaks is rejected, pruned or defaulted differently, absent or different for readers, or
    has other owners.
    """
    verdicts = change.verdicts
    if verdicts.breaks:
        return Severity.BREAKING
    return _UNKNOWN if verdicts.has_unknown else Severity.COMPATIBLE


def render_fields(
    report: FieldReport, form: Format, *, breaking_only: bool = False, coloured: bool = False
) -> str:
    """Return the report as text that ends with a line feed.

    Args:
        report: What was found.
        form: `text` and `markdown` have a section for each kind and a line for each change, which
            several versions may share; `json` has `changes` as docs/schema-diff.md describes them,
            and `notCompared` where something could not be.
        breaking_only: Whether to leave out changes that break nobody.
        coloured: Whether to colour text with ANSI escapes.
    """
    changes = report.of(breaking_only=breaking_only)
    if form == "json":
        return _json(report, changes)
    return _WRITERS[form](report, _sections(changes), coloured)


def _json(report: FieldReport, changes: Iterable[Change]) -> str:
    document = changes_json(changes)
    doubts = [{"subject": subject, "reason": reason} for subject, reason in _doubts(report)]
    if doubts:
        document["notCompared"] = doubts
    return json.dumps(document, indent=2) + "\n"


@dataclass(frozen=True, slots=True)
class _Line:
    """A change, with all versions that have it."""

    severity: str
    versions: tuple[str, ...]
    change: Change


@dataclass(frozen=True, slots=True)
class _Section:
    """The changes of a kind, breaking ones first."""

    title: str
    lines: tuple[_Line, ...]

    @property
    def rank(self) -> int:
        return min(_ORDER.index(line.severity) for line in self.lines)


def _sections(changes: Iterable[Change]) -> list[_Section]:
    """Return a section for each kind; those with breaking changes come first."""
    kinds = dict[tuple[str, str], dict[object, list[Change]]]()
    for change in changes:
        same = (change.path, change.change, json.dumps([change.before, change.after]))
        kinds.setdefault((change.group, change.kind), {}).setdefault(
            (*same, change.verdicts), []
        ).append(change)
    sections = [
        _Section(" ".join(filter(None, (group, kind))), _lines(several.values()))
        for (group, kind), several in kinds.items()
    ]
    return sorted(sections, key=lambda section: section.rank)


def _lines(several: Iterable[list[Change]]) -> tuple[_Line, ...]:
    lines = [
        _Line(severity_of(same[0]), tuple(one.version for one in same), same[0]) for same in several
    ]
    return tuple(sorted(lines, key=lambda line: _ORDER.index(line.severity)))


def change_lines(changes: Iterable[Change], limit: int) -> list[str]:
    """Return a line for each of the first changes, with its kind, and one that counts the others.

    Breaking changes come first, of them what writers of manifests meet: rejected, then pruned.
    """
    told = [(section.title, line) for section in _sections(changes) for line in section.lines]
    told.sort(key=lambda pair: _rank(pair[1]))
    lines = [f"{_MARKS[line.severity]} {title} {_told(line)}" for title, line in told[:limit]]
    more = len(told) - limit
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _rank(line: _Line) -> tuple[int, int]:
    """Return what lines are sorted by: the severity, then how bad it is for writers."""
    verdicts = line.change.verdicts
    outcome = worst((verdicts.writer, verdicts.stored))
    return _ORDER.index(line.severity), -tuple(Outcome).index(outcome)


def _text(report: FieldReport, sections: list[_Section], coloured: bool) -> str:  # noqa: FBT001
    lines = [printable(f"{report.before} -> {report.after}: {_summary(report)}")]
    for section in sections:
        lines += ["", printable(section.title)]
        for line in section.lines:
            colour = colour_of(line.severity) if coloured else ""
            told = printable(f"{_MARKS[line.severity]} {_told(line)}")
            lines.append(f"{colour}{told}{PLAIN}" if colour else told)
    doubts = [printable(f"? {subject}: {reason}") for subject, reason in _doubts(report)]
    lines += ["", "not compared", *doubts] if doubts else []
    return "".join(f"{line}\n" for line in lines)


def _markdown(report: FieldReport, sections: list[_Section], coloured: bool) -> str:  # noqa: FBT001
    del coloured
    title = f"# Field differences: {escaped(report.before)} → {escaped(report.after)}"
    paragraphs = [title, f"{_summary(report).capitalize()}."]
    for section in sections:
        items = (
            f"- {_HEADINGS[line.severity]}: `{code(_place(line))}` {escaped(_said(line))}"
            for line in section.lines
        )
        paragraphs += [f"## {escaped(section.title)}", "\n".join(items)]
    if doubts := list(_doubts(report)):
        items = (f"- `{code(subject)}`: {escaped(reason)}" for subject, reason in doubts)
        paragraphs += ["## Not compared", "\n".join(items)]
    return "\n\n".join(paragraphs) + "\n"


def _summary(report: FieldReport) -> str:
    changes = report.found.changes
    severities = [severity_of(one) for one in changes]
    counts = [(severities.count(one), _HEADINGS[one]) for one in _ORDER]
    told = ", ".join(f"{count} {name}" for count, name in counts if count)
    kinds = len({(one.group, one.kind) for one in changes})
    return f"{told} in {kinds} kind{'s' if kinds != 1 else ''}" if told else "no differences"


def _told(line: _Line) -> str:
    return f"{_place(line)}: {_said(line)}"


def _place(line: _Line) -> str:
    versions = ",".join(filter(None, line.versions))
    return " ".join(filter(None, (versions, line.change.path))) or "the definition"


def _said(line: _Line) -> str:
    change = line.change
    parts = [f"{change.change}{_values(change)}", *_verdicts(change)]
    if change.verdicts.has_unknown:
        parts.append(change.verdicts.reason)
    return "; ".join(parts)


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


def _doubts(report: FieldReport) -> Iterator[tuple[str, str]]:
    yield from report.found.failures.items()
    if groups := report.found.uncovered:
        yield ", ".join(groups), "a release does not tell of groups that Kubernetes does not have"


_WRITERS: Mapping[str, Callable[[FieldReport, list[_Section], bool], str]] = {
    "text": _text,
    "markdown": _markdown,
}
