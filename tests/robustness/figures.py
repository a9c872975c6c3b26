"""Counts what rounds did and how long replicas took to agree, as tables of docs/reliability.md."""

import bisect
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.robustness.history import Calm, Event, Fault, History, Read, Write

_QUIET_AFTER_S = 2.0


@dataclass
class Figures:
    """What rounds on one kind of store amount to.

    Attributes:
        counts: By what was counted.
        lags: Seconds from the acknowledgement of a write by one replica until a watcher of another
            has it, while nothing is broken.
        frozen_lags: The same while one etcd member of three is frozen.
        agreed: By fault the seconds from its end until all replicas served the same.
    """

    counts: Counter[str] = field(default_factory=Counter[str])
    lags: list[float] = field(default_factory=list[float])
    frozen_lags: list[float] = field(default_factory=list[float])
    agreed: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, history: History, violations: int) -> None:
        """Count a round; its history is not needed any more."""
        counts, faults = self.counts, history.of(Fault)
        counts["rounds"] += 1
        counts["seconds"] += int(max((one.ended for one in history.of(Calm)), default=0))
        counts["faults"] += len(faults)
        counts["violations"] += violations
        counts.update(one.outcome for one in history.of(Write) if one.replica)
        counts["reads"] += sum(bool(one.status) for one in history.of(Read))
        counts["events"] += sum(one.kind == "changes" for one in history.of(Event))
        for calm in history.of(Calm):
            self.agreed[calm.after].append(calm.ended - calm.began)
        for at, lag in _lags(history):
            during = [
                one for one in faults if one.began <= at + lag and at <= one.ended + _QUIET_AFTER_S
            ]
            if not during:
                self.lags.append(lag)
            elif all(one.name.startswith("freeze of one etcd member") for one in during):
                self.frozen_lags.append(lag)


def _lags(history: History) -> Iterator[tuple[float, float]]:
    """Return when each write was acknowledged, and after how long another replica showed it."""
    shown = defaultdict[tuple[str, str], list[tuple[float, str]]](list)
    for event in history.of(Event):
        for group, value in event.changed.items():
            if event.kind == "changes":
                shown[event.replica, value].append((event.at, group))
    names = {event.replica for event in history.of(Event)}
    for write in history.of(Write):
        if write.outcome != "ok" or write.value is None or not write.replica:
            continue
        for name in names - {write.replica}:
            times = sorted(shown.get((name, write.value), ()))
            place = bisect.bisect_left(times, (write.began, ""))
            if place < len(times):
                yield write.ended, max(0.0, times[place][0] - write.ended)


_ROWS: Sequence[tuple[str, str]] = (
    ("rounds", "rounds"),
    ("faults", "faults"),
    ("ok", "writes acknowledged"),
    ("refused", "writes refused"),
    ("unknown", "writes without an answer"),
    ("reads", "answers read"),
    ("events", "changes told by watches"),
    ("violations", "violations"),
)


def tables(by_kind: Mapping[str, Figures]) -> str:
    """Return the tables of the page, in Markdown."""
    return "\n".join([*_totals(by_kind), "", *_convergence(by_kind), ""])


def _totals(by_kind: Mapping[str, Figures]) -> Iterator[str]:
    yield f"| | {' | '.join(by_kind)} |"
    yield "|---|" + "---:|" * len(by_kind)
    minutes = [f"{one.counts['seconds'] / 60:.0f}" for one in by_kind.values()]
    yield _row("minutes", minutes)
    for key, name in _ROWS:
        yield _row(name, [f"{one.counts[key]:,}" for one in by_kind.values()])
    yield _row(
        "a write is seen at another replica, median / 99 % / longest",
        [_quantiles(one.lags) for one in by_kind.values()],
    )
    yield _row(
        "the same while one etcd member of three is frozen",
        [_quantiles(one.frozen_lags) for one in by_kind.values()],
    )


def _convergence(by_kind: Mapping[str, Figures]) -> Iterator[str]:
    yield f"| after | {' | '.join(by_kind)} |"
    yield "|---|" + "---:|" * len(by_kind)
    for name in sorted({name for one in by_kind.values() for name in one.agreed}):
        yield _row(name, [_spread(one.agreed.get(name, ())) for one in by_kind.values()])


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def _quantiles(values: Sequence[float]) -> str:
    if not values:
        return ""
    ordered = sorted(values)
    far = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
    return " / ".join(_seconds(one) for one in (statistics.median(ordered), far, ordered[-1]))


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    return f"{_seconds(statistics.median(values))} / {_seconds(max(values))} ({len(values)})"


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"
