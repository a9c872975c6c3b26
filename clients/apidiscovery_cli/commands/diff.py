"""`apidiscovery diff`: tells what an upgrade, or another server, changes for clients.

| exit code | when |
|---|---|
| 0 | the same; with --breaking-only: nothing breaks |
| 1 | different; with --breaking-only: something breaks |
| 2 | trouble: bad usage, a side cannot be read, a server does not answer, stdout is not writable |
"""

from collections.abc import Sequence
from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import Flags

from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.diffing import FORMATS, Names, Report, compare, render
from apidiscovery_cli.diffing.rendering import Format
from apidiscovery_cli.files import STDIN
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import discard_stdout, has_colour, print_painted
from apidiscovery_cli.sides import (
    SERVICE,
    SIDE_HELP,
    SIDE_OPTIONS,
    connector,
    flags_for,
    open_side,
    refuse_shared_identity,
    side_name,
    with_service,
)

_DIFFERENT, _TROUBLE = 1, 2
_SEVERAL = ("table", "markdown", "json")


class _Trouble(click.ClickException):
    """A side cannot be read, or the report not be written."""

    exit_code = _TROUBLE


class _Options(TypedDict):
    others: tuple[str, ...]
    service: str | None
    breaking_only: bool
    output: Format


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Tell what is different for clients of A when they meet B.\n\n"
    f"Each is {SIDE_HELP}; with --server also cluster:NAME.\n\n"
    "More than two sides are shown side by side, as by 'fleet': a line for each kind that differs;"
    " NAME=SIDE gives a side a name of its own.\n\n"
    "Exit code 0 if they are the same, 1 if not, 2 for trouble. With --breaking-only differences"
    " that break nothing do not count.",
)
@click.argument("before", metavar="A")
@click.argument("after", metavar="B")
@click.argument("others", metavar="[SIDE]...", nargs=-1)
@click.option("--breaking-only", is_flag=True, help="Only what fails, or means something else.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(list(FORMATS)),
    default="text",
    show_default=True,
    help="The form of the report.",
)
@with_options((SERVICE, *SIDE_OPTIONS), flags_of)
def diff(flags: Flags, *, before: str, after: str, **options: Unpack[_Options]) -> None:
    """Print a report, and end with the exit code that it stands for."""
    if options["others"]:
        _compare_several([before, after, *options["others"]], flags, options)
        return
    before, after = (with_service(side, options["service"]) for side in (before, after))
    report = _report(before, after, flags)
    breaking_only = options["breaking_only"]
    text = render(report, options["output"], breaking_only=breaking_only, coloured=has_colour())
    _print(text)
    if report.breaking if breaking_only else not report.is_same:
        raise click.exceptions.Exit(_DIFFERENT)


def _report(before: str, after: str, flags: Flags) -> Report:
    if before == after == STDIN:
        raise click.UsageError("only one side can be standard input")
    flags = flags_for(flags, [before, after])
    refuse_shared_identity(flags, [before, after])
    connect = connector(flags)
    try:
        sides = open_side(before, connect), open_side(after, connect)
    except DiscoveryError as error:
        raise _Trouble(str(error)) from None
    return compare(*sides, Names(*map(side_name, (before, after))))


def _print(text: str) -> None:
    """Write the report; a failure to write must not look like the exit codes 0 and 1."""
    try:
        print_painted(text)
    except BrokenPipeError:
        discard_stdout()
        raise click.exceptions.Exit(_TROUBLE) from None
    except OSError as error:
        discard_stdout()
        raise _Trouble(f"the report cannot be written: {error.strerror or error}") from None


def _compare_several(sides: Sequence[str], flags: Flags, options: _Options) -> None:
    """Print several sides as a table, and end with the exit code that it stands for."""
    from apidiscovery_cli.commands import _side_by_side  # noqa: PLC0415 - few compare several

    form = {"text": "table"}.get(options["output"], options["output"])
    if options["breaking_only"] or form not in _SEVERAL:
        option = "--breaking-only" if options["breaking_only"] else f"--output {form}"
        raise click.UsageError(f"{option}: only for two sides; more have text, markdown and json")
    typed = [side for _, side in map(_side_by_side.named, sides)]
    if typed.count(STDIN) > 1:
        raise click.UsageError("only one side can be standard input")
    real = [with_service(side, options["service"]) for side in typed]
    flags = flags_for(flags, real)
    refuse_shared_identity(flags, real)
    try:
        matrix = _side_by_side.matrix_of(sides, flags, options["service"])
    except DiscoveryError as error:
        raise _Trouble(str(error)) from None
    _side_by_side.print_matrix(matrix, form)
    _side_by_side.exit_for(matrix)
