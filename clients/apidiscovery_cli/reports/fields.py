"""Formats changes of fields as text, as JSON, and as Markdown."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from apidiscovery_client._terminal import printable
from apidiscovery_client.diffing import Severity
from apidiscovery_client.diffing.fields import (
    HEADINGS,
    ORDER,
    UNKNOWN,
    FieldLine,
    FieldSection,
    doubts_of,
    sections_of,
    severity_of,
    summary,
)
from apidiscovery_client.schema_diff import Change, Outcome, changes_json
from apidiscovery_client.schema_diff.model import worst
from apidiscovery_client.schemas import FieldChanges

from apidiscovery_cli.reports.diff import in_colour
from apidiscovery_cli.reports.forms import (
    Format,
    code,
    doubts_json,
    doubts_markdown,
    escaped,
    json_text,
    lines_text,
    markdown_text,
)

_MARKS = {Severity.BREAKING: "!", UNKNOWN: "?", Severity.COMPATIBLE: " "}


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
        return json_text(fields_json(report.found, changes))
    if form == "markdown":
        return _markdown(report, sections_of(changes))
    return _text(report, sections_of(changes), coloured=coloured)


def fields_json(found: FieldChanges, changes: Iterable[Change]) -> dict[str, object]:
    """Return some of the changes that were found, and what was not compared, as JSON."""
    document = changes_json(changes)
    if doubts := doubts_json(doubts_of(found)):
        document["notCompared"] = doubts
    return document


def change_lines(changes: Iterable[Change], limit: int) -> list[str]:
    """Return a line for each of the first changes, with its kind, and one that counts the others.

    Breaking changes come first, of them what writers of manifests meet: rejected, then pruned.
    """
    found = [(section.title, line) for section in sections_of(changes) for line in section.lines]
    found.sort(key=lambda pair: _rank(pair[1]))
    lines = [
        f"{_MARKS[line.severity]} {title} {line.place}: {line.words}"
        for title, line in found[:limit]
    ]
    more = len(found) - limit
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _rank(line: FieldLine) -> tuple[int, bool, int]:
    """Return what lines are sorted by: the severity, then how bad it is for writers.

    Manifests have no status, so fields of it come later.
    """
    verdicts = line.change.verdicts
    outcome = worst((verdicts.writer, verdicts.stored))
    is_status = line.change.path.partition(".")[0] == "status"
    return ORDER.index(line.severity), is_status, -tuple(Outcome).index(outcome)


def _text(report: FieldReport, sections: list[FieldSection], *, coloured: bool) -> str:
    lines = [printable(f"{report.before} -> {report.after}: {summary(report.found)}")]
    for section in sections:
        lines += ["", *_section_lines(section, coloured=coloured)]
    doubts = _doubt_lines(report.found)
    return lines_text([*lines, *(["", "not compared", *doubts] if doubts else [])])


def field_lines(found: FieldChanges) -> list[str]:
    """Return a line for each kind and change and for what was not compared, as text has them."""
    sections = [_section_lines(section, coloured=False) for section in sections_of(found.changes)]
    return [*chain.from_iterable(sections), *_doubt_lines(found)]


def _section_lines(section: FieldSection, *, coloured: bool) -> list[str]:
    lines = [printable(section.title)]
    for line in section.lines:
        text = f"{_MARKS[line.severity]} {line.place}: {line.words}"
        lines.append(in_colour(text, line.severity) if coloured else printable(text))
    return lines


def _doubt_lines(found: FieldChanges) -> list[str]:
    return [printable(f"? {subject}: {reason}") for subject, reason in doubts_of(found)]


def _markdown(report: FieldReport, sections: list[FieldSection]) -> str:
    title = f"# Field differences: {escaped(report.before)} → {escaped(report.after)}"
    paragraphs = [title, f"{summary(report.found).capitalize()}."]
    for section in sections:
        items = (
            f"- {HEADINGS[line.severity]}: `{code(line.place)}` {escaped(line.words)}"
            for line in section.lines
        )
        paragraphs += [f"## {escaped(section.title)}", "\n".join(items)]
    doubts = doubts_markdown("## Not compared", doubts_of(report.found))
    return markdown_text([*paragraphs, *doubts])
