# pyright: reportUnknownMemberType=false
"""Draws how start, memory and changes grow with the number of definitions."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from report import Row
from scale import BUDGET_SIZE, MEMORY, READ, START, START_S, curves, growth_exponent
from startup import MEMORY_MB

_LINE = "#555555"
_PANELS: tuple[tuple[str, str, str, float | None], ...] = (
    (START, "Start to ready", "seconds", START_S),
    (MEMORY, "Resident memory", "MB", MEMORY_MB),
    (READ, "One changed, applied to read in full", "milliseconds, median", None),
)


def draw_scale(rows: Sequence[Row], file: Path) -> bool:
    """Write the picture if there is a curve to draw; tell whether there was one."""
    found = {
        curve: values
        for curve, values in curves(rows).items()
        if growth_exponent(values) is not None
    }
    if not found:
        return False
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, len(_PANELS))
    for panel, (prefix, title, unit, budget) in zip(axes, _PANELS, strict=True):
        for curve, values in found.items():
            if curve.startswith(prefix):
                label = curve.removeprefix(prefix).strip(", ") or curve
                _curve(panel, label, values)
        _finish(panel, budget)
        panel.set_title(title)
        panel.set_ylabel(unit)
    figure.savefig(file, dpi=110, metadata={"Software": None} if file.suffix == ".png" else None)
    return True


def _curve(axes: Axes, name: str, values: Mapping[int, float]) -> None:
    label = f"{name}: size^{growth_exponent(values):.2f}"
    axes.plot(list(values), list(values.values()), "o-", label=label, linewidth=1.3)


def _finish(axes: Axes, budget: float | None) -> None:
    if budget is not None:
        label = f"budget at {BUDGET_SIZE:,}: {budget:g}"
        axes.plot([BUDGET_SIZE], [budget], "_", color=_LINE, markersize=22, label=label)
    axes.set_xlabel("CustomResourceDefinitions, five a group")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=8)
