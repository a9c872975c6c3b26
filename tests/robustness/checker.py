"""Looks for broken promises in a history. It knows what was asked and answered, and nothing else.

What is promised (docs/reliability.md), and the rule of each:

- `acknowledged`: a write that was acknowledged is seen at once where it was, and within `FRESH_S`
  at every other replica that reaches its store, until a later write takes its place. A document
  that lacks a group, or all of them, breaks this too.
- `refused`: what was refused is never seen, and what nobody wrote neither.
- `order`: what a replica or a watch shows of a group never goes back.
- `gap`: the changes of a watch lead to what the server says that it has.
- `etag`: equal ETags of one document mean equal bytes, everywhere and at any time, and 304 answers
  the condition.
- `lease`: no group is Stale or gone while its owner renews.
- `stale`: no replica, cut off or not, says for longer than `HEARSAY_S` that a group is Current
  whose server answers nobody.
- `cluster`: what is served of a cluster it has really said, and no failure of it, or of ours, makes
  anything unknown or missing that was known: no document, no column of the fleet, and no cell.
- `converged`: once nothing is broken, all replicas serve the same.
- `honest`: no answer is an internal error, unreadable, or the acceptance of what is wrong.

Writes are ordered by real time only: one goes before another when it was answered before the other
was asked for. A write without an answer may take effect at any time after that, or never.
"""

import bisect
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tests.robustness.cluster_rules import wrong_of_clusters
from tests.robustness.history import (
    ANSWERS,
    THERE,
    Calm,
    Content,
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

# The longest that a replica which reaches its store may be behind.
FRESH_S = 10.0

# The longest that a group may be called Current whose server answers nobody.
HEARSAY_S = 75.0

_WITH_FRESHNESS = ("aggregated /apis", "gRPC")
_BROKEN = ("INTERNAL", "UNKNOWN", "DATA_LOSS", "UNIMPLEMENTED")
_MUST_BE_REFUSED = ("invalid", "mismatch")


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise.

    Attributes:
        rule: Which one, as above.
        at: Seconds since the round began.
        text: What was seen, and what was promised.
    """

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.3f} s: {self.text}"


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at everything that a replica serves.

    Attributes:
        where: Who looked at what.
        acked_before: Writes that this replica acknowledged by then must be in it.
    """

    where: str
    replica: str
    began: float
    ended: float
    acked_before: float
    values: Mapping[str, str]
    stale: tuple[str, ...] = ()


def check(history: History) -> list[Violation]:
    """Return all violations of a history, by time."""
    writes = _Writes(history)
    seen = [*_seen_by_readers(history), *_seen_by_watchers(history)]
    found = [
        *_refused(history, writes),
        *_acknowledged(seen, writes),
        *_order(history, writes),
        *_gaps(history),
        *_etags(history),
        *_leases(history, seen, writes),
        *_not_stale(history),
        *(Violation("cluster", at, text) for at, text in wrong_of_clusters(history)),
        *_not_converged(history),
        *_not_honest(history),
    ]
    return sorted(found, key=lambda violation: violation.at)


# --------------------------------------------------------------------------------------------------
# What was written, and what must be visible when.


class _Key:
    """The writes of one key, and the latest of them that must be visible by some time."""

    def __init__(self, writes: Sequence[Write]) -> None:
        self.by_value = {one.value: one for one in writes if one.value is not None}
        self.removals = [one for one in writes if one.value is None and one.outcome != "refused"]
        acked = sorted((one for one in writes if one.outcome == "ok"), key=lambda one: one.ended)
        self._all = _Latest(acked)
        self._at = {
            name: _Latest([one for one in acked if one.replica == name])
            for name in {one.replica for one in acked}
        }

    def required(self, replica: str, acked_before: float, elsewhere_before: float) -> Write | None:
        """Return the write that began last of those that must be visible at a replica."""
        # What no replica acknowledged was seen at all of them when it was recorded.
        own = [self._at[name].before(acked_before) for name in (replica, "") if name in self._at]
        found = [one for one in (*own, self._all.before(elsewhere_before)) if one is not None]
        return max(found, key=lambda one: one.began, default=None)


class _Latest:
    """Answers which of the writes that had ended by a time began last."""

    def __init__(self, by_end: Sequence[Write]) -> None:
        self._ends = [one.ended for one in by_end]
        self._latest = list[Write]()
        for one in by_end:
            before = self._latest[-1] if self._latest else one
            self._latest.append(max(before, one, key=lambda each: each.began))

    def before(self, time: float) -> Write | None:
        place = bisect.bisect_right(self._ends, time)
        return self._latest[place - 1] if place else None


class _Writes:
    """All writes by key, with those that a restore may have undone taken for unanswered."""

    def __init__(self, history: History) -> None:
        self._restores = history.of(Restore)
        self._faults = history.of(Fault)
        self.leased = {one.key for one in history.of(Renewal)}
        by_key = defaultdict[str, list[Write]](list)
        for one in history.of(Write):
            lost = one.outcome == "ok" and any(
                one.ended >= restore.backup and one.began <= restore.restored
                for restore in self._restores
            )
            by_key[one.key].append(replace(one, outcome="unknown") if lost else one)
        self.keys = {key: _Key(writes) for key, writes in by_key.items()}

    def elsewhere_before(self, replica: str, time: float) -> float:
        """Return by when a write must have been acknowledged by another replica to be seen now.

        Time while the replica could not reach its store, and `FRESH_S` after it, does not count.
        """
        limit = time - FRESH_S
        for fault in sorted(self._faults, key=lambda one: -one.ended):
            if replica in fault.blinds and fault.ended > limit and fault.began < time:
                limit = min(limit, fault.began - FRESH_S)
        return limit


# --------------------------------------------------------------------------------------------------
# What was seen.


def _seen_by_readers(history: History) -> Iterator[Seen]:
    contents = history.contents
    by_etag = {(one.what, one.etag): one.content for one in history.of(Read) if one.content}
    for one in history.of(Read):
        known = one.content or (
            by_etag.get((one.what, one.condition), "") if one.status == "304" else ""
        )
        if known:
            content, where = contents[known], f"{one.client} of {one.replica}, {one.what}"
            yield Seen(
                where, one.replica, one.began, one.ended, one.began, content.values, content.stale
            )


def _seen_by_watchers(history: History) -> Iterator[Seen]:
    """Return what watchers held when they were told that they were up to date.

    Nobody knows how long a message was on its way, so it counts for the `FRESH_S` before it came.
    """
    held = dict[str, dict[str, str]]()
    for event in history.of(Event):
        if event.kind == "open":
            held[event.stream] = dict(event.changed)
            continue
        values = held[event.stream]
        values |= event.changed
        for group in event.removed:
            values.pop(group, None)
        if event.kind == "heartbeat":
            at, where = event.at, f"watch {event.stream} of {event.replica}"
            yield Seen(where, event.replica, at - FRESH_S, at, at - FRESH_S, dict(values))


# --------------------------------------------------------------------------------------------------
# The rules.


def _refused(history: History, writes: _Writes) -> Iterator[Violation]:
    first = dict[str, float]()
    for read in history.of(Read):
        if read.content:
            first.setdefault(read.content, read.ended)
    looks: Iterable[tuple[float, Mapping[str, str]]] = [
        *((first[one.id], one.values) for one in history.of(Content) if one.id in first),
        *((one.at, one.changed) for one in history.of(Event)),
    ]
    told = set[tuple[str, str]]()
    for at, values in looks:
        for group, value in values.items():
            if value == THERE or group not in writes.keys or (group, value) in told:
                continue
            write = writes.keys[group].by_value.get(value)
            if write is None:
                text = f"{group} shows {value}, which nobody has written there"
            elif write.outcome == "refused":
                text = f"{group} shows {value}, which {write.replica} refused: {write.detail}"
            elif write.began > at:
                text = f"{group} shows {value}, which was written later, at {write.began} s"
            else:
                continue
            told.add((group, value))
            yield Violation("refused", at, text)


def _acknowledged(seen: Sequence[Seen], writes: _Writes) -> Iterator[Violation]:
    told = set[tuple[str, str, str | None]]()
    for look in seen:
        limit = writes.elsewhere_before(look.replica, look.began)
        for group, key in writes.keys.items():
            required = key.required(look.replica, look.acked_before, limit)
            value = look.values.get(group)
            if required is None or _is_recent(key, value, required, look):
                continue
            if value is None and group in writes.leased:
                continue  # the rule of leases
            if (look.where, group, required.value) not in told:
                told.add((look.where, group, required.value))
                yield Violation("acknowledged", look.ended, _behind(look, group, value, required))


def _is_recent(key: _Key, value: str | None, required: Write, look: Seen) -> bool:
    """Tell whether a value may be there, given a write that must be visible."""
    if value is None:
        return any(
            _effective_until(one) >= required.began and one.began <= look.ended
            for one in key.removals
        )
    if value == THERE:
        return any(
            one.outcome != "refused"
            and _effective_until(one) >= required.began
            and one.began <= look.ended
            for one in key.by_value.values()
        )
    write = key.by_value.get(value)
    return write is None or _effective_until(write) >= required.began


def _effective_until(write: Write) -> float:
    """Return by when a write has taken effect if it ever does."""
    return write.ended if write.outcome == "ok" else math.inf


def _behind(look: Seen, group: str, value: str | None, required: Write) -> str:
    shown = "lacks it" if value is None else f"shows {value}"
    wanted = "its removal" if required.value is None else required.value
    who = required.replica or required.client
    return (
        f"{group}: {who} acknowledged {wanted} at {required.ended} s "
        f"(asked at {required.began} s), and {look.where}, asked at {look.began:.3f} s, {shown}"
    )


@dataclass(frozen=True, slots=True)
class _Look:
    began: float
    ended: float
    value: str | None


def _order(history: History, writes: _Writes) -> Iterator[Violation]:
    for (observer, group), looks in _looks_by_key(history, writes).items():
        key = writes.keys[group]
        for epoch in _between_restores(looks, history):
            yield from _returned(observer, group, epoch)
            yield from _went_back(observer, group, key, epoch)


def _looks_by_key(history: History, writes: _Writes) -> dict[tuple[str, str], list[_Look]]:
    """Return what each replica (over all readers) and each stream showed of each key, by time."""
    found = defaultdict[tuple[str, str], list[_Look]](list)
    for observer, group, look in (
        *_looks_of_readers(history, writes),
        *_looks_of_watchers(history),
    ):
        if group in writes.keys and look.value != THERE:
            found[observer, group].append(look)
    return found


def _looks_of_readers(history: History, writes: _Writes) -> Iterator[tuple[str, str, _Look]]:
    for read in history.of(Read):
        if read.content:
            values = history.contents[read.content].values
            for group in writes.keys:
                yield read.replica, group, _Look(read.began, read.ended, values.get(group))


def _looks_of_watchers(history: History) -> Iterator[tuple[str, str, _Look]]:
    for event in history.of(Event):
        if event.kind == "changes":
            where = f"watch {event.stream} of {event.replica}"
            for group, value in event.changed.items():
                yield where, group, _Look(event.at, event.at, value)
            for group in event.removed:
                yield where, group, _Look(event.at, event.at, None)


def _between_restores(looks: Sequence[_Look], history: History) -> Iterator[list[_Look]]:
    """Return looks in parts, without those at which replicas may not have noticed a restore.

    They may agree before they notice: all of them serve what was there before.
    """
    breaks = list[tuple[float, float]]()
    for restore in history.of(Restore):
        calms = [one.ended for one in history.of(Calm) if one.ended > restore.restored]
        noticed = restore.restored + FRESH_S
        breaks.append((restore.backup, max(min(calms, default=math.inf), noticed)))
    start = -math.inf
    for begin, end in [*sorted(breaks), (math.inf, math.inf)]:
        yield [look for look in looks if look.began >= start and look.ended < begin]
        start = max(start, end)


def _returned(observer: str, group: str, looks: Sequence[_Look]) -> Iterator[Violation]:
    """Find a value that was there, was not, and was there again, though each is written once."""
    first_end, last = dict[str, float](), dict[str, _Look]()
    for look in looks:
        if look.value is not None:
            first_end[look.value] = min(first_end.get(look.value, math.inf), look.ended)
            before = last.get(look.value, look)
            last[look.value] = max(before, look, key=lambda one: one.began)
    by_begin = sorted(looks, key=lambda one: one.began)
    begins = [look.began for look in by_begin]
    for value, end in first_end.items():
        between = by_begin[
            bisect.bisect_left(begins, end) : bisect.bisect_left(begins, last[value].began)
        ]
        other = next(
            (one for one in between if one.value != value and one.ended <= last[value].began), None
        )
        if other is not None and other.ended > end:
            text = f"{observer} showed {value} of {group}, then {other.value}, then {value} again"
            yield Violation("order", last[value].ended, text)


def _went_back(observer: str, group: str, key: _Key, looks: Sequence[_Look]) -> Iterator[Violation]:
    """Find a value that was shown after one that was written later."""
    known = [
        (look, key.by_value[look.value])
        for look in looks
        if look.value is not None and look.value in key.by_value
    ]
    by_end = sorted(known, key=lambda pair: pair[0].ended)
    latest = _Latest([replace(write, ended=look.ended) for look, write in by_end])
    told = set[str | None]()
    for look, write in known:
        before = latest.before(look.began)
        if before is None or before.value == write.value or write.value in told:
            continue
        if _effective_until(write) < before.began:
            told.add(write.value)
            text = (
                f"{observer} showed {before.value} of {group}, then {write.value}, which is older"
            )
            yield Violation("order", look.ended, text)


def _gaps(history: History) -> Iterator[Violation]:
    for event in history.of(Event):
        where = f"watch {event.stream} of {event.replica}"
        if event.etag != event.held:
            text = (
                f"{where}: the {event.kind} lead to {event.held[:12]}, told was {event.etag[:12]}"
            )
            yield Violation("gap", event.at, text)
        if event.problem.startswith("unreadable"):
            yield Violation("gap", event.at, f"{where}: {event.problem}")


def _etags(history: History) -> Iterator[Violation]:
    bodies, etags, said = (
        dict[tuple[str, str], Read](),
        dict[tuple[str, str], Read](),
        dict[str, Read](),
    )
    for read in history.of(Read):
        if read.status == "304" and read.etag and read.etag != read.condition:
            text = f"{read.replica} answered 304 with {read.etag} for {read.condition}"
            yield Violation("etag", read.ended, text)
        if not read.etag or not read.content:
            continue
        if read.body:
            other = bodies.setdefault((read.what, read.etag), read)
            both = f"{other.replica} and {read.replica}"
            if other.body != read.body:
                text = f"{read.what} of {both}: other bytes under {read.etag}"
                yield Violation("etag", read.ended, text)
            other = etags.setdefault((read.what, read.body), read)
            both = f"{other.replica} and {read.replica}"
            if other.etag != read.etag:
                text = f"{read.what} of {both}: two ETags for the same bytes"
                yield Violation("etag", read.ended, text)
        if read.what in _WITH_FRESHNESS:  # one document over two transports
            other = said.setdefault(read.etag.strip('"'), read)
            if other.content != read.content:
                both = f"{other.what} of {other.replica} and {read.what} of {read.replica}"
                text = f"{both} differ under one ETag"
                yield Violation("etag", read.ended, text)


def _leases(history: History, seen: Sequence[Seen], writes: _Writes) -> Iterator[Violation]:
    told = set[tuple[str, str, str]]()
    for key in sorted(writes.leased):
        renewals = [one for one in history.of(Renewal) if one.key == key and one.outcome == "ok"]
        if not renewals:
            continue
        stale = list(_silences(renewals, renewals[0].lease_s))
        gone = list(_silences(renewals, renewals[0].lease_s + renewals[0].removal_s))
        for look in seen:
            since = writes.elsewhere_before(look.replica, look.began)
            if since <= renewals[0].ended or _is_near_restore(history, since, look.ended):
                continue
            word, allowed = ("gone", gone) if key not in look.values else ("Stale", stale)
            if word == "Stale" and key not in look.stale:
                continue
            if any(begin <= look.ended and end >= since for begin, end in allowed):
                continue
            if (look.where, key, word) not in told:
                told.add((look.where, key, word))
                text = f"{look.where}: {key} is {word} though its owner has renewed all along"
                yield Violation("lease", look.ended, text)


def _silences(renewals: Sequence[Renewal], limit_s: float) -> Iterator[tuple[float, float]]:
    """Return from when to when an owner was taken for gone, rightly."""
    for one, following in itertools.pairwise(renewals):
        if following.ended - one.began >= limit_s:
            yield one.began + limit_s, following.ended
    yield renewals[-1].began + limit_s, math.inf


def _is_near_restore(history: History, began: float, ended: float) -> bool:
    for restore in history.of(Restore):
        calms = [one.ended for one in history.of(Calm) if one.ended > restore.restored]
        if ended >= restore.backup and began <= min(calms, default=math.inf) + FRESH_S:
            return True
    return False


def _not_stale(history: History) -> Iterator[Violation]:
    told = set[tuple[str, str, float]]()
    for outage in history.of(Outage):
        for read in history.of(Read):
            if not (outage.began + HEARSAY_S < read.began and read.ended < outage.ended):
                continue
            content = history.contents.get(read.content) if read.what in _WITH_FRESHNESS else None
            if content is None or outage.key not in content.values or outage.key in content.stale:
                continue
            where = (read.replica, read.what, outage.began)
            if where not in told:
                told.add(where)
                since = f"{read.began - outage.began:.0f} s after its server fell silent"
                text = f"{read.replica}, {read.what}: {outage.key} is Current, {since}"
                yield Violation("stale", read.ended, text)


def _not_converged(history: History) -> Iterator[Violation]:
    for calm in history.of(Calm):
        if not calm.agreed:
            passed = f"{calm.ended - calm.began:.0f} s"
            text = f"{passed} after {calm.after!r} replicas differ: {calm.detail}"
            yield Violation("converged", calm.ended, text)


def _not_honest(history: History) -> Iterator[Violation]:
    for write in history.of(Write):
        if write.op in _MUST_BE_REFUSED and write.outcome == "ok":
            text = f"{write.replica} accepted a write of {write.key} that is {write.op}"
            yield Violation("honest", write.ended, text)
        if write.detail.startswith(_BROKEN):
            yield Violation("honest", write.ended, f"{write.replica} answered {write.detail}")
    for read in history.of(Read):
        if read.status not in ANSWERS:
            text = f"{read.replica} answered {read.status} {read.problem} to {read.what}"
            yield Violation("honest", read.ended, text)
        if read.problem.startswith("unreadable"):
            text = f"{read.replica}, {read.what}: {read.problem}"
            yield Violation("honest", read.ended, text)
    for event in history.of(Event):
        if event.problem.startswith(_BROKEN):
            text = f"watch {event.stream} of {event.replica} ended with {event.problem}"
            yield Violation("honest", event.at, text)
    for note in history.of(Note):
        yield Violation("honest", note.at, f"{note.replica}: {note.text}")
