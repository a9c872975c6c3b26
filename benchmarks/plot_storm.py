# pyright: reportUnknownMemberType=false
"""Draws how soon OpenAPI shows a change, and how clients come back after a restart."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Row
from visible_openapi import DOCUMENT, INDEX

_WIDTH = 5.5


def draw_storm(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture if there is something to draw; tell whether there was."""
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
