"""Agreement of API servers on a storage version: recorded histories of Kubernetes, and rules."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from apidiscovery_service.storage_versions.model import (
    ALL_ENCODING_VERSIONS_EQUAL,
    Condition,
    ServerStorageVersion,
    Status,
    with_entry,
    without_servers,
)
from hypothesis import given
from hypothesis import strategies as st
from repository import GOLDEN

HISTORIES: list[list[dict[str, Any]]] = json.loads((GOLDEN / "storage-versions.json").read_text())
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)

Report: TypeAlias = tuple[str, str]  # API server and the version in which it writes

servers = st.sampled_from(["a", "b", "c"])
versions = st.sampled_from(["apps/v1", "apps/v1beta1", "apps/v2"])
reports: st.SearchStrategy[Report] = st.tuples(servers, versions)
removals = st.tuples(servers, st.none())
moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 - hypothesis wants them naive


def entry(report: Report) -> ServerStorageVersion:
    server, version = report
    return ServerStorageVersion(server, version, (version,), (version,))


def after(
    history: Sequence[tuple[str, str | None]], status: Status | None = None, now: datetime = START
) -> Status:
    """Return the status after reports, and removals where there is no version."""
    status = status or Status()
    for server, version in history:
        if version is None:
            status = without_servers(status, {server}, generation=0, now=now)
        else:
            status = with_entry(status, entry((server, version)), generation=0, now=now)
    return status


def as_golden(status: Status) -> dict[str, Any]:
    """Return the status in the form of the golden file, which has no times."""
    value: dict[str, Any] = {
        "conditions": [
            {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message}
            for c in status.conditions
        ]
    }
    if status.common_encoding_version is not None:
        value["commonEncodingVersion"] = status.common_encoding_version
    if status.entries:
        value["storageVersions"] = [
            {
                "apiServerID": e.api_server_id,
                "encodingVersion": e.encoding_version,
                "decodableVersions": list(e.decodable_versions),
                "servedVersions": list(e.served_versions),
            }
            for e in status.entries
        ]
    return value


def since(status: Status) -> datetime | None:
    return status.condition.last_transition_time if status.condition else None


@pytest.mark.parametrize("history", HISTORIES, ids=range(len(HISTORIES)))
def test_every_step_of_a_recorded_history_is_as_kubernetes_has_it(
    history: list[dict[str, Any]],
) -> None:
    status = Status()
    for step, recorded in enumerate(history):
        before, now = status, START + step * SECOND
        if recorded["op"] == "remove":
            status = without_servers(status, {recorded["server"]}, generation=0, now=now)
        else:
            said = ServerStorageVersion(
                recorded["server"],
                recorded["encodingVersion"],
                tuple(recorded["decodableVersions"]),
                tuple(recorded["servedVersions"]),
            )
            status = with_entry(status, said, generation=0, now=now)
        assert as_golden(status) == recorded["status"], step
        assert (since(status) != since(before)) == recorded["transitioned"], step


def test_the_recorded_histories_are_all_there() -> None:
    assert len(HISTORIES) == 30
    assert sum(map(len, HISTORIES)) == 450


@given(st.lists(reports | removals))
def test_there_is_a_common_version_if_and_only_if_all_that_are_left_write_it(
    history: list[tuple[str, str | None]],
) -> None:
    status = after(history)
    left = {server: version for server, version in history}  # noqa: C416 - the last one wins
    written = {version for version in left.values() if version is not None}
    assert status.common_encoding_version == (written.pop() if len(written) == 1 else None)
    assert status.agreed == (status.common_encoding_version is not None)
    if status.condition:
        assert status.condition.status == str(status.agreed)


@given(
    st.dictionaries(servers, versions, min_size=1).flatmap(lambda d: st.permutations([*d.items()]))
)
def test_the_order_of_reports_decides_nothing_but_the_order_of_entries(
    history: list[Report],
) -> None:
    one, other = after(history), after(sorted(history))
    assert sorted(one.entries, key=str) == sorted(other.entries, key=str)
    assert one.common_encoding_version == other.common_encoding_version
    assert one.condition is not None
    assert other.condition is not None
    assert one.condition.status == other.condition.status


@given(st.lists(reports | removals), reports, moments)
def test_the_same_report_again_changes_nothing(
    history: list[tuple[str, str | None]], last: Report, later: datetime
) -> None:
    status = after([*history, last])
    assert with_entry(status, entry(last), generation=0, now=later) == status


@given(st.lists(st.tuples(reports | removals, moments)))
def test_each_transition_is_later_than_the_one_before_whatever_the_clocks_say(
    history: list[tuple[tuple[str, str | None], datetime]],
) -> None:
    states = [Status()]
    for change, now in history:
        states.append(after([change], states[-1], now))
    for old, new in pairwise(states):
        if (then := since(old)) is None or (moment := since(new)) is None:
            continue
        word = old.condition and old.condition.status
        stays = new.condition is not None and word == new.condition.status
        # A version unset by one report is set by another, so the word changes then too.
        if old.common_encoding_version != new.common_encoding_version or not stays:
            assert moment > then
        else:
            assert moment == then


@given(st.lists(reports), reports, servers)
def test_entries_that_are_gone_are_removed_by_the_report_as_one_transition(
    history: list[Report], last: Report, gone: str
) -> None:
    status = after(history)
    at_once = with_entry(status, entry(last), generation=0, now=START, gone={gone})
    one_by_one = after([(gone, None), last], status)
    assert set(at_once.entries) == set(one_by_one.entries)
    assert at_once.common_encoding_version == one_by_one.common_encoding_version
    then, moment = since(status), since(at_once)
    assert moment is not None
    assert then is None or moment - then <= SECOND


def test_two_entries_of_one_server_become_one() -> None:
    twice = Status((entry(("a", "v1")), entry(("b", "v1")), entry(("a", "v2"))))
    status = with_entry(twice, entry(("a", "v1")), generation=0, now=START)
    assert status.entries == (entry(("a", "v1")), entry(("b", "v1")))


def test_reason_and_message_of_a_kept_condition_are_renewed() -> None:
    before = after([("a", "v1")])
    stale = replace(before, conditions=(replace(before.conditions[0], reason="R", message=""),))
    status = with_entry(stale, entry(("a", "v1")), generation=7, now=START + SECOND)
    assert status.conditions == (replace(before.conditions[0], observed_generation=7),)


def test_other_conditions_keep_their_places() -> None:
    first = Condition("First", "Unknown", "Because")
    ours = after([("a", "v1")]).conditions[0]
    last = Condition("Last", "True", "Because", last_transition_time=START)
    before = Status((entry(("a", "v1")),), "v1", (first, ours, last))
    status = with_entry(before, entry(("b", "v2")), generation=0, now=START)
    assert [c.type for c in status.conditions] == ["First", ALL_ENCODING_VERSIONS_EQUAL, "Last"]
    assert (status.conditions[0], status.conditions[2]) == (first, last)


def test_a_transition_has_no_fractions_of_a_second_and_is_in_utc() -> None:
    east = datetime.fromisoformat("2026-03-01T14:00:00.987654+02:00")
    assert since(after([("a", "v1")], now=east)) == START


def test_a_transition_is_not_later_than_the_last_possible_time() -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    status = after([("a", "v1")], now=end)
    assert since(after([("a", "v2")], status)) == end


def test_a_condition_without_a_time_gets_one_with_its_next_transition() -> None:
    timeless = Condition(ALL_ENCODING_VERSIONS_EQUAL, "True", "R")
    before = Status((entry(("a", "v1")),), "v1", (timeless,))
    assert since(with_entry(before, entry(("a", "v1")), generation=0, now=START)) is None
    assert since(with_entry(before, entry(("b", "v2")), generation=0, now=START)) == START
