"""`benchmarks/clients.py`: measure clients alone, as `run.py --only clients` does."""

import argparse
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType

import client_costs
from report import Clock, machine, markdown_table, table

_LIMIT_S = 150.0


def main() -> int:
    """Measure and report; return 0, and 1 when a budget is not kept and `--check` is given."""
    options = _options()
    signal.signal(signal.SIGTERM, _end)
    with tempfile.TemporaryDirectory(prefix="apidiscovery-bench-") as name:
        rows = list(client_costs.measure(Path(name), Clock(_LIMIT_S)))
    print(f"{machine()}\n\n{table(rows)}")
    if options.markdown:
        options.markdown.write_text(markdown_table(rows) + "\n", encoding="utf-8")
    if options.plot:
        # matplotlib is slow to import
        from plot_clients import draw_clients  # noqa: PLC0415

        draw_clients(rows, options.plot)
    return 1 if options.check and any(row.failed for row in rows) else 0


def _end(_number: int, _frame: FrameType | None) -> None:
    """Leave by an exception, so that what was started is ended."""
    sys.exit(1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure discovery clients on this machine.")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw it (.png or .svg)")
    parser.add_argument("--check", action="store_true", help="exit 1 if a budget is not kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
