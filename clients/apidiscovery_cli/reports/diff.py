"""Formats differences between two sides as text, as JSON, and as Markdown."""

from collections.abc import Sequence

from apidiscovery_client._terminal import printable
from apidiscovery_client.diffing.findings import Finding, Report, Severity

from apidiscovery_cli.reports.forms import (
    API_VERSION,
    Format,
    code,
    doubts_json,
    doubts_markdown,
    escaped,
    json_text,
    lines_text,
    markdown_text,
)

KIND = "DiscoveryDiff"

_HEADINGS = {
    Severity.BREAKING: "Breaking",
    Severity.COMPATIBLE: "Compatible",
    Severity.INFO: "For information",
}
_MARKS = {Severity.BREAKING: "!", Severity.COMPATIBLE: "+", Severity.INFO: " "}
_COLOURS = {"breaking": "\x1b[31m", "compatible": "\x1b[32m"}
_PLAIN = "\x1b[0m"


def render(
    report: Report, form: Format, *, breaking_only: bool = False, coloured: bool = False
) -> str:
    """Return the report as text that ends with a line feed.

    Args:
        report: What was found.
        form: `text` has a line for each finding, beginning with `!` where it breaks; `json` is one
            object with `apiVersion` and `kind`; `markdown` has a list for each severity.
        breaking_only: Whether to leave out findings that break nothing; they are still counted.
        coloured: Whether to colour text with ANSI escapes.
    """
    findings = report.breaking if breaking_only else report.findings
    if form == "json":
        return _json(report, findings)
    if form == "markdown":
        return _markdown(report, findings)
    return _text(report, findings, coloured=coloured)


def _text(report: Report, findings: Sequence[Finding], *, coloured: bool) -> str:
    lines = [printable(f"{report.before} -> {report.after}: {report.summary}")]
    for found in findings:
        line = f"{_MARKS[found.severity]} {found.subject}: {found.message} [{found.rule}]"
        lines.append(in_colour(line, found.severity) if coloured else printable(line))
    lines += [printable(f"? {doubt.subject}: {doubt.reason}") for doubt in report.doubts]
    return lines_text(lines)


def in_colour(line: str, severity: str) -> str:
    """Return a line in the colour of a severity, safe for a terminal."""
    colour = _COLOURS.get(severity)
    return f"{colour}{printable(line)}{_PLAIN}" if colour else printable(line)


def _json(report: Report, findings: Sequence[Finding]) -> str:
    return json_text(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "before": report.before,
            "after": report.after,
            "same": report.is_same,
            "counts": {str(severity): len(report.of(severity)) for severity in Severity},
            "findings": [finding_fields(found) for found in findings],
            "doubts": doubts_json((one.subject, one.reason) for one in report.doubts),
        }
    )


def finding_fields(found: Finding) -> dict[str, object]:
    """Return a finding as JSON, without what is empty."""
    fields: dict[str, object] = {
        "severity": str(found.severity),
        "rule": str(found.rule),
        "subject": found.subject,
        "message": found.message,
    }
    more = {"before": found.before, "after": found.after, "movesTo": list(found.moves_to)}
    return fields | {key: value for key, value in more.items() if value}


def _markdown(report: Report, findings: Sequence[Finding]) -> str:
    title = f"# API differences: {escaped(report.before)} → {escaped(report.after)}"
    paragraphs = [title, f"{report.summary.capitalize()}."]
    for severity, heading in _HEADINGS.items():
        items = [
            f"- `{code(one.subject)}`: {escaped(one.message)} ({one.rule})"
            for one in findings
            if one.severity == severity
        ]
        if items:
            paragraphs += [f"## {heading}", "\n".join(items)]
    doubts = ((one.subject, one.reason) for one in report.doubts)
    return markdown_text([*paragraphs, *doubts_markdown("## Not compared", doubts)])
