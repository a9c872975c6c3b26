# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
"""Pictures of the results: ratios, changes, growth, clients and a restart."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import cast

from changes import BUDGET_MS
from client_costs import COLD, MISSPELT, NEW, SECTION
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from openapi import DOCUMENT, INDEX
from report import Row
from scale import BUDGET_SIZE, MEMORY, READ, START, START_S, curves
from startup import MEMORY_MB
from warm import WARM_RATIO

_KEPT, _MISSED, _LINE = "#4c78a8", "#e45756", "#555555"

_SHOWN = {
    COLD: ("one kind, nothing known", "#4c78a8"),
    MISSPELT: ("a kind that nobody serves", "#f58518"),
    NEW: ("a new kind, the others known", "#54a24b"),
}
_HEIGHT = 0.26
_LEAST_S = 0.001

_PANELS: tuple[tuple[str, str, str, float | None], ...] = (
    (START, "Start to ready", "seconds", START_S),
    (MEMORY, "Resident memory", "MB", MEMORY_MB),
    (READ, "One changed, applied to read in full", "milliseconds, median", None),
)

_WIDTH = 5.5


def draw_ratios(rows: Sequence[Row], file: Path) -> None:
    """Write the picture; the suffix of the file is the format."""
    figure = Figure(figsize=(11, 5.5), layout="constrained")
    bars, curves = figure.subplots(1, 2)
    _ratios(bars, [row for row in rows if row.ratio is not None])
    _distributions(curves, [row for row in rows if row.series and "whole body" not in row.name])
    if curves.get_legend_handles_labels()[1]:
        figure.legend(fontsize=7, loc="outside lower center", ncols=3)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)


def _ratios(axes: Axes, rows: Sequence[Row]) -> None:
    rows = rows[::-1]
    ratios = [row.ratio or 0.0 for row in rows]
    colours = [_MISSED if row.failed else _KEPT for row in rows]
    axes.barh([row.name.partition(" (")[0] for row in rows], ratios, color=colours)
    axes.axvline(WARM_RATIO, color=_LINE, linestyle="--", linewidth=1)
    axes.set_xlabel(f"answers a second, empty handler = 1; budget {WARM_RATIO}")
    axes.set_title("Warm requests")


def _distributions(axes: Axes, rows: Sequence[Row]) -> None:
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


def draw_clients(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture; return False if there is nothing to draw."""
    found = [row for row in rows if row.section == SECTION and "scenario" in row.numbers]
    if not found:
        return False
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    requests, seconds = figure.subplots(1, 2, sharey=True)
    _client_bars(requests, found, "requests", 0.0)
    requests.set_xscale("symlog", linthresh=1)
    requests.set_xlabel("requests")
    _client_bars(seconds, found, "seconds", _LEAST_S)
    seconds.set_xscale("log")
    seconds.set_xlabel("seconds, with 20 ms for each request")
    figure.legend(*seconds.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(file, dpi=90, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _client_bars(axes: Axes, rows: Sequence[Row], number: str, least: float) -> None:
    clients = list(dict.fromkeys(str(row.numbers["client"]) for row in rows))[::-1]
    for place, (scenario, (label, colour)) in enumerate(_SHOWN.items()):
        chosen = [row.numbers for row in rows if row.numbers["scenario"] == scenario]
        heights = [clients.index(str(one["client"])) - (place - 1) * _HEIGHT for one in chosen]
        values = [max(float(str(one[number])), least) for one in chosen]
        axes.barh(heights, values, _HEIGHT, color=colour, label=label)
    axes.set_yticks(range(len(clients)), clients)


def draw_scale(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture; return False if there is no curve to draw."""
    found = curves(rows)
    if not found:
        return False
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, len(_PANELS))
    for panel, (prefix, title, unit, budget) in zip(axes, _PANELS, strict=True):
        for curve, values in found.items():
            if curve.startswith(prefix):
                label = curve.removeprefix(prefix).strip(", ") or curve
                _growth_curve(panel, label, values)
        _finish_panel(panel, budget)
        panel.set_title(title)
        panel.set_ylabel(unit)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _growth_curve(axes: Axes, name: str, values: Mapping[int, float]) -> None:
    axes.plot(list(values), list(values.values()), "o-", label=name, linewidth=1.3)


def _finish_panel(axes: Axes, budget: float | None) -> None:
    if budget is not None:
        label = f"budget at {BUDGET_SIZE:,}: {budget:g}"
        axes.plot([BUDGET_SIZE], [budget], "_", color=_LINE, markersize=22, label=label)
    axes.set_xlabel("CustomResourceDefinitions, five a group")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)


def draw_storm(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture; return False if there is nothing to draw."""
    visible = [row for row in rows if row.section == "visible" and row.point]
    storm = [row for row in rows if row.section == "storm" and "s" in row.numbers]
    drawn: list[tuple[Callable[[Axes, Sequence[Row]], None], list[Row]]] = [
        (draw, found) for draw, found in ((_visible, visible), (_storm, storm)) if found
    ]
    if not drawn:
        return False
    figure = Figure(figsize=(_WIDTH * len(drawn), 4.5), layout="constrained")
    for place, (draw, found) in enumerate(drawn, 1):
        axes = figure.add_subplot(1, len(drawn), place)
        draw(axes, found)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _visible(axes: Axes, rows: Sequence[Row]) -> None:
    for name in (INDEX, DOCUMENT):
        points = [row.point for row in rows if row.point and row.point.curve == name]
        axes.plot([p.size for p in points], [p.value for p in points], "o-", label=name)
    axes.set_title("A changed schema, visible in OpenAPI")
    axes.set_xlabel("CustomResourceDefinitions, five a group")
    axes.set_ylabel("milliseconds, median")


def _storm(axes: Axes, rows: Sequence[Row]) -> None:
    for row in rows:
        seconds = cast("list[float]", row.numbers["s"])
        share = [100 * (place + 1) / len(seconds) for place in range(len(seconds))]
        axes.step([0, *seconds], [0, *share], where="post", label=row.name)
    axes.set_xlim(right=1.05 * max(max(cast("list[float]", row.numbers["s"])) for row in rows))
    axes.set_title("After a restart")
    axes.set_xlabel("seconds")
    axes.set_ylabel("percent that are right")
