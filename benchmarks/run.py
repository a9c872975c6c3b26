"""`make bench`: measure, compare with budgets, print a table.

Numbers are of this machine at this moment; compared values are measured in the same run.
"""

import argparse
import json
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from types import FrameType

import changes
import client_costs
import fleet
import grpc
import history
import openapi
import rpc
import scale
import schemas
import startup
import storage_versions
import storm
import upstreams
import warm
import web
from processes import Failed
from report import Clock, Row, machine, page, table

# `make bench` takes about twelve minutes; sections that have not started by then are skipped.
_LIMIT_S = 660.0
_SECTIONS = (
    "change",
    "apply",
    "start",
    "command",
    "scale",
    "upstreams",
    "fleet",
    "openapi",
    "visible",
    "storm",
    "grpc",
    "tls",
    "warm",
    "storage-versions",
    "history",
    "clients",
    "schemas",
    "web",
)

# Repeats of each start.
_REPEATS = 3
_COMMAND_REPEATS = 15


def main() -> int:
    """Measure and report; return the exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    rows = list(_measure(options))
    text = table(rows)
    print(f"\n{machine()}\n\n{text}")
    if options.json:
        numbers = {"machine": machine(), "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(numbers, indent=1) + "\n", encoding="utf-8")
    pictures: list[Path] = []
    if options.plot:
        pictures = _draw(rows, options.plot)
    if options.markdown:
        options.markdown.write_text(page(rows, pictures), encoding="utf-8")
    failed = any(row.failed for row in rows)
    return 1 if failed and options.check else 0


def _draw(rows: Sequence[Row], file: Path) -> list[Path]:
    """Draw all pictures for which there are rows, next to `file`; return the files."""
    import plots  # noqa: PLC0415 - matplotlib is slow to import

    plots.draw_ratios(rows, file)
    files = [file]
    for name, draw_beside in (
        ("scale", plots.draw_scale),
        ("clients", plots.draw_clients),
        ("storm", plots.draw_storm),
    ):
        beside = file.with_name(f"{file.stem}-{name}{file.suffix}")
        if draw_beside(rows, beside):
            files.append(beside)
    return files


def _end(_number: int, _frame: FrameType | None) -> None:
    """Raise, so that the processes that were started are ended."""
    sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure the server on this machine.")
    parser.add_argument(
        "--only", choices=_SECTIONS, action="append", help="measure this section alone; repeatable"
    )
    parser.add_argument(
        "--rounds", type=int, default=4, help="rounds of each comparison (%(default)s)"
    )
    parser.add_argument("--seconds", type=int, default=1, help="length of one run (%(default)s)")
    parser.add_argument(
        "--changes", type=int, default=120, help="changes of each kind (%(default)s)"
    )
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="+",
        default=scale.SIZES,
        metavar="CRDS",
        help="sizes of the curve, ascending (%(default)s)",
    )
    parser.add_argument("--check", action="store_true", help="exit 1 if a budget is not kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the raw numbers")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write a page with the results"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results (.png or .svg)")
    return parser.parse_args()


def _measure(options: argparse.Namespace) -> Iterator[Row]:
    clock = Clock(_LIMIT_S)
    effort = warm.Effort(options.rounds, options.seconds, clock)
    with tempfile.TemporaryDirectory(prefix="apidiscovery-bench-") as name:
        folder = Path(name)
        sections: dict[str, Sequence[Callable[[], Iterator[Row]]]] = {
            "change": [partial(changes.measure, n, options.changes, clock) for n in (1, 5)],
            "apply": [partial(changes.measure_applied, folder, options.changes, clock)],
            "start": [partial(startup.measure, folder, _REPEATS, clock)],
            "command": [partial(startup.measure_commands, folder, _COMMAND_REPEATS, clock)],
            "scale": [partial(scale.measure, folder, options.sizes, _REPEATS, clock)],
            "upstreams": [partial(upstreams.measure, folder, clock)],
            "fleet": [partial(fleet.measure, folder, clock)],
            "openapi": [partial(openapi.measure, folder)],
            "visible": [partial(openapi.measure_visible, folder, openapi.SIZES, clock)],
            "storm": [partial(storm.measure, folder, clock)],
            "grpc": [partial(rpc.measure, folder, effort)],
            "tls": [partial(warm.measure_tls, folder, effort)],
            "warm": [partial(warm.measure, folder, effort)],
            "storage-versions": [partial(storage_versions.measure, folder, options.rounds, clock)],
            "history": [partial(history.measure, folder, clock)],
            "clients": [partial(client_costs.measure, folder, clock)],
            "schemas": [partial(schemas.measure, folder, clock)],
            "web": [partial(web.measure, folder, clock)],
        }
        for section in _SECTIONS:
            if options.only and section not in options.only:
                continue
            for measure in sections[section]:
                yield from _safely(section, measure)


def _safely(section: str, measure: Callable[[], Iterator[Row]]) -> Iterator[Row]:
    """Yield and print the rows of a measurement; a failed one does not end the others."""
    started = time.monotonic()
    try:
        for row in measure():
            print(f"{row.name}: {row.measured} {row.verdict}", file=sys.stderr, flush=True)
            yield row
    except (Failed, OSError, grpc.RpcError) as error:
        text = f"{error.code()}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
        print(f"{section}: {text}", file=sys.stderr)
        yield Row(section, section, "", skipped=f"broken: {text}".splitlines()[0][:200])
    print(f"({section}: {time.monotonic() - started:.0f} s)", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
