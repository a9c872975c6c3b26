"""Formats what to do before an upgrade as text, as JSON, and as Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from apidiscovery_client._terminal import printable
from apidiscovery_client.schema_diff import changes_json
from apidiscovery_client.upgrading import Plan, Rule, Step, Urgency

from apidiscovery_cli.reports.fields import change_lines
from apidiscovery_cli.reports.forms import (
    API_VERSION,
    Format,
    doubts_json,
    doubts_markdown,
    escaped,
    json_text,
    lines_text,
    markdown_text,
)

KIND = "UpgradeReport"

_MAX_CHANGES = 5  # of fields that are shown; the command of the step shows all
_HEADINGS = {
    Urgency.FIRST: "first",
    Urgency.BEFORE: "before the upgrade",
    Urgency.LATER: "later",
}


@dataclass(frozen=True, slots=True)
class Unanswered:
    """A cluster of which nothing is known, and why."""

    name: str
    reason: str


Outcome: TypeAlias = Plan | Unanswered


def render_plans(outcomes: Sequence[Outcome], target: str, form: Format) -> str:
    """Return a report on clusters as text that ends with a line feed.

    Args:
        outcomes: One for each cluster.
        target: The release.
        form: `text` and `markdown` have a section for each urgency, and for several clusters begin
            with a line for each; `json` is one object with `clusters`, which has all changes of
            fields.
    """
    if form == "json":
        return _json(outcomes, target)
    return _markdown(outcomes, target) if form == "markdown" else _text(outcomes, target)


def _text(outcomes: Sequence[Outcome], target: str) -> str:
    lines = [*_heads(outcomes, target), ""] if len(outcomes) > 1 else []
    for outcome in outcomes:
        lines += [*_lines(outcome), ""]
    return lines_text(map(printable, lines[:-1]))


def _heads(outcomes: Sequence[Outcome], target: str) -> list[str]:
    """Return a line for the fleet and one for each cluster."""
    counts = Counter(_state(outcome) for outcome in outcomes)
    summary = ", ".join(f"{count} {state}" for state, count in counts.items())
    return [
        f"{len(outcomes)} clusters to Kubernetes {target}: {summary}",
        *(f"  {_headline(outcome)}" for outcome in outcomes),
    ]


def _state(outcome: Outcome) -> str:
    if isinstance(outcome, Unanswered):
        return "not known"
    if outcome.of(Urgency.FIRST):
        return "with something to do first"
    return "with something to do" if outcome.steps else "with nothing to do"


def _headline(outcome: Outcome) -> str:
    if isinstance(outcome, Unanswered):
        return f"{outcome.name}: not known: {outcome.reason}"
    running = outcome.release or "?"
    return f"{outcome.name}: Kubernetes {running} -> {outcome.target}: {_summary(outcome)}"


def _summary(plan: Plan) -> str:
    counts = ((len(plan.of(urgency)), heading) for urgency, heading in _HEADINGS.items())
    parts = [f"{count} {heading}" for count, heading in counts if count] or ["nothing to do"]
    return ", ".join(parts) + (f"; {len(plan.unread)} not read" if plan.unread else "")


def _lines(outcome: Outcome) -> Iterator[str]:
    yield _headline(outcome)
    if isinstance(outcome, Unanswered):
        return
    number = 0
    for urgency, heading in _HEADINGS.items():
        if steps := outcome.of(urgency):
            yield from ("", heading)
        for command, sharing in _by_command(steps):
            for step in sharing:
                number += 1
                yield f"{number}. {step.subject}: {step.message} [{step.rule}]"
                yield from (f"     {line}" for line in _details(outcome, step))
            yield f"   $ {command}"
    if outcome.unread:
        yield from ("", "not read")
        yield from (f"? {what}: {why}" for what, why in outcome.unread.items())


def _by_command(steps: Sequence[Step]) -> Iterator[tuple[str, Iterator[Step]]]:
    """Yield each command with the steps in a row that it is for: a check is for all manifests."""
    return groupby(steps, key=attrgetter("command"))


def _details(plan: Plan, step: Step) -> list[str]:
    return change_lines(plan.fields, _MAX_CHANGES) if step.rule is Rule.FIELDS_CHANGED else []


def _json(outcomes: Sequence[Outcome], target: str) -> str:
    clusters = [_cluster(outcome) for outcome in outcomes]
    return json_text({"apiVersion": API_VERSION, "kind": KIND, "to": target, "clusters": clusters})


def _cluster(outcome: Outcome) -> dict[str, object]:
    if isinstance(outcome, Unanswered):
        return {"name": outcome.name, "error": outcome.reason}
    found: dict[str, object] = {"name": outcome.name}
    if outcome.release:
        found["from"] = outcome.release
    return found | {
        "steps": [
            {
                "urgency": str(step.urgency),
                "rule": str(step.rule),
                "subject": step.subject,
                "message": step.message,
                "command": step.command,
            }
            for step in outcome.steps
        ],
        "fields": changes_json(outcome.fields)["changes"],
        "notRead": doubts_json(outcome.unread.items()),
    }


def _markdown(outcomes: Sequence[Outcome], target: str) -> str:
    paragraphs = [f"# Upgrade to Kubernetes {escaped(target)}"]
    if len(outcomes) > 1:
        head, *others = _heads(outcomes, target)
        items = (f"- {escaped(line.strip())}" for line in others)
        paragraphs += [f"{escaped(head)}.", "\n".join(items)]
    for outcome in outcomes:
        paragraphs += _paragraphs(outcome)
    return markdown_text(paragraphs)


def _paragraphs(outcome: Outcome) -> Iterator[str]:
    yield f"## {escaped(outcome.name)}"
    if isinstance(outcome, Unanswered):
        yield f"Not known: {escaped(outcome.reason)}"
        return
    yield f"{escaped(_headline(outcome))}."
    for urgency, heading in _HEADINGS.items():
        if steps := outcome.of(urgency):
            yield f"### {heading.capitalize()}"
            yield "\n".join(
                line
                for command, sharing in _by_command(steps)
                for line in _items(outcome, command, sharing)
            )
    yield from doubts_markdown("### Not read", outcome.unread.items())


def _items(plan: Plan, command: str, sharing: Iterable[Step]) -> Iterator[str]:
    for step in sharing:
        yield f"- [ ] {escaped(step.subject)}: {escaped(step.message)} ({step.rule})"
        yield from (f"  - {escaped(line.strip())}" for line in _details(plan, step))
    yield f"\n  ```sh\n  {printable(command)}\n  ```\n"
