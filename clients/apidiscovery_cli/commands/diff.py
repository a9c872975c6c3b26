"""`apidiscovery diff`: shows what an upgrade, or another server, changes for clients.

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
from apidiscovery_client.diffing import Names, compare

from apidiscovery_cli.completing import complete_sides
from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.files import STDIN
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import report_output, with_options
from apidiscovery_cli.output import TROUBLE, Trouble, has_colour, print_report, working
from apidiscovery_cli.reports.diff import render
from apidiscovery_cli.reports.forms import FORMATS, Format
from apidiscovery_cli.sides import (
    CLUSTER,
    CLUSTER_HELP,
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

_DIFFERENT = 1


class _Options(TypedDict):
    others: tuple[str, ...]
    service: str | None
    fields: bool
    breaking_only: bool
    output: Format


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show what changes for clients of A when A is replaced by B.\n\n"
    f"A and B are each {SIDE_HELP}; {CLUSTER_HELP}.\n\n"
    "With --fields the schemas of kinds are compared. They are those of CustomResourceDefinitions"
    " where you may read these, else those of OpenAPI v3 documents. A side may then also be a file"
    " or folder of CustomResourceDefinitions. A snapshot must have been saved with --schemas.\n\n"
    "More than two sides are shown as a table, as by 'fleet', with a line for each kind that"
    " differs. NAME=SIDE gives a side a name.\n\n"
    "Exit code: 0 if the sides are the same; 1 if they differ, with --breaking-only if a difference"
    " breaks something; 2 if a side cannot be read, or if with --fields nothing differs but"
    " something could not be compared.",
)
@click.argument("before", metavar="A", shell_complete=complete_sides)
@click.argument("after", metavar="B", shell_complete=complete_sides)
@click.argument("others", metavar="[SIDE]...", nargs=-1, shell_complete=complete_sides)
@click.option(
    "--fields",
    is_flag=True,
    help="Compare the fields of kinds instead of groups, versions and resources.",
)
@click.option("--breaking-only", is_flag=True, help="Report only differences that break clients.")
@report_output(FORMATS)
@with_options((SERVICE, *SIDE_OPTIONS), flags_of)
def diff(flags: Flags, *, before: str, after: str, **options: Unpack[_Options]) -> None:
    """Print a report, and end with the exit code that it stands for."""
    sides = [before, after, *options["others"]]
    if sides.count(STDIN) > 1:
        raise click.UsageError("only one side can be standard input")
    if options["others"]:
        _compare_several(sides, flags, options)
        return
    real = [with_service(side, options["service"]) for side in sides]
    flags = flags_for(flags, real)
    refuse_shared_identity(flags, real)
    compared = _fields if options["fields"] else _discovery
    try:
        if any(side.startswith(CLUSTER) for side in sides):
            from apidiscovery_cli.commands._side_by_side import (  # noqa: PLC0415 - few name any
                columns_of,
            )

            columns_of(sides, options["service"], flags)  # raises for an unknown name
        text, exit_code = compared(sides, real, flags, options)
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    print_report(text)
    if exit_code:
        raise click.exceptions.Exit(exit_code)


def _discovery(
    sides: Sequence[str], real: Sequence[str], flags: Flags, options: _Options
) -> tuple[str, int]:
    """Return the report about groups, versions and resources, and the exit code.

    Args:
        sides: Both as they were typed.
        real: Both without `cluster:`.
        flags: How servers are reached.
        options: Those of the report.
    """
    connect = connector(flags)
    before, after = (open_side(side, connect) for side in real)
    report = compare(before, after, Names(*map(side_name, sides)))
    breaking_only = options["breaking_only"]
    text = render(report, options["output"], breaking_only=breaking_only, coloured=has_colour())
    differs = report.breaking if breaking_only else not report.is_same
    return text, _DIFFERENT if differs else 0


def _fields(
    sides: Sequence[str], real: Sequence[str], flags: Flags, options: _Options
) -> tuple[str, int]:
    """Return the report about fields, and the exit code; arguments as those of `_discovery`."""
    from apidiscovery_client.schemas import compare_sources  # noqa: PLC0415 - yaml and more

    from apidiscovery_cli.reports.fields import FieldReport, render_fields  # noqa: PLC0415 - same
    from apidiscovery_cli.schema_sides import open_schemas  # noqa: PLC0415 - same

    with (
        open_schemas(real[0], flags) as old,
        open_schemas(real[1], flags) as new,
        working("Comparing fields"),
    ):
        found = compare_sources(old, new)
    before, after = map(side_name, sides)
    report = FieldReport(before, after, found)
    breaking_only = options["breaking_only"]
    text = render_fields(
        report, options["output"], breaking_only=breaking_only, coloured=has_colour()
    )
    if report.of(breaking_only=breaking_only):
        return text, _DIFFERENT
    return text, TROUBLE if found.failures else 0


def _compare_several(sides: Sequence[str], flags: Flags, options: _Options) -> None:
    """Print several sides as a table, and end with the exit code that it stands for."""
    from apidiscovery_cli.commands import _side_by_side  # noqa: PLC0415 - few compare several

    for name in ("breaking_only", "fields"):
        if options[name]:
            flag = name.replace("_", "-")
            raise click.UsageError(f"--{flag}: only for two sides, an old and a new one")
    typed = [side for _, side in map(_side_by_side.named, sides)]
    if typed.count(STDIN) > 1:
        raise click.UsageError("only one side can be standard input")
    real = [with_service(side, options["service"]) for side in typed]
    flags = flags_for(flags, real)
    refuse_shared_identity(flags, real)
    try:
        matrix = _side_by_side.matrix_of(sides, flags, options["service"])
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    _side_by_side.print_matrix(matrix, options["output"])
    _side_by_side.exit_for(matrix)
