# pyright: reportUnknownMemberType=false
"""Draws how many requests and how long each client takes."""

from collections.abc import Sequence
from pathlib import Path

from client_asking import COLD, MISSPELT, NEW
from client_rows import SECTION
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Row

_SHOWN = {
    COLD: ("one kind, nothing known", "#4c78a8"),
    MISSPELT: ("a kind that nobody serves", "#f58518"),
    NEW: ("a new kind, the others known", "#54a24b"),
}
_HEIGHT = 0.26
_LEAST_S = 0.001


def draw_clients(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture if there is something to draw; tell whether there was."""
    found = [row for row in rows if row.section == SECTION and "scenario" in row.numbers]
    if not found:
        return False
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    requests, seconds = figure.subplots(1, 2, sharey=True)
    _bars(requests, found, "requests", 0.0)
    requests.set_xscale("symlog", linthresh=1)
    requests.set_xlabel("requests")
    _bars(seconds, found, "seconds", _LEAST_S)
    seconds.set_xscale("log")
    seconds.set_xlabel("seconds, with 20 ms for each request")
    figure.legend(*seconds.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    figure.savefig(file, dpi=90, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _bars(axes: Axes, rows: Sequence[Row], number: str, least: float) -> None:
    clients = list(dict.fromkeys(str(row.numbers["client"]) for row in rows))[::-1]
    for place, (scenario, (label, colour)) in enumerate(_SHOWN.items()):
        chosen = [row.numbers for row in rows if row.numbers["scenario"] == scenario]
        heights = [clients.index(str(one["client"])) - (place - 1) * _HEIGHT for one in chosen]
        values = [max(float(str(one[number])), least) for one in chosen]
        axes.barh(heights, values, _HEIGHT, color=colour, label=label)
    axes.set_yticks(range(len(clients)), clients)
