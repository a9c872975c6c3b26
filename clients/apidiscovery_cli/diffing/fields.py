"""Formats changes of fields as text, as JSON, and as Markdown."""

import json
from collections.abc import Callable, Iterable, Mapping
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

from apidiscovery_cli.diffing.rendering import PLAIN, Format, code, colour_of, escaped

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
        return _json(report, changes)
    return _WRITERS[form](report, sections_of(changes), coloured)


def _json(report: FieldReport, changes: Iterable[Change]) -> str:
    return json.dumps(fields_json(report.found, changes), indent=2) + "\n"


def fields_json(found: FieldChanges, changes: Iterable[Change]) -> dict[str, object]:
    """Return some of the changes that were found, and what was not compared, as JSON."""
    document = changes_json(changes)
    doubts = [{"subject": subject, "reason": reason} for subject, reason in doubts_of(found)]
    if doubts:
        document["notCompared"] = doubts
    return document


def change_lines(changes: Iterable[Change], limit: int) -> list[str]:
    """Return a line for each of the first changes, with its kind, and one that counts the others.

    Breaking changes come first, of them what writers of manifests meet: rejected, then pruned.
    """
    told = [(section.title, line) for section in sections_of(changes) for line in section.lines]
    told.sort(key=lambda pair: _rank(pair[1]))
    lines = [
        f"{_MARKS[line.severity]} {title} {line.place}: {line.words}"
        for title, line in told[:limit]
    ]
    more = len(told) - limit
    return [*lines, f"  and {more} more"] if more > 0 else lines


def _rank(line: FieldLine) -> tuple[int, int]:
    """Return what lines are sorted by: the severity, then how bad it is for writers."""
    verdicts = line.change.verdicts
    outcome = worst((verdicts.writer, verdicts.stored))
    return ORDER.index(line.severity), -tuple(Outcome).index(outcome)


def _text(report: FieldReport, sections: list[FieldSection], coloured: bool) -> str:  # noqa: FBT001
    lines = [printable(f"{report.before} -> {report.after}: {summary(report.found)}")]
    for section in sections:
        lines += ["", *_section_lines(section, coloured=coloured)]
    doubts = _doubt_lines(report.found)
    lines += ["", "not compared", *doubts] if doubts else []
    return "".join(f"{line}\n" for line in lines)


def field_lines(found: FieldChanges) -> list[str]:
    """Return a line for each kind and change and for what was not compared, as text has them."""
    sections = [_section_lines(section, coloured=False) for section in sections_of(found.changes)]
    return [*chain.from_iterable(sections), *_doubt_lines(found)]


def _section_lines(section: FieldSection, *, coloured: bool) -> list[str]:
    lines = [printable(section.title)]
    for line in section.lines:
        colour = colour_of(line.severity) if coloured else ""
        told = printable(f"{_MARKS[line.severity]} {line.place}: {line.words}")
        lines.append(f"{colour}{told}{PLAIN}" if colour else told)
    return lines


def _doubt_lines(found: FieldChanges) -> list[str]:
    return [printable(f"? {subject}: {reason}") for subject, reason in doubts_of(found)]


def _markdown(report: FieldReport, sections: list[FieldSection], coloured: bool) -> str:  # noqa: FBT001
    del coloured
    title = f"# Field differences: {escaped(report.before)} → {escaped(report.after)}"
    paragraphs = [title, f"{summary(report.found).capitalize()}."]
    for section in sections:
        items = (
            f"- {HEADINGS[line.severity]}: `{code(line.place)}` {escaped(line.words)}"
            for line in section.lines
        )
        paragraphs += [f"## {escaped(section.title)}", "\n".join(items)]
    if doubts := list(doubts_of(report.found)):
        items = (f"- `{code(subject)}`: {escaped(reason)}" for subject, reason in doubts)
        paragraphs += ["## Not compared", "\n".join(items)]
    return "\n\n".join(paragraphs) + "\n"


_WRITERS: Mapping[str, Callable[[FieldReport, list[FieldSection], bool], str]] = {
    "text": _text,
    "markdown": _markdown,
}
