"""Runs replicas under traffic and faults, checks what was seen, and prints the figures."""

import asyncio
import itertools
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import click

from tests.robustness import faults
from tests.robustness.checker import Violation, check
from tests.robustness.figures import Figures, tables
from tests.robustness.history import Fault, History
from tests.robustness.run import REPLICAS, Round, run_round

_ROUND_S = 40.0
# From how many minutes on faults are tried that take minutes themselves.
_LONG_MINUTES = 10
_SHOWN = 20
_TEXT_LIMIT = 600
_SEEDS = 10**6


@click.group()
def main() -> None:
    """Robustness: replicas under traffic and faults, and a checker that looks from outside."""
    signal.signal(signal.SIGTERM, _end)


def _end(_signal: int, _frame: FrameType | None) -> None:
    sys.exit(1)  # by way of everything that ends processes


@main.command()
@click.option("--minutes", default=2.0, show_default=True, help="How long to start new rounds.")
@click.option("--seed", type=int, help="Chooses the seeds of rounds.  [default: at random]")
@click.option(
    "--store",
    "stores",
    type=click.Choice(list(REPLICAS)),
    multiple=True,
    help="Kinds of store, in turn.  [default: etcd-3 and sqlite]",
)
@click.option("--fault", "only", multiple=True, help="Functions of faults.py, if not all.")
@click.option(
    "--round-seed", type=int, help="Run one round, with the seed that it was said to have."
)
@click.option("--figures", is_flag=True, help="Print the tables of docs/reliability.md.")
def run(  # noqa: PLR0913 - one argument an option
    minutes: float,
    seed: int | None,
    stores: Sequence[str],
    only: Sequence[str],
    round_seed: int | None,
    *,
    figures: bool,
) -> None:
    """Run rounds, each in replicas of its own, and exit with 1 if a promise was broken.

    A round that broke one keeps its history and logs in a folder that is named.
    """
    seed = random.randrange(_SEEDS) if seed is None else seed  # noqa: S311 - no secret
    injections = [getattr(faults, name) for name in only]
    stores = stores or ("etcd-3", "sqlite")
    _look_for_tools(stores)
    kinds = itertools.cycle(stores)
    click.echo(f"seed {seed}")
    chosen, began = random.Random(seed), time.monotonic()  # noqa: S311 - no secret
    found, broken = dict[str, Figures](), 0
    while True:
        kind = next(kinds)
        number = chosen.randrange(_SEEDS) if round_seed is None else round_seed
        done = run_round(kind, number, _ROUND_S, injections, long=minutes >= _LONG_MINUTES)
        _tell(done)
        broken += bool(done.violations or done.failed)
        found.setdefault(kind, Figures()).add(done.history, len(done.violations))
        if round_seed is not None or time.monotonic() - began > minutes * 60 - _ROUND_S:
            break
    if figures:
        click.echo(tables(found))
    if broken:
        raise click.ClickException(f"{broken} rounds broke a promise; seed {seed}")


def _look_for_tools(stores: Sequence[str]) -> None:
    if shutil.which("etcd") is None and any(kind != "sqlite" for kind in stores):
        advice = "install it (Debian: etcd-server), or use --store sqlite"
        raise click.ClickException(f"etcd is not found; {advice}")
    if not faults.faketime_library():
        click.echo("no wrong clocks: libfaketime is not found (Debian: faketime)")


def _tell(done: Round) -> None:
    injected = ", ".join(fault.name for fault in done.history.of(Fault))
    click.echo(f"{done.kind}, --round-seed {done.seed}: {injected}")
    _show(done.violations)
    if done.failed:
        click.echo(f"  the round could not be carried out:\n{done.failed}")
    if done.kept:
        click.echo(f"  kept in {done.kept}")


def _show(violations: Sequence[Violation]) -> None:
    for violation in violations[:_SHOWN]:
        click.echo(f"  {violation}"[:_TEXT_LIMIT])
    if len(violations) > _SHOWN:
        click.echo(f"  and {len(violations) - _SHOWN} more")


@main.command("check")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def check_again(file: Path) -> None:
    """Check a stored history again."""
    violations = check(History.load(file))
    _show(violations)
    if violations:
        raise click.ClickException(f"{len(violations)} violations in {file}")
    click.echo(f"no violation in {file}")


@main.command("soak")
@click.option("--minutes", default=60.0, show_default=True, help="How long.")
@click.option("--store", "stores", type=click.Choice(list(REPLICAS)), multiple=True)
@click.argument("picture", type=click.Path(path_type=Path))
def soak_command(minutes: float, stores: Sequence[str], picture: Path) -> None:
    """Draw the resident memory of a server under mixed load into PICTURE."""
    from tests.robustness import soak

    kinds = tuple(stores or ("sqlite", "etcd-1"))
    _look_for_tools(kinds)
    folder = Path(tempfile.mkdtemp(prefix="robustness-soak-"))
    click.echo(f"log and store are in {folder}")
    asyncio.run(soak.soak_all(folder, kinds, minutes))
    curves = {kind: soak.read_table(folder / f"{kind}.csv") for kind in kinds}
    soak.draw(curves, picture)
    click.echo(soak.levels(curves))


if __name__ == "__main__":
    main()
