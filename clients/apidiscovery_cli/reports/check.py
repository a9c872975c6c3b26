"""Formats findings about manifests as text, as JSON, and as Markdown."""

from collections.abc import Iterator, Sequence

from apidiscovery_client._terminal import printable
from apidiscovery_client.checking import Checked, Finding, Severity

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

KIND = "ManifestCheck"

_SHOWN = (Severity.ERROR, Severity.WARNING)


def render_check(checked: Checked, form: Format, *, errors_only: bool = False) -> str:
    """Return what was found as text that ends with a line feed.

    Args:
        checked: What was found.
        form: `text` has a line for each error and warning, which begins with file and line; `json`
            is one object with `apiVersion` and `kind`, and has what is undecided too; `markdown`
            has a table.
        errors_only: Whether to leave out warnings; they are still counted.
    """
    severities = (Severity.ERROR,) if errors_only else tuple(Severity)
    findings = [one for one in checked.findings if one.severity in severities]
    if form == "json":
        return _json(checked, findings)
    return _markdown(checked, findings) if form == "markdown" else _text(checked, findings)


def _text(checked: Checked, findings: Sequence[Finding]) -> str:
    lines = [printable(f"{_place(one)}: {one.severity}: {_words(one)}") for one in _shown(findings)]
    lines += [printable(f"? {name}: not checked: {why}") for name, why in checked.unchecked.items()]
    lines.append(printable(f"{checked.against}: {_summary(checked)}"))
    return lines_text(lines)


def _json(checked: Checked, findings: Sequence[Finding]) -> str:
    return json_text(
        {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "against": checked.against,
            "objects": checked.objects,
            "counts": {str(severity): len(checked.of(severity)) for severity in Severity},
            "findings": [_fields(one) for one in findings],
            "notChecked": doubts_json(checked.unchecked.items()),
        }
    )


def _fields(found: Finding) -> dict[str, object]:
    always: dict[str, object] = {
        "severity": str(found.severity),
        "rule": str(found.rule),
        "file": found.path,
        "line": found.line,
    }
    optional = {
        "source": found.source,
        "apiVersion": found.api_version,
        "kind": found.kind,
        "namespace": found.namespace,
        "name": found.name,
        "field": found.field,
        "message": found.message,
        "until": found.until,
        "replacedBy": found.replaced_by,
    }
    return always | {key: value for key, value in optional.items() if value}


def _markdown(checked: Checked, findings: Sequence[Finding]) -> str:
    title = f"# Manifests for {escaped(checked.against)}"
    paragraphs = [title, f"{escaped(_summary(checked)).capitalize()}."]
    if rows := [_row(one) for one in _shown(findings)]:
        paragraphs.append("\n".join(["| | Place | Object | Finding |", "|---|---|---|---|", *rows]))
    doubts = doubts_markdown("## Not checked", checked.unchecked.items())
    return markdown_text([*paragraphs, *doubts])


def _row(found: Finding) -> str:
    said = f"{escaped(found.message)} ({found.rule})"
    field = f"`{code(found.field)}`: " if found.field else ""
    cells = (str(found.severity), f"`{code(_place(found))}`", escaped(_object(found)), field + said)
    return f"| {' | '.join(cells)} |"


def _shown(findings: Sequence[Finding]) -> Iterator[Finding]:
    return (one for one in findings if one.severity in _SHOWN)


def _place(found: Finding) -> str:
    source = f" ({found.source})" if found.source else ""
    return f"{found.path}:{found.line}{source}"


def _words(found: Finding) -> str:
    parts = filter(None, (_object(found), found.field))
    return f"{': '.join([*parts, found.message])} [{found.rule}]"


def _object(found: Finding) -> str:
    name = "/".join(filter(None, (found.namespace, found.name)))
    return " ".join(filter(None, (found.api_version, found.kind, name)))


def _summary(checked: Checked) -> str:
    counted = [
        _count(len(checked.of(severity)), str(severity))
        for severity in _SHOWN
        if checked.of(severity)
    ]
    found = ", ".join(counted) or "nothing found"
    undecided = len(checked.of(Severity.UNDECIDED))
    if undecided:
        found += f", {_count(undecided, 'rule')} not evaluated (-o json lists them)"
    return f"{_count(checked.objects, 'object')}, {found}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
