"""How far each source can be believed: what operators and clients are told of it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class SourceState(StrEnum):
    """Whether what a source offers is what it serves now."""

    CURRENT = "Current"
    STALE = "Stale"
    PENDING = "Pending"


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source, apart from what it offers.

    Attributes:
        name: As in its contribution.
        since: Since when the state is this; None where nobody knows.
        error: Why it is stale; empty when it is not. One line, without secrets.
        address: Where it is asked, without credentials; empty for a local one.
    """

    name: str
    state: SourceState = SourceState.CURRENT
    since: datetime | None = None
    error: str = ""
    address: str = ""
