# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Draws ratios as bars and the times of changes as distributions."""

from collections.abc import Sequence
from pathlib import Path

from changes import BUDGET_MS
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Row
from warm import WARM_RATIO

_KEPT, _MISSED, _LINE = "#4c78a8", "#e45756", "#555555"


def draw(rows: Sequence[Row], file: Path) -> None:
    """Write the picture; the suffix of the file tells the format."""
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    bars, curves = figure.subplots(1, 2)
    _bars(bars, [row for row in rows if row.ratio is not None])
    _curves(curves, [row for row in rows if row.series and "whole body" not in row.name])
    if curves.lines:
        figure.legend(fontsize=7, loc="outside lower center", ncols=3)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)


def _bars(axes: Axes, rows: Sequence[Row]) -> None:
    rows = rows[::-1]
    ratios = [row.ratio or 0.0 for row in rows]
    colours = [_MISSED if row.failed else _KEPT for row in rows]
    axes.barh([row.name.partition(" (")[0] for row in rows], ratios, color=colours)
    axes.axvline(WARM_RATIO, color=_LINE, linestyle="--", linewidth=1)
    axes.set_xlabel(f"answers a second, empty handler = 1; budget {WARM_RATIO}")
    axes.set_title("Warm requests")


def _curves(axes: Axes, rows: Sequence[Row]) -> None:
    for row in rows:
        ordered = sorted(row.series)
        shares = [(place + 1) / len(ordered) for place in range(len(ordered))]
        style = "-" if " x 1:" in row.name else "--"
        axes.plot(ordered, shares, style, label=row.name, linewidth=1.3)
    axes.axvline(BUDGET_MS, color=_LINE, linestyle="--", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlabel(f"milliseconds after the change; budget {BUDGET_MS:.0f}")
    axes.set_ylabel("share of changes")
    axes.set_title("One changed group, seen")
