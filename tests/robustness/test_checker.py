"""The checker finds each kind of broken promise in a history made by hand, and no other."""

from dataclasses import replace
from pathlib import Path
from typing import Self

import pytest

from tests.robustness.checker import FRESH_S, HEARSAY_S, check
from tests.robustness.figures import Figures, tables
from tests.robustness.history import (
    Calm,
    ClusterRead,
    ClusterSaid,
    ColumnRead,
    Event,
    Fault,
    History,
    Note,
    Outage,
    Read,
    Record,
    Renewal,
    Restore,
    Write,
)

_LATE = 3 * FRESH_S


class Story:
    """A history with one group, `g`, told in a few words."""

    def __init__(self) -> None:
        self.history = History()

    def add(self, *records: Record) -> Self:
        for record in records:
            self.history.add(record)
        return self

    def wrote(  # noqa: PLR0913
        self,
        value: str | None,
        began: float,
        ended: float,
        *,
        outcome: str = "ok",
        replica: str = "r0",
        op: str = "put",
        detail: str = "",
    ) -> Self:
        return self.add(
            Write("w", replica, op, "g", value, began, ended, outcome, detail, revision=1)
        )

    def read(  # noqa: PLR0913
        self,
        value: str | None,
        began: float,
        ended: float,
        *,
        replica: str = "r0",
        etag: str = "",
        body: str = "",
        what: str = "aggregated /apis",
        stale: bool = False,
    ) -> Self:
        values = {} if value is None else {"g": value}
        content = self.history.content(values, ("g",) if stale else ())
        etag, body = etag or f"{value} {stale}", body or f"bytes of {value} {stale}"
        return self.add(
            Read(
                "r", replica, 1, what, began, ended, "200",
                etag=etag, body=body, content=content,
            )
        )  # fmt: skip

    def told(  # noqa: PLR0913
        self,
        kind: str,
        at: float,
        value: str | None = None,
        *,
        held: str = "e",
        problem: str = "",
        removed: bool = False,
    ) -> Self:
        changed = {} if value is None else {"g": value}
        etag, held = ("", "") if kind in ("open", "end") else ("e", held)
        gone = ("g",) if removed else ()
        return self.add(Event("s", "r0", 1, "s/0", kind, at, etag, held, changed, gone, problem))

    def renewed(self, *times: float) -> Self:
        return self.add(*(Renewal("r0", "g", at, at + 0.1, "ok", 4, 4) for at in times))

    def said(self, number: int, at: float, cluster: str = "f0") -> Self:
        return self.add(ClusterSaid(cluster, f"{cluster}-op{number:06}", at))

    def clustered(
        self, status: str, began: float, *words: str, path: str = "/apis", problem: str = ""
    ) -> Self:
        ended = began + 0.1
        return self.add(ClusterRead("r0", "f0", path, began, ended, status, words, problem))

    def column(
        self,
        freshness: str,
        began: float,
        *words: str,
        since: str = "",
        resources: int = 1,
        status: str = "200",
    ) -> Self:
        """Read the column of the cluster `f0`."""
        read = ColumnRead(
            "r0", "f0", "/fleet/matrix", began, began + 0.1, status, freshness, since, words
        )
        return self.add(replace(read, resources=resources))

    def rules(self) -> set[str]:
        return {violation.rule for violation in check(self.history)}


def sound() -> Story:
    """Return a story with writes that race, fail and are removed, and nothing wrong."""
    story = Story()
    story.wrote("op1", 1, 2).read("op1", 2.1, 2.2)
    story.read(None, 2.1, 2.2, replica="r1")  # the other replica is a little behind
    story.wrote("op2", 3, 8, outcome="unknown", detail="DEADLINE_EXCEEDED: ")
    story.wrote("op3", 4, 5, outcome="refused", detail="ABORTED: ").read("op1", 5, 5.1)
    story.wrote("op4", 6, 7)
    story.read("op2", 8, 8.1)  # it came after op4 in spite of what its client saw
    story.told("open", 8.2).told("changes", 8.3, "op2")
    story.wrote(None, 9, 10, op="withdraw")
    story.told("changes", 10.1, removed=True).read(None, 10.1, 10.2)
    story.told("heartbeat", 30).read(None, 30, 30.1, replica="r1")
    story.add(Calm("nothing", 31, 32, agreed=True))
    story.clustered("503", 32, problem="unknown").clustered("404", 32)
    story.said(1, 33).clustered("200", 34, "f0-op000001")
    story.clustered("503", 35)  # its replica starts
    story.clustered("", 36, problem="ReadTimeout").clustered("200", 37, "f0-op000001")
    story.column("Unknown", 32, resources=0).column("Current", 34, "f0-op000001")
    story.column("", 35, status="503", resources=0)
    return story.column("Stale", 36, "f0-op000001", since="2026-11-20T10:00:00Z")


def test_a_sound_history_has_no_violation() -> None:
    assert check(sound().history) == []


def test_a_stored_history_says_the_same(tmp_path: Path) -> None:
    before = sound().history
    before.save(tmp_path / "history.jsonl")
    after = History.load(tmp_path / "history.jsonl")
    assert (after.records, after.contents) == (before.records, before.contents)


def test_what_is_no_history_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    file.write_text('{"about": {}}\n{"record": "Write"}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"history\.jsonl:2 is no record"):
        History.load(file)


def _read(status: str, began: float, **more: str) -> Read:
    return Read("r", "r0", 1, "aggregated /apis", began, began + 1, status, **more)


# A story about each way to break a rule.
BROKEN: dict[str, dict[str, Story]] = {
    "acknowledged": {
        "lost": Story().wrote("op1", 1, 2).read(None, 3, 3.1),
        "old": Story().wrote("op1", 1, 2).wrote("op2", 3, 4).read("op1", 4.1, 4.2),
        "old elsewhere": (
            Story()
            .wrote("op1", 1, 2)
            .wrote("op2", 3, 4)
            .read("op1", _LATE, _LATE + 1, replica="r1")
        ),
        "back from removal": (
            Story().wrote("op1", 1, 2).wrote(None, 3, 4, op="withdraw").read("op1", 4.1, 4.2)
        ),
        "not in a list of names": (
            Story().wrote("op1", 1, 2).read(None, 3, 3.1, what="plain /apis")
        ),
        "not modified though it was": (
            Story()
            .read(None, 0, 0.1, etag='"none"')
            .wrote("op1", 1, 2)
            .add(_read("304", 3, condition='"none"', etag='"none"'))
        ),
        "a watch that is deaf": (
            Story().told("open", 0).wrote("op1", 1, 2).told("heartbeat", _LATE)
        ),
        "after a cut": (
            Story()
            .wrote("op1", 1, 2, replica="r1")
            .add(Fault("cut", "r0", 1.5, 20, ("r0",)))
            .read(None, 20 + _LATE, 21 + _LATE)
        ),
    },
    "refused": {
        "refused": (
            Story().wrote("op1", 1, 2, outcome="refused", detail="ABORTED: ").read("op1", 3, 3.1)
        ),
        "invented": Story().wrote("op1", 1, 2).read("op9", 3, 3.1),
        "from the future": Story().read("op1", 0.1, 0.2).wrote("op1", 1, 2),
    },
    "order": {
        "back": (
            Story()
            .wrote("op1", 1, 2, replica="r1")
            .wrote("op2", 3, 4, replica="r1")
            .read("op2", 4.1, 4.2)
            .read("op1", 4.3, 4.4)
        ),
        "back without an order": (
            Story()
            .wrote("op1", 1, 9, outcome="unknown")
            .wrote("op2", 1, 9, outcome="unknown")
            .read("op1", 2, 2.5)
            .read("op2", 3, 3.5)
            .read("op1", 4, 4.5)
        ),
        "back in a watch": (
            Story()
            .wrote("op1", 1, 2, replica="r1")
            .wrote("op2", 3, 4, replica="r1")
            .told("open", 0)
            .told("changes", 4.1, "op2")
            .told("changes", 4.2, "op1")
        ),
        "gone and back": (
            Story()
            .wrote("op1", 1, 9, outcome="unknown")
            .wrote(None, 1, 9, outcome="unknown", op="withdraw")
            .read("op1", 2, 2.5)
            .read(None, 3, 3.5)
            .read("op1", 4, 4.5)
        ),
    },
    "gap": {
        "a gap": Story().told("open", 0).told("changes", 1, held="other"),
        "an unfit delta": (
            Story().told("open", 0).told("end", 1, problem="unreadable: the delta does not fit")
        ),
    },
    "etag": {
        "other bytes": (
            Story()
            .read(None, 1, 2, etag="e", body="one")
            .read(None, 1, 2, etag="e", body="another", replica="r1")
        ),
        "other ETags": (
            Story()
            .read(None, 1, 2, etag="one", body="b")
            .read(None, 1, 2, etag="another", body="b", replica="r1")
        ),
        "another 304": Story().add(_read("304", 1, condition='"a"', etag='"b"')),
        "another transport": (
            Story()
            .wrote("op1", 1, 2)
            .wrote("op2", 1, 2)
            .read("op1", 3, 4, etag='"e"')
            .read("op2", 3, 4, etag="e", replica="r1", what="gRPC")
        ),
    },
    "lease": {
        "stale too early": (
            Story().wrote("op1", 1, 2).renewed(*range(1, 40)).read("op1", 30, 30.1, stale=True)
        ),
        "gone too early": Story().wrote("op1", 1, 2).renewed(*range(1, 40)).read(None, 30, 30.1),
    },
    "stale": {
        "current though its server is dead": (
            Story()
            .wrote("op1", 1, 2)
            .add(Outage("g", 3, 4 + 2 * HEARSAY_S))
            .read("op1", 4 + HEARSAY_S, 5 + HEARSAY_S)
        ),
    },
    "cluster": {
        "said by another": Story().said(1, 1, "f1").clustered("200", 2, "f1-op000001"),
        "never said": Story().said(1, 1).clustered("200", 2, "f0-op000002"),
        "said later": Story().clustered("200", 2, "f0-op000001").said(1, 3),
        "emptied": Story().clustered("200", 2),
        "forgotten": (
            Story()
            .clustered("200", 2, "f0", path="/openapi/v3")
            .clustered("404", 3, path="/openapi/v3")
        ),
        "unknown again": (
            Story()
            .clustered("200", 2, "f0", path="/openapi/v3")
            .clustered("503", 3, path="/openapi/v3", problem="unknown")
        ),
        "a failure of a cluster is ours": Story().clustered("500", 2),
        "an empty column": (
            Story()
            .column("Current", 2)
            .column("Stale", 3, since="2026-11-20T10:00:00Z", resources=0)
        ),
        "an unknown column": Story().column("Current", 2).column("Unknown", 3),
        "a missing column": Story().column("", 2),
        "a stale column of no time": Story().column("Stale", 2),
        "a column that nobody said": Story().column("Current", 2, "f0-op000001"),
        "a failed column": Story().column("", 2, status="500"),
    },
    "converged": {
        "no agreement": Story().add(Calm("restore", 1, 31, agreed=False, detail="r0 has more")),
    },
    "honest": {
        "accepted nonsense": Story().wrote("op1", 1, 2, op="invalid"),
        "an internal error": Story().add(_read("500", 1)),
        "an internal error of a write": (
            Story().wrote("op1", 1, 2, outcome="unknown", detail="INTERNAL: oops")
        ),
        "an unreadable answer": Story().add(_read("200", 1, problem="unreadable: ValueError()")),
        "a traceback": Story().add(Note(1, "r0", "a traceback in the log")),
    },
}


@pytest.mark.parametrize(
    ("rule", "story"),
    [
        pytest.param(rule, story, id=f"{rule}-{name}")
        for rule, stories in BROKEN.items()
        for name, story in stories.items()
    ],
)
def test_a_broken_promise_is_found(rule: str, story: Story) -> None:
    assert rule in story.rules()


def test_a_replica_that_was_cut_off_may_be_behind_meanwhile() -> None:
    story = Story()
    story.wrote("op1", 1, 2, replica="r1")
    story.history.add(Fault("cut", "r0", 1.5, 40, ("r0",)))
    story.read(None, 39, 39.1)
    assert story.rules() == set()


def test_a_replica_that_was_cut_off_shows_what_it_acknowledged_itself() -> None:
    story = Story()
    story.wrote("op1", 2, 3)
    story.history.add(Fault("cut", "r0", 1.5, 40, ("r0",)))
    story.read(None, 39, 39.1)
    assert story.rules() == {"acknowledged"}


def test_a_restore_may_lose_what_came_after_its_backup_and_nothing_else() -> None:
    story = Story()
    story.wrote("op1", 1, 2)
    story.wrote("op2", 12, 13)
    story.read("op2", 13.1, 13.2)
    story.history.add(Restore(10, 20))
    story.history.add(Calm("restore", 20, 21, agreed=True))
    story.read("op1", 22, 22.1)
    assert story.rules() == set()
    story.read(None, 23, 23.1)
    assert story.rules() == {"acknowledged"}


def test_a_restore_may_be_noticed_after_all_replicas_agree() -> None:
    story = Story()
    story.wrote("op1", 1, 2)
    story.wrote("op2", 4, 5, outcome="unknown")
    story.history.add(Restore(3, 8))
    story.history.add(Calm("restore", 8, 8.1, agreed=True))
    for value, at in (("op2", 8.3), ("op1", 8.6), ("op2", 8.9)):
        story.read(value, at, at + 0.1)
    assert story.rules() == set()


def test_a_group_whose_server_is_dead_may_be_current_for_a_while_and_then_stale() -> None:
    story = Story()
    story.wrote("op1", 1, 2)
    story.history.add(Outage("g", 3, 9 + 2 * HEARSAY_S))
    story.read("op1", 4, 5)
    story.read("op1", 4 + HEARSAY_S, 5 + HEARSAY_S, stale=True)
    assert story.rules() == set()


def test_a_group_whose_owner_is_silent_may_be_stale_and_then_gone() -> None:
    story = Story()
    story.wrote("op1", 1, 2)
    story.renewed(1)
    story.read("op1", 20, 20.1, stale=True)
    story.read(None, 25, 25.1)
    assert story.rules() == set()


def test_figures_count_what_happened() -> None:
    story = sound()
    story.history.add(Fault("kill", "r0", 40, 41))
    story.history.add(Calm("kill", 41, 41.25, agreed=True))
    figures = Figures()
    figures.add(story.history, 0)
    text = tables({"sqlite": figures})
    assert "| writes acknowledged | 3 |" in text
    assert "| kill | 250 ms / 250 ms (1) |" in text
