"""What happened in a round: every operation, answer, watch event and fault, as it was seen outside.

Times are seconds of one monotonic clock since the round began. A history is kept as JSON lines, one
record a line, so that a stored one can be checked again.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TypeAlias, TypeVar, cast

# What a document that only names groups says of a group: it is there, with some content.
THERE = "?"

# What may be answered at any time; empty for no answer.
ANSWERS = {
    "",
    "200",
    "304",
    "503",
    "OK",
    "UNAVAILABLE",
    "DEADLINE_EXCEEDED",
    "CANCELLED",
}

Values: TypeAlias = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Write:
    """A change that a client asked for, and what it was told.

    Each write of a key has a value of its own, so whoever sees the value knows the write.

    Attributes:
        replica: Who was asked; empty for a change that no replica acknowledges, which is `ok` when
            all replicas show it.
        key: The group that it is about.
        value: What stands there afterwards; None when the key is removed.
        outcome: `ok`, `refused` (the server said no), or `unknown` (no answer, or one that does not
            tell).
        detail: What was answered, if not `ok`.
        expected: The revision that was expected to stand there; None for any.
    """

    client: str
    replica: str
    op: str
    key: str
    value: str | None
    began: float
    ended: float
    outcome: str
    detail: str = ""
    revision: int = 0
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class Renewal:
    """A sign of life of the owner of a key, or the write that began its lease.

    Attributes:
        lease_s: How long the owner may be silent.
        removal_s: How long after that its keys stay, Stale.
    """

    replica: str
    key: str
    began: float
    ended: float
    outcome: str
    lease_s: float
    removal_s: float


@dataclass(frozen=True, slots=True)
class Content:
    """What a document says, once for all answers that have it.

    Attributes:
        id: Names the content.
        values: By group the value that stands there, or `THERE`.
        stale: The groups that are not Current.
    """

    id: str
    values: Values
    stale: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Read:
    """An answer to a question.

    Attributes:
        life: Changes with every start of the replica.
        what: Which document in which form; documents of the same `what` and ETag must be equal.
        status: Of HTTP or the name of gRPC's; empty when there was no answer.
        condition: The ETag that was sent along.
        etag: As it was told; empty for none.
        body: SHA-256 of the bytes; empty when there were none.
        content: The id of a `Content`; empty when there was none.
        problem: Why what came cannot be understood.
    """

    client: str
    replica: str
    life: int
    what: str
    began: float
    ended: float
    status: str
    condition: str = ""
    etag: str = ""
    body: str = ""
    content: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """A message of a watch, or its beginning or end.

    Attributes:
        stream: Names one call.
        kind: `open`, `changes`, `heartbeat` or `end`.
        etag: As it was told.
        held: The ETag of all that the watcher holds by now, worked out from the messages alone.
        changed: By group the value that it has now; at `open` what was held before.
        removed: Groups that are gone.
        problem: Why a message cannot be applied, or how the stream ended.
    """

    client: str
    replica: str
    life: int
    stream: str
    kind: str
    at: float
    etag: str = ""
    held: str = ""
    changed: Values = field(default_factory=dict[str, str])
    removed: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ClusterSaid:
    """A word that a cluster puts into everything that it says from now on."""

    cluster: str
    word: str
    at: float


@dataclass(frozen=True, slots=True)
class ClusterRead:
    """An answer of a replica for a cluster.

    Attributes:
        path: Below the cluster.
        status: Of HTTP; empty when there was no answer.
        words: All words of clusters in the answer; the name of the cluster in place of a word where
            it has none.
        problem: `unknown` if the replica knows nothing of this, else why there was no answer.
    """

    replica: str
    cluster: str
    path: str
    began: float
    ended: float
    status: str
    words: tuple[str, ...] = ()
    problem: str = ""


@dataclass(frozen=True, slots=True)
class ColumnRead:
    """The column of a cluster in an answer of a replica about all.

    Attributes:
        path: `/fleet/clusters` or `/fleet/matrix`.
        status: Of HTTP; empty when there was no answer.
        freshness: That of the column; empty where there is no column.
        since: Since when it is not current; empty where nothing tells.
        words: All words of clusters in the column.
        resources: How many it has; in the matrix the number of its cells, if that is smaller.
    """

    replica: str
    cluster: str
    path: str
    began: float
    ended: float
    status: str
    freshness: str = ""
    since: str = ""
    words: tuple[str, ...] = ()
    resources: int = 0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that was broken for a time.

    Attributes:
        name: Which fault it was, such as `freeze member`.
        target: What it was done to.
        blinds: The replicas that may be behind while it lasts; all others must keep up.
    """

    name: str
    target: str
    began: float
    ended: float
    blinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Restore:
    """The store was put back to what it was: writes since the backup may be lost, once.

    Attributes:
        backup: When the backup began.
        restored: When the store answered again.
    """

    backup: float
    restored: float


@dataclass(frozen=True, slots=True)
class Outage:
    """The server behind a group answered nobody.

    Attributes:
        key: The group.
        began: From when on.
        ended: Until when at least.
    """

    key: str
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Calm:
    """Nobody writes and nothing is broken, until all replicas serve the same.

    Attributes:
        after: The name of the fault before.
        agreed: Whether they did before the patience of the generator ended.
        detail: What each served in the end if not.
    """

    after: str
    began: float
    ended: float
    agreed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that is wrong by itself: a traceback in a log, a process that ended."""

    at: float
    replica: str
    text: str


Record: TypeAlias = (
    Write
    | Renewal
    | Content
    | Read
    | Event
    | ClusterSaid
    | ClusterRead
    | ColumnRead
    | Fault
    | Restore
    | Outage
    | Calm
    | Note
)
T = TypeVar("T", bound=Record)

_ALL: tuple[type[Record], ...] = (
    *(Write, Renewal, Content, Read, Event, ClusterSaid, ClusterRead, ColumnRead),
    *(Fault, Restore, Outage, Calm, Note),
)
_KINDS: Mapping[str, type[Record]] = {kind.__name__: kind for kind in _ALL}


class History:
    """The records of one round, in the order in which they were made.

    Attributes:
        about: What the round was: its seed, its store, the replicas.
        contents: By id.
    """

    def __init__(self, about: Mapping[str, object] | None = None) -> None:
        self.about = dict(about or {})
        self.records: list[Record] = []
        self.contents = dict[str, Content]()
        self._ids = dict[tuple[tuple[tuple[str, str], ...], tuple[str, ...]], str]()
        self._began = time.monotonic()

    def now(self) -> float:
        return round(time.monotonic() - self._began, 4)

    def add(self, record: Record) -> None:
        self.records.append(record)
        if isinstance(record, Content):
            self.contents[record.id] = record

    def content(self, values: Values, stale: tuple[str, ...] = ()) -> str:
        """Return the id of a content, recorded when it is seen first."""
        key = (tuple(sorted(values.items())), stale)
        known = self._ids.get(key)
        if known is None:
            known = self._ids[key] = f"c{len(self._ids)}"
            self.add(Content(known, dict(key[0]), stale))
        return known

    def difference(self, answers: Sequence[Read]) -> str:
        """Return in words how answers of the same document differ; empty if they do not."""
        failed = [
            f"{one.replica}: {one.status} {one.problem}" for one in answers if not one.content
        ]
        if failed:
            return ", ".join(failed)
        shown = [set(self.contents[one.content].values.items()) for one in answers]
        anywhere = {pair for each in shown for pair in each}
        differ = sorted(pair for pair in anywhere if any(pair not in each for each in shown))
        if differ:
            return "; ".join(
                f"{one.replica} has {sorted(has & set(differ))}"
                for one, has in zip(answers, shown, strict=True)
            )
        return "" if len({one.etag for one in answers}) == 1 else "other ETags for the same groups"

    def of(self, kind: type[T]) -> list[T]:
        """Return the records of a kind, in order."""
        return [record for record in self.records if isinstance(record, kind)]

    def save(self, file: Path) -> None:
        with file.open("w", encoding="utf-8") as stream:
            stream.write(json.dumps({"about": self.about}) + "\n")
            for record in self.records:
                stream.write(json.dumps({"record": type(record).__name__} | asdict(record)) + "\n")

    @classmethod
    def load(cls, file: Path) -> "History":
        """Read a stored history.

        Raises:
            ValueError: It is none; the message has the line.
        """
        history = cls()
        with file.open(encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    fields = cast("dict[str, object]", json.loads(line))
                    if number == 1:
                        history.about = cast("dict[str, object]", fields["about"])
                    else:
                        history.add(_record(fields))
                except (ValueError, KeyError, TypeError) as error:
                    raise ValueError(
                        f"{file}:{number} is no record of a history: {error}"
                    ) from error
        return history


def _record(fields: dict[str, object]) -> Record:
    kind = _KINDS[cast("str", fields.pop("record"))]
    values = {
        name: tuple(cast("list[object]", value)) if isinstance(value, list) else value
        for name, value in fields.items()
    }
    return kind(**values)  # type: ignore[arg-type]
