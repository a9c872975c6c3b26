"""What a text means, and the trace of how that was found."""

from collections.abc import Iterator
from dataclasses import dataclass

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client.model import Current, Freshness, Resource, Stale, Subresource
from apidiscovery_client.resolving.reading import Exact, Reading
from apidiscovery_client.resolving.search import SHORT_NAMES, Rule, Step


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The resource that a text means.

    Attributes:
        subresource: What the text says after a slash; None for the resource itself.
        freshness: Whether the server still says so: `Stale` for the last known state.
        rule: By which the resource was found.
        warnings: What kubectl warns of, in its words.
        candidates: Each group-resource that the text could mean, the chosen one first, then in
            order of preference; just that one where nothing is ambiguous.
    """

    resource: Resource
    subresource: Subresource | None
    freshness: Freshness
    rule: Rule
    warnings: tuple[str, ...]
    candidates: tuple[Resource, ...]

    def __repr__(self) -> str:
        freshness = type(self.freshness).__name__
        return f"<Resolution {_named(self)}: {self.rule.name}, {freshness}>"


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a text was taken; as text it is of several lines, for people.

    Attributes:
        text: What was looked up.
        steps: Each rule that was tried, in order.
        warnings: What kubectl warns of, in its words.
        outcome: What was found, or the error that `Resolver.resolve` raises.
    """

    text: str
    steps: tuple[Step, ...]
    warnings: tuple[str, ...]
    outcome: Resolution | DiscoveryError

    def __repr__(self) -> str:
        found = self.outcome
        told = _named(found) if isinstance(found, Resolution) else type(found).__name__
        return f"<Explanation of {self.text!r}: {len(self.steps)} steps, {told}>"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def lines(self) -> Iterator[str]:
        """Yield its lines, each with what is in the text and in names of servers as it stands.

        That may be line feeds, and what commands a terminal.
        """
        for number, step in enumerate(self.steps, 1):
            yield from _step_lines(number, step)
        yield from (f"Warning: {warning}" for warning in self.warnings)
        if isinstance(self.outcome, DiscoveryError):
            yield f"Error: {self.outcome}"
        else:
            yield from _resolution_lines(self.text, self.outcome)


def full_name(resource: Resource) -> str:
    """Return `PLURAL.VERSION.GROUP`, for the core group with a dot at the end.

    >>> from apidiscovery_client.model import NAMESPACED, GroupVersion, Resource
    >>> full_name(Resource(GroupVersion("", "v1"), "pods", "pod", NAMESPACED, None, ()))
    'pods.v1.'
    """
    return f"{resource.name}.{resource.gv.version}.{resource.gv.group}"


def _named(resolution: Resolution) -> str:
    """Return the full name, with the subresource after a slash."""
    below = resolution.subresource
    name = full_name(resolution.resource)
    return f"{name}/{below.name}" if below else name


def _step_lines(number: int, step: Step) -> Iterator[str]:
    yield f"{number}. {_sought(step.reading)}, as {step.rule.value}"
    name = _group_resource if step.rule in SHORT_NAMES else full_name
    others = [name(found) for found in step.matched if found is not step.chosen]
    if step.chosen is None or step.why is None:
        yield f"   several: {', '.join(others)}" if others else "   no match"
        return
    yield f"   {name(step.chosen)}: {step.why.value}"
    if others:
        yield f"   before {', '.join(others)}"


def _group_resource(resource: Resource) -> str:
    return resource.gvr.group_resource


def _sought(sought: Reading | Exact) -> str:
    """Return what was looked for; a text with dots may be read in two ways."""
    if isinstance(sought, Exact):
        return f'"{sought.name}" in {sought.gv}'
    where = f"{sought.version} of {sought.group}" if sought.version else sought.group
    return f'"{sought.name}" in {where.removesuffix(" of ")}' if where else f'"{sought.name}"'


def _resolution_lines(text: str, resolution: Resolution) -> Iterator[str]:
    resource, below = resolution.resource, resolution.subresource
    kind = resource.kind if below is None else below.response_kind and below.response_kind.kind
    yield f'"{text}" is {_named(resolution)}' + (f", kind {kind}" if kind else "")
    freshness = resolution.freshness
    if not isinstance(freshness, Current):
        word = "stale" if isinstance(freshness, Stale) else "unknown"
        since = freshness.since.isoformat(timespec="seconds")
        yield f"It is the last known state, {word} since {since}: {freshness.reason}"
    if others := [full_name(found) for found in resolution.candidates[1:]]:
        yield f"It could also mean {', '.join(others)}"
