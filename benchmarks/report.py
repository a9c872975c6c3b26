"""Rows of the result: printed, written as JSON and as Markdown, and the page."""

import datetime as dt
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

_PACKAGES = ("granian", "uvloop", "grpcio", "protobuf", "orjson", "zstandard")

_TITLES = {
    "change": "A change, published in the process",
    "apply": "A change, applied over gRPC",
    "start": "Start, and memory, from one file",
    "command": "The command line, beside kubectl",
    "scale": "Growth with the number of CustomResourceDefinitions",
    "upstreams": "Upstreams",
    "fleet": "A fleet of clusters",
    "openapi": "OpenAPI documents",
    "visible": "OpenAPI of what is applied",
    "storm": "A restart under a storm of clients",
    "grpc": "gRPC",
    "tls": "Warm requests over TLS",
    "warm": "Warm requests",
    "storage-versions": "Storage versions",
    "history": "History",
    "clients": "Clients",
    "schemas": "Schemas and manifests",
    "web": "Pages for browsers",
}

# The page keeps its section about the method, which is written by hand.
_PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"
_METHOD = "## Method\n"


class Clock:
    """The time that is left for all measurements."""

    def __init__(self, limit_s: float) -> None:
        self._end = time.monotonic() + limit_s

    def out(self, reserve_s: float = 0.0) -> bool:
        """Return whether less than the reserve is left."""
        return time.monotonic() + reserve_s > self._end


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a curve over sizes.

    Attributes:
        curve: The measured quantity, with its unit.
        size: The number of definitions.
    """

    curve: str
    size: int
    value: float = 0.0


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the result.

    Attributes:
        section: A section of `--only`.
        budget: Empty for a number without a budget.
        passed: None without a budget.
        unclear: The budget is missed, but the machine was too noisy to judge.
        skipped: Why it was not measured.
        ratio: A bar of the plot.
        series: Times in milliseconds, a distribution of the plot.
        numbers: Other measurements.
        point: A point of a curve over sizes.
    """

    section: str
    name: str
    budget: str
    measured: str = ""
    passed: bool | None = None
    skipped: str = ""
    unclear: bool = False
    ratio: float | None = None
    series: Sequence[float] = ()
    numbers: dict[str, object] = field(default_factory=dict[str, object])
    point: Point | None = None

    @property
    def failed(self) -> bool:
        return self.passed is False and not self.unclear

    @property
    def verdict(self) -> str:
        if self.skipped:
            return f"skipped: {self.skipped}"
        if self.passed is None:
            return ""
        if self.unclear:
            return "unclear"
        return "pass" if self.passed else "FAIL"


def table(rows: Sequence[Row]) -> str:
    """Return rows in columns for a terminal."""
    lines = [("what", "budget", "measured", "")]
    lines += [(row.name, row.budget, row.measured, row.verdict) for row in rows]
    widths = [max(len(line[column]) for line in lines) for column in range(3)]
    return "\n".join(
        "  ".join(
            [*(text.ljust(width) for text, width in zip(line, widths, strict=False)), line[3]]
        ).rstrip()
        for line in lines
    )


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table."""
    lines = ["| what | budget | measured | |", "|---|---|---|---|"]
    lines += [f"| {r.name} | {r.budget} | {r.measured} | {r.verdict} |" for r in rows]
    return "\n".join(lines)


def machine() -> str:
    """Describe this machine, without its name."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    tools = ", ".join(_tool_versions()) or "no load tools"
    return (
        f"{model}, {os.cpu_count()} cores, Linux {platform.release()}; "
        f"Python {platform.python_version()}, {packages}; {tools}"
    )


def _tool_versions() -> list[str]:
    found: list[str] = []
    for tool, flag, word in (("wrk", "-v", 1), ("h2load", "--version", 1)):
        path = shutil.which(tool)
        if path:
            done = subprocess.run([path, flag], capture_output=True, text=True, check=False)
            words = (done.stdout + done.stderr).split()
            found.append(f"{tool} {words[word].rpartition('/')[2]}")
    return found


def page(rows: Sequence[Row], pictures: Sequence[Path]) -> str:
    """Return docs/benchmarks.md with these results."""
    today = dt.datetime.now(tz=dt.UTC).date()
    where = f"Measured on {today} on {machine()}."
    shown = "".join(f"![{_alternative(file)}]({file.name})\n\n" for file in pictures)
    sections: dict[str, list[Row]] = {}
    for row in rows:
        sections.setdefault(row.section, []).append(row)
    tables = "\n\n".join(
        f"## {_TITLES[section]}\n\n{markdown_table(found)}" for section, found in sections.items()
    )
    method = _PAGE.read_text(encoding="utf-8").partition(_METHOD)[2]
    return f"# Benchmarks\n\n{shown}{where}\n\n{tables}\n\n{_METHOD}{method}"


def _alternative(picture: Path) -> str:
    if picture.stem.endswith("-scale"):
        return "Start, memory and the time of a change over the number of definitions"
    if picture.stem.endswith("-storm"):
        return "How soon OpenAPI shows a change, and clients after a restart"
    if picture.stem.endswith("-clients"):
        return "Requests and seconds of each client, to find a kind"
    return "Ratios and the times of changes"
