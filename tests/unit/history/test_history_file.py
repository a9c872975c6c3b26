"""The file of a history: states, compaction, filters and damage."""

import contextlib
import itertools
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import zstandard
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.history.file import HistoryFile, hash_of
from apidiscovery_service.history.model import (
    ChangeFilter,
    ChangeKind,
    ContentDamaged,
    HistoryError,
    NewChange,
    NotRecorded,
    Retention,
)
from hypothesis import given
from hypothesis import strategies as st

STARTED = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass
class Clock:
    """A clock that is moved by hand."""

    now: datetime = STARTED

    def __call__(self) -> float:
        return self.now.timestamp()

    def move(self, **by: float) -> datetime:
        self.now += timedelta(**by)
        return self.now


def change(file: HistoryFile, before: str, after: str, name: str = "apps") -> None:
    """Write another content of a group of the cluster `east`."""
    digests = [hash_of(text.encode()) if text else "" for text in (before, after)]
    new = NewChange("east", ChangeKind.GROUP, name, "poll", digests[0], digests[1])
    file.append([new], {digests[1]: after.encode} if after else {})


def state(file: HistoryFile, when: datetime) -> Mapping[str, str]:
    found = file.state_at("east", when)
    return {name: file.content(digest).decode() for (_, name), digest in found.items()}


# Each step changes names, to a content or to none.
steps = st.lists(
    st.dictionaries(
        st.sampled_from(["", "apps", "batch"]), st.sampled_from(["", "a", "b"]), min_size=1
    ),
    min_size=1,
    max_size=12,
)


@given(steps, st.integers(0, 12))
def test_each_moment_has_its_state_also_after_compaction(
    history: list[dict[str, str]], forgotten: int
) -> None:
    clock = Clock()
    file = HistoryFile(None, clock)
    now: dict[str, str] = {}
    moments: list[tuple[datetime, dict[str, str]]] = []
    for step in history:
        at = clock.move(hours=1)
        for name, content in step.items():
            if content != now.get(name, ""):
                change(file, now.get(name, ""), content, name)
                now[name] = content
        now = {name: content for name, content in now.items() if content}
        moments.append((at, dict(now)))
    begun = file.changes(newest_first=False, limit=1)
    keep = Retention(timedelta(hours=forgotten, minutes=30), 2**40)
    while file.compact(keep):
        pass
    cutoff = clock.now - keep.age
    for at, wanted in moments:
        for when in (at, at + timedelta(minutes=20)):
            if begun and begun[0].time <= when and cutoff <= when and (wanted or file.changes()):
                assert state(file, when) == wanted
    file.close()


def test_a_cluster_whose_last_group_went_long_ago_is_known_to_have_been_empty() -> None:
    clock = Clock()
    file = HistoryFile(None, clock)
    change(file, "", "a")
    clock.move(hours=1)
    change(file, "a", "")
    empty = clock.move(hours=2)
    clock.move(hours=1)
    change(file, "", "b")
    while file.compact(Retention(timedelta(hours=1, minutes=30), 2**40)):
        pass
    assert state(file, empty) == {}
    assert state(file, clock.now) == {"apps": "b"}


def test_moments_before_the_retention_are_refused_and_their_contents_are_gone() -> None:
    clock = Clock()
    file = HistoryFile(None, clock)
    for day in range(10):
        change(file, f"content {day - 1}" if day else "", f"content {day}")
        clock.move(days=1)
    while file.compact(Retention(timedelta(days=3), 2**40)):
        pass
    assert [one.after for one in file.changes()] == [
        hash_of(f"content {day}".encode()) for day in (9, 8, 7)
    ]
    with pytest.raises(ContentDamaged):
        file.content(hash_of(b"content 4"))
    with pytest.raises(NotRecorded, match="begins at 2026-11-08T00:00:00Z"):
        file.state_at("east", STARTED + timedelta(days=5))
    assert state(file, STARTED + timedelta(days=7, hours=1)) == {"apps": "content 7"}


def test_a_history_that_is_too_large_forgets_its_oldest_changes_and_keeps_what_is_served(
    tmp_path: Path,
) -> None:
    clock = Clock()
    file = HistoryFile(tmp_path / "history.sqlite", clock)
    contents = [os.urandom(2000).hex() for _ in range(300)]
    for place, content in enumerate(contents):
        change(file, contents[place - 1] if place else "", content)
        clock.move(seconds=1)
    change(file, "", "never changed", "batch")
    before = file.size_bytes()
    while file.compact(Retention(max_bytes=before // 3)):
        pass
    assert file.size_bytes() <= before // 3
    assert state(file, clock.now) == {"apps": contents[-1], "batch": "never changed"}
    assert file.changes(limit=1)[0].name == "batch"
    assert (tmp_path / "history.sqlite").stat().st_mode & 0o077 == 0


def test_a_limit_that_cannot_be_kept_does_not_forget_what_is_served() -> None:
    file = HistoryFile(None)
    change(file, "", "served")
    while file.compact(Retention(max_bytes=1)):
        pass
    assert state(file, datetime.now(UTC) + timedelta(seconds=1)) == {"apps": "served"}


def test_a_clock_that_goes_back_does_not_confuse_the_order() -> None:
    clock = Clock()
    file = HistoryFile(None, clock)
    change(file, "", "first")
    clock.move(days=-1)
    change(file, "first", "second")
    first, second = file.changes(newest_first=False)
    assert first.time == second.time == STARTED
    assert state(file, STARTED) == {"apps": "second"}


def test_a_change_that_completes_the_last_one_of_its_name_is_not_another() -> None:
    file = HistoryFile(None)
    contents = {hash_of(text): partial(bytes, text) for text in (b"short", b"full")}
    short, full = contents

    def new(name: str, before: str, after: str, *, completes: bool = False) -> NewChange:
        return NewChange("east", ChangeKind.GROUP, name, "poll", before, after, completes=completes)

    file.append([new(name, "", short) for name in ("a", "b")], contents)
    written = file.append(
        [
            new("a", short, full, completes=True),
            new("b", "other", full, completes=True),  # the last change led to no such content
            new("c", "", full),
        ],
        contents,
    )
    assert [(one.id, one.name) for one in written] == [(3, "b"), (4, "c")]
    every = [(one.id, one.name, one.before, one.after) for one in file.changes(newest_first=False)]
    assert every == [
        (1, "a", "", full),
        (2, "b", "", short),
        (3, "b", "other", full),
        (4, "c", "", full),
    ]
    assert file.content(short) == b"short"  # the first change of `b` needs it
    file.append([new("c", full, short, completes=True), new("d", "", full)], contents)
    assert [(one.name, one.after) for one in file.changes(limit=2)] == [("d", full), ("c", short)]


def test_changes_are_filtered_and_paged() -> None:
    file = HistoryFile(None)
    for number in range(5):
        change(file, "", str(number), f"g{number}")
    file.append([NewChange("west", ChangeKind.STATE, "", "connection refused", "", "")], {})
    everything = file.changes()
    assert [one.id for one in everything] == [6, 5, 4, 3, 2, 1]
    assert [one.cause for one in file.changes(ChangeFilter(clusters=("west",)))] == [
        "connection refused"
    ]
    assert file.changes(ChangeFilter(clusters=())) == ()
    assert [one.name for one in file.changes(ChangeFilter(groups=("g1", "g3")))] == ["g3", "g1"]
    assert [one.id for one in file.changes(ChangeFilter(kinds=(ChangeKind.STATE,)))] == [6]
    assert file.changes(limit=2) == everything[:2]
    assert file.changes(before=5, limit=2) == everything[2:4]
    assert [one.id for one in file.changes(after=4, newest_first=False)] == [5, 6]
    assert file.changes(ChangeFilter(since=datetime.now(UTC) + timedelta(minutes=1))) == ()


@pytest.mark.parametrize(
    ("packed", "message"),
    [(zstandard.compress(b"other"), "does not match its hash"), (b"", "unpacked")],
)
def test_a_damaged_content_is_an_error(tmp_path: Path, packed: bytes, message: str) -> None:
    file = HistoryFile(tmp_path / "history.sqlite")
    change(file, "", "served")
    with contextlib.closing(sqlite3.connect(tmp_path / "history.sqlite")) as connection:
        connection.execute("UPDATE contents SET packed = ?", (packed,))
        connection.commit()
    with pytest.raises(ContentDamaged, match=f"{hash_of(b'served')}.*{message}"):
        file.content(hash_of(b"served"))


def test_a_damaged_file_is_moved_away_and_another_begins(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_bytes(b"no database" * 1000)
    file = HistoryFile(path)
    change(file, "", "served")
    file.close()
    (aside,) = tmp_path.glob("history.sqlite.damaged-*")
    assert aside.read_bytes().startswith(b"no database")


def test_a_file_of_another_release_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    HistoryFile(path).close()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 9")
    with pytest.raises(HistoryError, match="has version 9, this release reads 1"):
        HistoryFile(path)


_WRITER = """
import os, sys
from functools import partial
from pathlib import Path
from apidiscovery_service.history.file import HistoryFile, hash_of
from apidiscovery_service.history.model import ChangeKind, NewChange
file = HistoryFile(Path(sys.argv[1]))
before = ""
while True:
    contents = {hash_of(c): partial(bytes, c) for c in (os.urandom(500) for _ in range(20))}
    names = [str(number) for number in range(20)]
    file.append(
        [NewChange("east", ChangeKind.GROUP, n, "poll", "", d) for n, d in zip(names, contents)],
        contents,
    )
    print("written", flush=True)
"""


@pytest.mark.process
def test_a_writer_that_is_killed_leaves_whole_batches(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    writer = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _WRITER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert writer.stdout
    for _ in range(5):
        assert writer.stdout.readline() == "written\n"
    time.sleep(0.01)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    writer.stdout.close()
    file = HistoryFile(path)
    changes = file.changes(limit=10**6)
    assert len(changes) >= 5 * 20
    assert len(changes) % 20 == 0
    for one in changes:
        file.content(one.after)
    file.close()


@pytest.mark.parametrize(
    ("text", "age", "size"),
    [
        ("90d,2GiB", timedelta(days=90), 2**31),
        ("12h, 64MiB", timedelta(hours=12), 2**26),
        ("30m,1KiB", timedelta(minutes=30), 1024),
    ],
)
def test_retentions(text: str, age: timedelta, size: int) -> None:
    assert Retention.parse(text) == Retention(age, size)


@pytest.mark.parametrize("text", ["", "90d", "2GiB", "0d,2GiB", "90d,0MiB", "90 d,2GiB", "1y,1GB"])
def test_other_retentions_are_refused(text: str) -> None:
    with pytest.raises(InvalidConfiguration, match="want an age and a size such as 90d,2GiB"):
        Retention.parse(text)


def test_only_the_clusters_that_may_be_read_about_are_listed() -> None:
    file = HistoryFile(None, Clock())
    digest = hash_of(b"x")
    names = ["", "a", "b", "zz", "m"]
    # Names of groups that sort before and after those of clusters.
    for cluster, group in itertools.product(names, ["", "c", "zzz"]):
        file.append(
            [NewChange(cluster, ChangeKind.GROUP, group, "poll", "", digest)],
            {digest: lambda: b"x"},
        )
    seen = ChangeFilter(may_read=lambda name: name in {"", "b", "m"})
    assert {one.cluster for one in file.changes(seen)} == {"", "b", "m"}
    asked = ChangeFilter(clusters=("a", "b"), may_read=lambda name: name != "a")
    assert {one.cluster for one in file.changes(asked)} == {"b"}
    assert file.changes(ChangeFilter(may_read=lambda _name: False)) == ()


def test_groups_select_their_openapi_documents_too() -> None:
    file = HistoryFile(None, Clock())
    digest = hash_of(b"x")
    keys = [
        (ChangeKind.GROUP, "a"),
        (ChangeKind.OPENAPI, "apis/a/v1"),
        (ChangeKind.OPENAPI, "apis/a.b/v1"),
        (ChangeKind.OPENAPI, "api/v1"),
        (ChangeKind.GROUP, ""),
        (ChangeKind.STATE, ""),
    ]
    file.append([NewChange("c", *key, "poll", "", digest) for key in keys], {digest: lambda: b"x"})
    found = file.changes(ChangeFilter(groups=("a",)), newest_first=False)
    assert [(one.kind, one.name) for one in found] == keys[:2]
    found = file.changes(ChangeFilter(groups=("",)), newest_first=False)
    assert [(one.kind, one.name) for one in found] == keys[3:5]
