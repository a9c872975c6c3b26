"""Metrics of the front: connections, refusals and reloaded files."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector


class FrontMetrics(Collector):
    """Counters that a scrape turns into samples; shared by all fronts of a server.

    Attributes:
        open: Open connections by front.
        accepted: Connections since the start by front.
        cut: Refused and cut connections by front and reason.
        reloads: Reads of changed files by file and success.
        broken: Whether a file cannot be used now.
    """

    def __init__(self) -> None:
        self.open: dict[str, int] = {}
        self.accepted: dict[str, int] = {}
        self.cut: dict[tuple[str, str], int] = {}
        self.reloads: dict[tuple[str, bool], int] = {}
        self.broken: dict[str, bool] = {}

    def count_open(self, front: str, change: int) -> None:
        """Count the begin (1) or end (-1) of a connection."""
        self.open[front] = self.open.get(front, 0) + change
        if change > 0:
            self.accepted[front] = self.accepted.get(front, 0) + change

    def count_cut(self, front: str, reason: str) -> None:
        """Count a connection that was refused or cut."""
        self.cut[front, reason] = self.cut.get((front, reason), 0) + 1

    def count_reload(self, what: str, *, success: bool) -> None:
        """Count a read of a changed file."""
        self.reloads[what, success] = self.reloads.get((what, success), 0) + 1
        self.broken[what] = not success

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        is_open = GaugeMetricFamily(
            "apidiscovery_front_connections",
            "Connections open",
            labels=["front"],
        )
        accepted = CounterMetricFamily(
            "apidiscovery_front_accepted_connections",
            "Connections accepted",
            labels=["front"],
        )
        cut = CounterMetricFamily(
            "apidiscovery_front_cut_connections",
            "Connections refused or cut",
            labels=["front", "reason"],
        )
        reloads = CounterMetricFamily(
            "apidiscovery_reloads", "Changed files read again", labels=["file", "result"]
        )
        broken = GaugeMetricFamily(
            "apidiscovery_reload_error",
            "1 for a file that cannot be used as it is now; its former content is in use",
            labels=["file"],
        )
        for front, count in self.open.items():
            is_open.add_metric([front], count)
        for front, count in self.accepted.items():
            accepted.add_metric([front], count)
        for (front, reason), count in self.cut.items():
            cut.add_metric([front, reason], count)
        for (what, success), count in self.reloads.items():
            reloads.add_metric([what, "success" if success else "error"], count)
        for what, is_broken in self.broken.items():
            broken.add_metric([what], is_broken)
        yield from (is_open, accepted, cut, reloads, broken)
