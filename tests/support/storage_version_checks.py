"""Checks of a recorded history of storage versions.

They know nothing of the implementation. Each returns descriptions of violations, and none of them
is wrong: when events were recorded late, a check finds less.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from storage_version_history import Beat, History, Report, Seen


@dataclass(frozen=True, slots=True)
class Run:
    """A guarded migration that came to its end.

    Attributes:
        revision: The revision of the object at which all agreed.
        began: When its body began.
        ended: When its body ended.
    """

    name: str
    uid: str
    version: str
    since: int
    revision: int
    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Write:
    """A write that an API server carried out, as its client saw it.

    Attributes:
        life_began: When the process was started.
        ended: When the answer came, or the request failed.
    """

    server_id: str
    version: str
    life_began: float
    began: float
    ended: float


def wrong_of(history: History, runs: Sequence[Run] = ()) -> list[str]:
    """Return all violations."""
    return [
        *(
            f"replicas tell {name} at {revision} differently"
            for name, revision in history.differing
        ),
        *_wrong_agreements(history.seen),
        *_wrong_times(history.seen),
        *_lost_reports(history),
        *_early_ends(history),
        *_broken_runs(history, runs),
    ]


def _wrong_agreements(seen: Iterable[Seen]) -> Iterator[str]:
    for one in seen:
        versions = set(one.entries.values())
        common = versions.pop() if len(versions) == 1 else ""
        wanted = (common, "True" if common else "False")
        if (one.common, one.status) != wanted:
            yield f"{one.name} at {one.revision} says {one.common!r}, {one.status}: {one.entries}"


def _wrong_times(seen: Iterable[Seen]) -> Iterator[str]:
    for before, after in _successive(seen):
        is_transition = (before.common, before.status) != (after.common, after.status)
        if after.since < before.since or (is_transition and after.since == before.since):
            yield (
                f"{after.name}: {before.common!r} since {before.since} at {before.revision},"
                f" {after.common!r} since {after.since} at {after.revision}"
            )


def _successive(seen: Iterable[Seen]) -> Iterator[tuple[Seen, Seen]]:
    by_object: dict[tuple[str, str], list[Seen]] = defaultdict(list)
    for one in sorted(seen, key=lambda one: one.revision):
        by_object[one.name, one.uid].append(one)
    for row in by_object.values():
        yield from pairwise(row)


def transitions(history: History) -> int:
    """Return how often an agreement began, ended or changed, over all objects."""
    return sum(before.claim != after.claim for before, after in _successive(history.seen))


# An acknowledged report is kept as long as its server is a member.


def _lost_reports(history: History) -> Iterator[str]:
    reports: dict[str, list[Report]] = defaultdict(list)
    beats: dict[str, list[Beat]] = defaultdict(list)
    for report in history.reports:
        reports[report.server_id].append(report)
    for beat in history.beats:
        beats[beat.server_id].append(beat)
    for server_id, its_reports in reports.items():
        lasting = [
            (report, until)
            for report in its_reports
            if report.is_acknowledged and (until := _membership_of(report, beats[server_id]))
        ]
        for one in history.seen:
            yield from _lost(one, lasting, its_reports)
        for report, until in lasting:
            yield from _removed(report, until, history)


def _membership_of(report: Report, beats: Iterable[Beat]) -> Beat | None:
    """Return the last heartbeat known of the membership in which a report was acknowledged.

    None when it is not certain that the membership was the same before and after the report.
    """
    before = [beat for beat in beats if beat.ended <= report.began]
    if not before:
        return None
    uid = max(before, key=lambda beat: beat.revision).uid
    after = [beat for beat in beats if beat.began >= report.ended and beat.uid == uid]
    return max(after, key=lambda beat: beat.revision, default=None)


def _lost(
    one: Seen, lasting: Iterable[tuple[Report, Beat]], reports: Sequence[Report]
) -> Iterator[str]:
    for report, until in lasting:
        revision = report.revisions.get(one.name, one.revision + 1)
        if revision <= one.revision <= until.revision:
            if one.entries.get(report.server_id) not in _may_say(one, reports):
                yield (
                    f"{one.name} at {one.revision} has lost {report.server_id}, which reported"
                    f" {report.versions[one.name]} at {revision}: {one.entries}"
                )
            return  # the entry exists, whichever report it comes from


def _may_say(one: Seen, reports: Iterable[Report]) -> set[str]:
    """Return the versions that the entry of a server may have: the last, or an uncertain one."""
    about = [report for report in reports if one.name in report.versions]
    done = [r for r in about if r.revisions.get(one.name, one.revision + 1) <= one.revision]
    # A report that changes nothing has the revision of the one before.
    latest = max((r.revisions[one.name] for r in done), default=0)
    allowed = [r for r in done if r.revisions[one.name] == latest]
    uncertain = [r for r in about if r not in done and r.began <= one.at]
    return {r.versions[one.name] for r in allowed + uncertain}


def _removed(report: Report, until: Beat, history: History) -> Iterator[str]:
    for gone in history.gone:
        reported = history.at_revision(gone.name, report.revisions.get(gone.name, 0))
        if reported and reported.uid == gone.uid and gone.at < until.began:
            yield f"{gone.name} was removed though {report.server_id} had reported it"


def _early_ends(history: History) -> Iterator[str]:
    """Find memberships that ended before the lease, without a departure."""
    last: dict[str, Beat] = {}
    for beat in sorted(history.beats, key=lambda beat: beat.revision):
        before = last.get(beat.server_id)
        last[beat.server_id] = beat
        if before is None or before.uid == beat.uid or before.holder != beat.holder:
            continue  # a new life takes the place of the one before
        has_departed = any(
            one.server_id == beat.server_id and one.began <= beat.ended
            for one in history.departures
        )
        if beat.ended < before.began + before.lease_s and not has_departed:
            yield f"the lease of {beat.server_id} ended early: {before} {beat}"


# Guarantees for a guarded migration.


def _broken_runs(history: History, runs: Iterable[Run]) -> Iterator[str]:
    seen: dict[str, list[Seen]] = defaultdict(list)
    for one in history.seen:
        seen[one.name].append(one)
    for run in runs:
        claim = (run.uid, run.version, "True", run.since)
        for one in seen[run.name]:
            if one.revision > run.revision and one.at < run.ended and one.claim != claim:
                yield f"{run} was not interrupted by {one}"
        for gone in history.gone:
            if gone.uid == run.uid and gone.at < run.ended:
                yield f"{run} was not interrupted by the removal"


def wrong_writes(
    history: History, name: str, writes: Iterable[Write], runs: Sequence[Run]
) -> list[str]:
    """Return writes in versions that were not reported before."""
    wrong: list[str] = []
    of_name = [run for run in runs if run.name == name]
    told = sorted((one for one in history.seen if one.name == name), key=lambda one: one.at)
    for write in writes:
        reports = [r for r in history.reports if _covers(r, write, name)]
        if not reports:
            wrong.append(f"{write} before any report was acknowledged")
            continue
        before = [one for one in told if one.at < write.began]
        latest = max(before, key=lambda one: one.revision, default=None)
        revision = max(report.revisions[name] for report in reports)
        if latest and revision < latest.revision and not _says(latest, write):
            wrong.append(f"{write} though {latest} had been told")
        wrong += [
            f"{write} within {run}"
            for run in of_name
            if run.began < write.began and write.ended < run.ended and run.version != write.version
        ]
    return wrong


def _covers(report: Report, write: Write, name: str) -> bool:
    is_of_life = report.server_id == write.server_id and report.began >= write.life_began
    return is_of_life and report.ended <= write.ended and report.versions[name] == write.version


def _says(one: Seen, write: Write) -> bool:
    return one.entries.get(write.server_id) == write.version
