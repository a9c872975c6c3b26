"""The checker finds each kind of broken promise in a history made by hand, and no other."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

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
    Renewal,
    Restore,
    Write,
)

_LATE = 3 * FRESH_S


class Story:
    """A history with one group, `g`, told in a few words."""

    def __init__(self) -> None:
        self.history = History()

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
    ) -> None:
        self.history.add(
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
    ) -> None:
        values = {} if value is None else {"g": value}
        content = self.history.content(values, ("g",) if stale else ())
        etag, body = etag or f"{value} {stale}", body or f"bytes of {value} {stale}"
        self.history.add(
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
    ) -> None:
        changed = {} if value is None else {"g": value}
        etag, held = ("", "") if kind in ("open", "end") else ("e", held)
        gone = ("g",) if removed else ()
        self.history.add(Event("s", "r0", 1, "s/0", kind, at, etag, held, changed, gone, problem))

    def renewed(self, at: float) -> None:
        self.history.add(Renewal("r0", "g", at, at + 0.1, "ok", 4, 4))

    def clustered(
        self, status: str, began: float, *words: str, path: str = "/apis", problem: str = ""
    ) -> None:
        ended = began + 0.1
        self.history.add(ClusterRead("r0", "f0", path, began, ended, status, words, problem))

    def column(
        self,
        freshness: str,
        began: float,
        *words: str,
        since: str = "",
        resources: int = 1,
        status: str = "200",
    ) -> None:
        """Read the column of the cluster `f0`."""
        read = ColumnRead(
            "r0", "f0", "/fleet/matrix", began, began + 0.1, status, freshness, since, words
        )
        self.history.add(replace(read, resources=resources))

    def rules(self) -> set[str]:
        return {violation.rule for violation in check(self.history)}


def sound() -> Story:
    """Return a story with writes that race, fail and are removed, and nothing wrong."""
    story = Story()
    story.wrote("op1", 1, 2)
    story.read("op1", 2.1, 2.2)
    story.read(None, 2.1, 2.2, replica="r1")  # the other replica is a little behind
    story.wrote("op2", 3, 8, outcome="unknown", detail="DEADLINE_EXCEEDED: ")
    story.wrote("op3", 4, 5, outcome="refused", detail="ABORTED: ")
    story.read("op1", 5, 5.1)
    story.wrote("op4", 6, 7)
    story.read("op2", 8, 8.1)  # it came after op4 in spite of what its client saw
    story.told("open", 8.2)
    story.told("changes", 8.3, "op2")
    story.wrote(None, 9, 10, op="withdraw")
    story.told("changes", 10.1, removed=True)
    story.read(None, 10.1, 10.2)
    story.told("heartbeat", 30)
    story.read(None, 30, 30.1, replica="r1")
    story.history.add(Calm("nothing", 31, 32, agreed=True))
    story.clustered("503", 32, problem="unknown")
    story.clustered("404", 32)
    story.history.add(ClusterSaid("f0", "f0-op000001", 33))
    story.clustered("200", 34, "f0-op000001")
    story.clustered("503", 35)  # its replica starts
    story.clustered("", 36, problem="ReadTimeout")
    story.clustered("200", 37, "f0-op000001")
    story.column("Unknown", 32, resources=0)
    story.column("Current", 34, "f0-op000001")
    story.column("", 35, status="503", resources=0)
    story.column("Stale", 36, "f0-op000001", since="2026-11-20T10:00:00Z")
    return story


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


def lost(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.read(None, 3, 3.1)


def old(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.wrote("op2", 3, 4)
    story.read("op1", 4.1, 4.2)


def old_elsewhere(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.wrote("op2", 3, 4)
    story.read("op1", _LATE, _LATE + 1, replica="r1")


def back_from_removal(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.wrote(None, 3, 4, op="withdraw")
    story.read("op1", 4.1, 4.2)


def not_in_a_list_of_names(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.read(None, 3, 3.1, what="plain /apis")


def not_modified_though_it_was(story: Story) -> None:
    story.read(None, 0, 0.1, etag='"none"')
    story.wrote("op1", 1, 2)
    story.history.add(
        Read("r", "r0", 1, "aggregated /apis", 3, 4, "304", condition='"none"', etag='"none"')
    )


def a_watch_that_is_deaf(story: Story) -> None:
    story.told("open", 0)
    story.wrote("op1", 1, 2)
    story.told("heartbeat", _LATE)


def after_a_cut(story: Story) -> None:
    story.wrote("op1", 1, 2, replica="r1")
    story.history.add(Fault("cut", "r0", 1.5, 20, ("r0",)))
    story.read(None, 20 + _LATE, 21 + _LATE)


def refused(story: Story) -> None:
    story.wrote("op1", 1, 2, outcome="refused", detail="ABORTED: ")
    story.read("op1", 3, 3.1)


def invented(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.read("op9", 3, 3.1)


def from_the_future(story: Story) -> None:
    story.read("op1", 0.1, 0.2)
    story.wrote("op1", 1, 2)


def back(story: Story) -> None:
    story.wrote("op1", 1, 2, replica="r1")
    story.wrote("op2", 3, 4, replica="r1")
    story.read("op2", 4.1, 4.2)
    story.read("op1", 4.3, 4.4)


def back_without_an_order(story: Story) -> None:
    story.wrote("op1", 1, 9, outcome="unknown")
    story.wrote("op2", 1, 9, outcome="unknown")
    for number, value in enumerate(("op1", "op2", "op1")):
        story.read(value, 2 + number, 2.5 + number)


def back_in_a_watch(story: Story) -> None:
    story.wrote("op1", 1, 2, replica="r1")
    story.wrote("op2", 3, 4, replica="r1")
    story.told("open", 0)
    story.told("changes", 4.1, "op2")
    story.told("changes", 4.2, "op1")


def gone_and_back(story: Story) -> None:
    story.wrote("op1", 1, 9, outcome="unknown")
    story.wrote(None, 1, 9, outcome="unknown", op="withdraw")
    for number, value in enumerate(("op1", None, "op1")):
        story.read(value, 2 + number, 2.5 + number)


def a_gap(story: Story) -> None:
    story.told("open", 0)
    story.told("changes", 1, held="other")


def an_unfit_delta(story: Story) -> None:
    story.told("open", 0)
    story.told("end", 1, problem="unreadable: the delta does not fit")


def other_bytes(story: Story) -> None:
    story.read(None, 1, 2, etag="e", body="one")
    story.read(None, 1, 2, etag="e", body="another", replica="r1")


def other_etags(story: Story) -> None:
    story.read(None, 1, 2, etag="one", body="b")
    story.read(None, 1, 2, etag="another", body="b", replica="r1")


def another_304(story: Story) -> None:
    story.history.add(Read("r", "r0", 1, "plain /apis", 1, 2, "304", condition='"a"', etag='"b"'))


def other_transport(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.wrote("op2", 1, 2)
    story.read("op1", 3, 4, etag='"e"')
    content = story.history.content({"g": "op2"})
    story.history.add(Read("r", "r1", 1, "gRPC", 3, 4, "OK", etag="e", content=content))


def stale_too_early(story: Story) -> None:
    story.wrote("op1", 1, 2)
    for at in range(1, 40):
        story.renewed(at)
    story.read("op1", 30, 30.1, stale=True)


def gone_too_early(story: Story) -> None:
    story.wrote("op1", 1, 2)
    for at in range(1, 40):
        story.renewed(at)
    story.read(None, 30, 30.1)


def current_though_its_server_is_dead(story: Story) -> None:
    story.wrote("op1", 1, 2)
    story.history.add(Outage("g", 3, 4 + 2 * HEARSAY_S))
    story.read("op1", 4 + HEARSAY_S, 5 + HEARSAY_S)


def said_by_another(story: Story) -> None:
    story.history.add(ClusterSaid("f1", "f1-op000001", 1))
    story.clustered("200", 2, "f1-op000001")


def never_said(story: Story) -> None:
    story.history.add(ClusterSaid("f0", "f0-op000001", 1))
    story.clustered("200", 2, "f0-op000002")


def said_later(story: Story) -> None:
    story.clustered("200", 2, "f0-op000001")
    story.history.add(ClusterSaid("f0", "f0-op000001", 3))


def emptied(story: Story) -> None:
    story.clustered("200", 2)


def forgotten(story: Story) -> None:
    story.clustered("200", 2, "f0", path="/openapi/v3")
    story.clustered("404", 3, path="/openapi/v3")


def unknown_again(story: Story) -> None:
    story.clustered("200", 2, "f0", path="/openapi/v3")
    story.clustered("503", 3, path="/openapi/v3", problem="unknown")


def a_failure_of_a_cluster_is_ours(story: Story) -> None:
    story.clustered("500", 2)


def an_empty_column(story: Story) -> None:
    story.column("Current", 2)
    story.column("Stale", 3, since="2026-11-20T10:00:00Z", resources=0)


def an_unknown_column(story: Story) -> None:
    story.column("Current", 2)
    story.column("Unknown", 3)


def a_missing_column(story: Story) -> None:
    story.column("", 2)


def a_stale_column_of_no_time(story: Story) -> None:
    story.column("Stale", 2)


def a_column_that_nobody_said(story: Story) -> None:
    story.column("Current", 2, "f0-op000001")


def a_failed_column(story: Story) -> None:
    story.column("", 2, status="500")


def no_agreement(story: Story) -> None:
    story.history.add(Calm("restore", 1, 31, agreed=False, detail="r0 has more"))


def accepted_nonsense(story: Story) -> None:
    story.wrote("op1", 1, 2, op="invalid")


def an_internal_error(story: Story) -> None:
    story.history.add(Read("r", "r0", 1, "plain /apis", 1, 2, "500"))


def an_internal_error_of_a_write(story: Story) -> None:
    story.wrote("op1", 1, 2, outcome="unknown", detail="INTERNAL: oops")


def an_unreadable_answer(story: Story) -> None:
    story.history.add(
        Read("r", "r0", 1, "plain /apis", 1, 2, "200", problem="unreadable: ValueError()")
    )


def a_traceback(story: Story) -> None:
    story.history.add(Note(1, "r0", "a traceback in the log"))


@pytest.mark.parametrize(
    ("rule", "happens"),
    [
        ("acknowledged", lost),
        ("acknowledged", old),
        ("acknowledged", old_elsewhere),
        ("acknowledged", back_from_removal),
        ("acknowledged", not_in_a_list_of_names),
        ("acknowledged", not_modified_though_it_was),
        ("acknowledged", a_watch_that_is_deaf),
        ("acknowledged", after_a_cut),
        ("refused", refused),
        ("refused", invented),
        ("refused", from_the_future),
        ("order", back),
        ("order", back_without_an_order),
        ("order", back_in_a_watch),
        ("order", gone_and_back),
        ("gap", a_gap),
        ("gap", an_unfit_delta),
        ("etag", other_bytes),
        ("etag", other_etags),
        ("etag", another_304),
        ("etag", other_transport),
        ("lease", stale_too_early),
        ("lease", gone_too_early),
        ("stale", current_though_its_server_is_dead),
        ("cluster", said_by_another),
        ("cluster", never_said),
        ("cluster", said_later),
        ("cluster", emptied),
        ("cluster", forgotten),
        ("cluster", unknown_again),
        ("cluster", a_failure_of_a_cluster_is_ours),
        ("cluster", an_empty_column),
        ("cluster", an_unknown_column),
        ("cluster", a_missing_column),
        ("cluster", a_stale_column_of_no_time),
        ("cluster", a_column_that_nobody_said),
        ("cluster", a_failed_column),
        ("converged", no_agreement),
        ("honest", accepted_nonsense),
        ("honest", an_internal_error),
        ("honest", an_internal_error_of_a_write),
        ("honest", an_unreadable_answer),
        ("honest", a_traceback),
    ],
)
def test_a_broken_promise_is_found(rule: str, happens: Callable[[Story], None]) -> None:
    story = Story()
    happens(story)
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
