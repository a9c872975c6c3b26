"""A report as text, JSON, Markdown or JUnit XML."""

import json
from collections.abc import Callable, Iterator, Mapping
from xml.sax.saxutils import escape, quoteattr

from apidiscovery_client._terminal import printable

from apidiscovery_cli.conformance.check import Check, CheckOutcome, Result
from apidiscovery_cli.conformance.running import Report


def text(report: Report) -> str:
    """Return the report for a terminal: failures with advice, then all checks by section."""
    return "\n".join([_summary(report), *_failures(report), *_all(report)]) + "\n"


def _summary(report: Report) -> str:
    counts = _counts(report)
    about = report.profile.value
    if report.release:
        about += f" {report.release}"
    about += f", aggregated {report.aggregated}" if report.aggregated else ", not aggregated"
    return (
        f"{printable(report.url)} ({printable(about)}): {counts['pass']} passed,"
        f" {counts['fail']} failed, {counts['skip']} skipped"
    )


def _counts(report: Report) -> dict[str, int]:
    return {outcome.value: len(report.of(outcome)) for outcome in CheckOutcome}


def _failures(report: Report) -> Iterator[str]:
    for result in report.of(CheckOutcome.FAIL):
        check = result.check
        yield ""
        yield f"FAIL {check.number}: {check.title}"
        for label, value in _details(result):
            yield f"  {label + ':':8} {printable(value)}"


def _details(result: Result) -> Iterator[tuple[str, str]]:
    if result.asked is not None:
        yield "request", str(result.asked)
    yield "seen", result.seen
    yield "wanted", result.wanted
    yield "why", result.check.why
    yield "advice", result.check.advice


def _all(report: Report) -> Iterator[str]:
    section = ""
    for result in report.results:
        if result.check.section != section:
            section = result.check.section
            yield ""
            yield section
        reason = f" ({result.seen})" if result.outcome is CheckOutcome.SKIP else ""
        number = f"{result.check.number:3}"
        yield f"  {result.outcome.value}{number}  {result.check.title}{printable(reason)}"


def as_json(report: Report) -> str:
    """Return the report as JSON."""
    value: dict[str, object] = {
        "url": report.url,
        "profile": report.profile.value,
        "release": report.release,
        "aggregated": report.aggregated,
        "passed": report.passed,
        "counts": _counts(report),
        "requests": report.requests,
        "seconds": round(report.took_s, 3),
        "checks": [_json_result(result) for result in report.results],
    }
    return json.dumps(value, indent=2) + "\n"


def _json_result(result: Result) -> dict[str, object]:
    value: dict[str, object] = {
        "number": result.check.number,
        "title": result.check.title,
        "section": result.check.section,
        "outcome": result.outcome.value,
    }
    if result.outcome is CheckOutcome.SKIP:
        value["reason"] = result.seen
    if result.outcome is CheckOutcome.FAIL:
        value |= dict(_details(result))
    return value


def markdown(report: Report) -> str:
    """Return the report as Markdown: a table, then the failures."""
    rows = [
        f"| {one.check.number} | {_cell(one.check.title)} | {one.outcome.value} |"
        for one in report.results
    ]
    lines = ["# Discovery conformance", "", _cell(_summary(report)), ""]
    lines += ["| check | what passes | outcome |", "|---|---|---|", *rows]
    for result in report.of(CheckOutcome.FAIL):
        lines += ["", f"## {result.check.number}: {_cell(result.check.title)}", ""]
        lines += [f"- {label}: {_cell(value)}" for label, value in _details(result)]
    return "\n".join(lines) + "\n"


def _cell(value: str) -> str:
    """Return text escaped for a cell of a table."""
    return escape(printable(value)).replace("|", "\\|")


def junit(report: Report) -> str:
    """Return the report as JUnit XML, which CI systems show."""
    counts = _counts(report)
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines.append(
        f'<testsuite name="discovery conformance" tests="{len(report.results)}"'
        f' failures="{counts["fail"]}" skipped="{counts["skip"]}" time="{report.took_s:.3f}">'
    )
    lines += [line for result in report.results for line in _test_case(result)]
    return "\n".join([*lines, "</testsuite>"]) + "\n"


def _test_case(result: Result) -> Iterator[str]:
    check = result.check
    name = quoteattr(f"{check.number}: {check.title}")
    yield f"  <testcase classname={quoteattr(check.section)} name={name} time={_time(result)}>"
    if result.outcome is CheckOutcome.SKIP:
        yield f"    <skipped message={quoteattr(printable(result.seen))}/>"
    if result.outcome is CheckOutcome.FAIL:
        lines = (f"{label}: {printable(value)}" for label, value in _details(result))
        message = quoteattr(printable(result.seen))
        yield f"    <failure message={message}>{escape(chr(10).join(lines))}</failure>"
    yield "  </testcase>"


def _time(result: Result) -> str:
    return f'"{result.took_s:.3f}"'


def listed(checks: tuple[Check, ...]) -> str:
    """Return the list of checks by section."""
    lines: list[str] = []
    section = ""
    for check in checks:
        if check.section != section:
            section = check.section
            lines += [*([""] if lines else []), section]
        lines += [f"{check.number:4}  {check.title}", f"      {check.why}"]
    return "\n".join(lines) + "\n"


FORMATS: Mapping[str, Callable[[Report], str]] = {
    "text": text,
    "json": as_json,
    "markdown": markdown,
    "junit": junit,
}
