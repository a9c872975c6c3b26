"""Two sides compared: what breaks for clients of the first when they meet the second."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlencode

from apidiscovery_client import DiscoveryError as ClientError
from apidiscovery_client.diffing import Finding, Report, Severity
from apidiscovery_client.diffing.fields import FieldSection, doubts_of, sections_of, summary
from apidiscovery_client.schemas import FieldChanges

from apidiscovery_service import workers
from apidiscovery_service.web.comparing import compare_discovery, compare_fields
from apidiscovery_service.web.comparing_sides import (
    Side,
    choices,
    discovery_of,
    fields_of,
    parse_side,
)
from apidiscovery_service.web.view import Page, PageError, View
from apidiscovery_service.workers import WorkerFailed

_HEADINGS = {
    Severity.BREAKING: "Breaking",
    Severity.INFO: "For information",
    Severity.COMPATIBLE: "Compatible",
}
_IN_THREAD_BYTES = 2 * 2**20  # of the documents of both sides: compared in 0.2 s
_MAX_SECTIONS = 300
_EXAMPLES = 6


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison found.

    Attributes:
        summary: How much, in one line.
        parts: Differences of discovery by severity, breaking ones first, then by subject.
        kinds: Differences of fields by kind, breaking ones first.
        more_kinds: How many kinds are not shown.
        doubts: What could not be compared, and why.
    """

    summary: str
    parts: Mapping[Severity, Mapping[str, Sequence[Finding]]] = field(
        default_factory=dict[Severity, Mapping[str, Sequence[Finding]]]
    )
    kinds: tuple[FieldSection, ...] = ()
    more_kinds: int = 0
    doubts: tuple[tuple[str, str], ...] = ()


async def page(view: View) -> Page:
    """Make the page: the form, and the comparison once both sides are named."""
    before, after = view.parameter("from"), view.parameter("to")
    wants_fields = view.flag("fields")
    status, error, compared = HTTPStatus.OK, "", None
    if before and after:
        try:
            compared = await _compared(view, before, after, wants_fields=wants_fields)
        except PageError as problem:
            status, error = problem.status, str(problem)
    values = {
        "before": before,
        "after": after,
        "wants_fields": wants_fields,
        "choices": choices(view),
        "examples": [] if before or after else _examples(view),
        "error": error,
        "compared": compared,
        "headings": _HEADINGS,
        "swapped": _query(after, before, wants_fields=wants_fields),
        "other": _query(before, after, wants_fields=not wants_fields),
    }
    return Page("diff.html", values, status)


async def _compared(view: View, before: str, after: str, *, wants_fields: bool) -> Compared:
    known = view.scope.clusters
    one, other = (parse_side(text, known=known) for text in (before, after))
    try:
        if wants_fields:
            return _of_fields(await _field_changes(view, one, other))
        return _of_discovery(await _report(view, one, other))
    except WorkerFailed as error:
        message = (
            f"The comparison was ended: {error}. Compare without fields, or on your machine with"
            f" apidiscovery diff."
        )
        raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, message) from None
    except ClientError as error:
        raise PageError(HTTPStatus.BAD_REQUEST, f"{error}.") from None


async def _report(view: View, one: Side, other: Side) -> Report:
    before, after = await discovery_of(view, one), await discovery_of(view, other)
    if before.size + after.size <= _IN_THREAD_BYTES:
        return await asyncio.to_thread(compare_discovery, before, after)
    return await workers.run(compare_discovery, before, after)


async def _field_changes(view: View, one: Side, other: Side) -> FieldChanges:
    before, after = await fields_of(view, one, other)
    return await workers.run(compare_fields, before, after)


def _of_discovery(report: Report) -> Compared:
    parts = {
        severity: _by_subject(found) for severity in _HEADINGS if (found := report.of(severity))
    }
    doubts = tuple((doubt.subject, doubt.reason) for doubt in report.doubts)
    return Compared(report.summary, parts, doubts=doubts)


def _by_subject(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    found: dict[str, list[Finding]] = {}
    for each in findings:
        found.setdefault(each.subject, []).append(each)
    return found


def _of_fields(changes: FieldChanges) -> Compared:
    sections = sections_of(changes.changes)
    return Compared(
        summary(changes),
        kinds=tuple(sections[:_MAX_SECTIONS]),
        more_kinds=max(0, len(sections) - _MAX_SECTIONS),
        doubts=tuple(doubts_of(changes)),
    )


def _examples(view: View) -> list[tuple[str, str]]:
    """Return comparisons to begin with, as titles and queries."""
    clusters = [f"cluster:{name}" for name in view.scope.clusters]
    pairs = [(clusters[0], other) for other in clusters[1:_EXAMPLES]] if clusters else []
    pairs = pairs or [("kubernetes:1.31", "served")]
    return [(f"{one} and {other}", _query(one, other)) for one, other in pairs]


def _query(before: str, after: str, *, wants_fields: bool = False) -> str:
    named = {"from": before, "to": after, **({"fields": "1"} if wants_fields else {})}
    return urlencode({name: value for name, value in named.items() if value})
