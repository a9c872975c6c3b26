"""Formats a report as text, as JSON, and as Markdown for a comment on a change."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from apidiscovery_client._terminal import printable
from apidiscovery_client.diffing.findings import Finding, Report, Severity

API_VERSION = "apidiscovery/v1"
KIND = "DiscoveryDiff"

Format: TypeAlias = Literal["text", "json", "markdown"]

_HEADINGS = {
    Severity.BREAKING: "Breaking",
    Severity.COMPATIBLE: "Compatible",
    Severity.INFO: "For information",
}
_MARKS = {Severity.BREAKING: "!", Severity.COMPATIBLE: "+", Severity.INFO: " "}
_COLOURS = {Severity.BREAKING: "\x1b[31m", Severity.COMPATIBLE: "\x1b[32m", Severity.INFO: ""}
PLAIN = "\x1b[0m"
# Markup of Markdown in the middle of a line.
_MARKDOWN = str.maketrans({char: f"\\{char}" for char in "\\`*_[]<>|#"})


@dataclass(frozen=True, slots=True)
class _Choice:
    breaking_only: bool
    coloured: bool

    def of(self, report: Report) -> tuple[Finding, ...]:
        return report.breaking if self.breaking_only else report.findings


def render(
    report: Report,
    form: Format,
    *,
    breaking_only: bool = False,
    coloured: bool = False,
) -> str:
    """Return the report as text that ends with a line feed.

    Args:
        report: What was found.
        form: `text` has a line for each finding, beginning with `!` where it breaks; `json` is one
            object with `apiVersion` and `kind`; `markdown` has a list for each severity.
        breaking_only: Whether to leave out findings that break nothing; they are still counted.
        coloured: Whether to colour text with ANSI escapes.
    """
    return _WRITERS[form](report, _Choice(breaking_only, coloured))


def _text(report: Report, choice: _Choice) -> str:
    lines = [printable(f"{report.before} -> {report.after}: {report.summary}")]
    lines += [_line(found, coloured=choice.coloured) for found in choice.of(report)]
    lines += [printable(f"? {doubt.subject}: {doubt.reason}") for doubt in report.doubts]
    return "".join(f"{line}\n" for line in lines)


def _line(found: Finding, *, coloured: bool) -> str:
    line = printable(f"{_MARKS[found.severity]} {found.subject}: {found.message} [{found.rule}]")
    colour = _COLOURS[found.severity] if coloured else ""
    return f"{colour}{line}{PLAIN}" if colour else line


def _json(report: Report, choice: _Choice) -> str:
    document = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "before": report.before,
        "after": report.after,
        "same": report.is_same,
        "counts": {str(severity): len(report.of(severity)) for severity in Severity},
        "findings": [finding_fields(found) for found in choice.of(report)],
        "doubts": [{"subject": one.subject, "reason": one.reason} for one in report.doubts],
    }
    return json.dumps(document, indent=2) + "\n"


def finding_fields(found: Finding) -> dict[str, object]:
    """Return a finding as JSON, without what is empty."""
    fields: dict[str, object] = {
        "severity": str(found.severity),
        "rule": str(found.rule),
        "subject": found.subject,
        "message": found.message,
    }
    told = {"before": found.before, "after": found.after, "movesTo": list(found.moves_to)}
    return fields | {key: value for key, value in told.items() if value}


def _markdown(report: Report, choice: _Choice) -> str:
    title = f"# API differences: {escaped(report.before)} → {escaped(report.after)}"
    paragraphs = [title, f"{report.summary.capitalize()}."]
    for severity, heading in _HEADINGS.items():
        found = [one for one in choice.of(report) if one.severity == severity]
        if found:
            paragraphs += [f"## {heading}", "\n".join(_items(found))]
    if report.doubts:
        items = (f"- `{code(one.subject)}`: {escaped(one.reason)}" for one in report.doubts)
        paragraphs += ["## Not compared", "\n".join(items)]
    return "\n\n".join(paragraphs) + "\n"


def _items(found: list[Finding]) -> Iterator[str]:
    for one in found:
        yield f"- `{code(one.subject)}`: {escaped(one.message)} ({one.rule})"


def colour_of(severity: str) -> str:
    """Return the ANSI escape that begins a line of a severity; empty for none."""
    return {str(known): colour for known, colour in _COLOURS.items()}.get(severity, "")


def escaped(text: str) -> str:
    """Return text for a line of Markdown, without markup."""
    return printable(text).translate(_MARKDOWN)


def code(text: str) -> str:
    """Return text for a code span, without the backquotes that would end it."""
    return printable(text).replace("`", "'")


_WRITERS: Mapping[Format, Callable[[Report, _Choice], str]] = {
    "text": _text,
    "json": _json,
    "markdown": _markdown,
}
FORMATS: tuple[Format, ...] = tuple(_WRITERS)
