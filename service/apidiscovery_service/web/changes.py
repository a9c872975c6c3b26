"""Changes of the history in words."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from apidiscovery_service.access.grants import matching
from apidiscovery_service.core.source import UPSTREAM, SourceState
from apidiscovery_service.history.contents import STATES
from apidiscovery_service.history.model import MERGED, Change, Kind
from apidiscovery_service.web.view import View

_STATES = {
    SourceState.CURRENT: "answers",
    SourceState.STALE: "does not answer",
    SourceState.PENDING: "has not answered yet",
}


@dataclass(frozen=True, slots=True)
class ShownChange:
    """A change as a page shows it.

    Attributes:
        number: Its id in the history.
        time: When it was seen.
        cluster: Empty for what this server itself serves.
        kind: What has changed.
        name: The group, the document, or nothing.
        what: What has happened, such as `added`.
        cause: Why.
        is_echo: Whether changes of clusters tell the same.
        is_beginning: Whether a server started, and had not asked a cluster yet.
    """

    number: int
    time: datetime
    cluster: str
    kind: str
    name: str
    what: str
    cause: str
    is_echo: bool = False
    is_beginning: bool = False


def _is_echo(change: Change) -> bool:
    """Return whether a change is what changes of clusters did to what this server serves.

    The changes of these clusters tell the same.
    """
    causes = change.cause.split(", ")
    return change.cluster == MERGED and all(cause.startswith(UPSTREAM) for cause in causes)


def visible(view: View) -> Callable[[str], bool] | None:
    """Return what tells whose changes a viewer may read; None for all.

    What is merged was merged of clusters that all might read about then, and by other grants than
    those of now, so only a viewer who may read about every cluster sees its changes.
    """
    if view.viewer.sees_all:
        return None
    pattern = matching(view.viewer.clusters)
    return lambda name: name != MERGED and pattern.fullmatch(name) is not None


def shown(change: Change) -> ShownChange:
    """Return a change in words."""
    return ShownChange(
        change.id,
        change.time,
        change.cluster,
        change.kind,
        change.name,
        _what(change),
        change.cause,
        _is_echo(change),
        change.kind is Kind.STATE and STATES.get(change.after) is SourceState.PENDING,
    )


def _what(change: Change) -> str:
    if change.kind is Kind.STATE:
        state = STATES.get(change.after)
        return _STATES[state] if state else "is not configured any more"
    if not change.before:
        return "added"
    return "changed" if change.after else "removed"
