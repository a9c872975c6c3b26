"""Recent events: their revisions, selections of them, and the wakeup of watchers."""

import pytest
from apidiscovery_service.kube.objects.kinds import Object
from apidiscovery_service.kube.objects.metadata import metadata_of
from apidiscovery_service.kube.objects.watch_events import EventType
from apidiscovery_service.storage_versions.collection import (
    Removal,
    StoredObject,
    Write,
    dated,
)
from apidiscovery_service.storage_versions.recent_events import (
    Event,
    EventLog,
    Expired,
    Gap,
    narrowed,
)


def stored(name: str, revision: int) -> StoredObject:
    return StoredObject({"metadata": {"name": name}}, f"storageversions/{name}", revision, revision)


def put(revision: int) -> Write:
    return Write(stored("a.a", revision), None)


REMOVED = Removal(stored("b.b", 1), 9)


@pytest.mark.parametrize(
    ("removals", "writes", "dates"),
    [
        pytest.param([], [], [], id="nothing"),
        pytest.param([], [6, 8], [(6, 6), (8, 8)], id="writes have their own"),
        pytest.param([REMOVED], [], [(9, 9)], id="a removal alone has that of the batch"),
        pytest.param([REMOVED], [7, 8], [(6, 9), (7, 7), (8, 8)], id="a removal and writes"),
        pytest.param([REMOVED] * 3, [], [(5, 9), (5, 9), (9, 9)], id="removals"),
        pytest.param([REMOVED] * 2, [7], [(5, 9), (6, 9), (7, 7)], id="removals and a write"),
        pytest.param([Removal(stored("a.a", 1), 7)], [8], [(7, 7), (8, 8)], id="created again"),
    ],
)
def test_a_reader_that_continues_after_an_event_has_seen_all_up_to_its_revision(
    removals: list[Removal], writes: list[int], dates: list[tuple[int, int]]
) -> None:
    events = dated(removals, [put(revision) for revision in writes], 5, 9)
    assert [(event.revision, event.until) for event in events] == dates
    for event in events:
        if event.type is EventType.DELETED:
            assert metadata_of(event.object)["resourceVersion"] == str(event.revision)


def test_a_watcher_that_started_within_a_gap_must_list_again() -> None:
    history = EventLog(10)
    history.restart(5)
    history.extend([Gap(5, 9), *dated([], [put(11)], 9, 11)])
    for begun in (6, 8):
        with pytest.raises(Expired):
            history.at(history.after(begun), begun, begun)
    assert history.at(history.after(5), 5, 5) is None
    event = history.at(history.after(9), 9, 9)
    assert event is not None
    assert event.revision == 11


def an_object(look: str) -> Object:
    return {"metadata": {"name": "a.a", "resourceVersion": "1"}, "status": {"look": look}}


@pytest.mark.parametrize(
    ("kind", "before", "now", "seen"),
    [
        ("ADDED", "", "good", "ADDED"),
        ("ADDED", "", "bad", ""),
        ("MODIFIED", "good", "good", "MODIFIED"),
        ("MODIFIED", "bad", "good", "ADDED"),
        ("MODIFIED", "good", "bad", "DELETED"),
        ("MODIFIED", "bad", "bad", ""),
        ("DELETED", "good", "good", "DELETED"),
        ("DELETED", "bad", "bad", ""),
    ],
)
def test_a_selection_sees_objects_come_and_go(kind: str, before: str, now: str, seen: str) -> None:
    event = Event(EventType(kind), an_object(now), 7, 7, an_object(before) if before else None)
    found = narrowed(event, lambda value: value["status"] == {"look": "good"})
    assert (found.type.value if found else "") == seen
    if found is not None and seen == kind == "MODIFIED":
        assert found is event
    if found is not None and seen == "DELETED":
        assert found.object["status"] == {"look": "good"}
        assert metadata_of(found.object)["resourceVersion"] == "7"


def test_every_selection_gets_bookmarks() -> None:
    event = Event(EventType.BOOKMARK, {}, 7, 7)
    assert narrowed(event, lambda _: False) is event
