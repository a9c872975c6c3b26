# pyright: reportUnknownMemberType=false
"""Draws how soon OpenAPI shows a change, and how clients come back after a restart."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Row
from visible_openapi import DOCUMENT, INDEX


def draw_storm(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture if there is something to draw; tell whether there was."""
    visible = [row for row in rows if row.section == "visible" and row.point]
    storm = [row for row in rows if row.section == "storm" and "s" in row.numbers]
    if not visible and not storm:
        return False
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    left, right = cast("Sequence[Axes]", figure.subplots(1, 2))
    for name in (INDEX, DOCUMENT):
        points = [row.point for row in visible if row.point and row.point.curve == name]
        left.plot([p.size for p in points], [p.value for p in points], "o-", label=name)
    left.set_title("A changed schema, visible in OpenAPI")
    left.set_xlabel("CustomResourceDefinitions, five a group")
    left.set_ylabel("milliseconds, median")
    for row in storm:
        seconds = cast("list[float]", row.numbers["s"])
        share = [100 * (place + 1) / len(seconds) for place in range(len(seconds))]
        right.plot([0, *seconds], [0, *share], drawstyle="steps-post", label=row.name)
    right.set_title("After a restart")
    right.set_xlabel("seconds")
    right.set_ylabel("percent that are right")
    for axes in (left, right):
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=8)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)
    return True
