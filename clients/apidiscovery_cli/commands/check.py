"""`apidiscovery check`: checks manifests against a server or a release.

| exit code | when |
|---|---|
| 0 | nothing found |
| 1 | errors or warnings; with --errors-only: errors |
| 2 | trouble: bad usage, a manifest cannot be read, a server does not answer, or nothing was found
      and something could not be checked |
"""

from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import Flags
from apidiscovery_client.checking import Checked, Severity
from apidiscovery_client.checking import check as check_manifests

from apidiscovery_cli.commands._side_by_side import columns_of
from apidiscovery_cli.completing import complete_sides
from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.files import STDIN
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import report_output, with_options
from apidiscovery_cli.output import TROUBLE, Trouble, print_report
from apidiscovery_cli.reports.check import render_check
from apidiscovery_cli.reports.forms import FORMATS, Format
from apidiscovery_cli.schema_sides import manifests_in, open_target
from apidiscovery_cli.sides import CLUSTER_HELP, SERVICE, SIDE_OPTIONS, flags_for, with_service

_FOUND = 1


class _Options(TypedDict):
    service: str | None
    errors_only: bool
    output: Format


@click.command(
    "check",
    cls=Command,
    help="Check manifests against a server or a release of Kubernetes.\n\n"
    "Errors are versions that are not served, unknown fields, missing required fields and invalid"
    " values. Warnings are deprecated versions, and versions that a later release does not serve."
    " Kinds that CustomResourceDefinitions in the manifests define count as served.\n\n"
    "Exit code: 0 if nothing was found; 1 for errors or warnings; 2 if a file cannot be read, the"
    " server does not answer, or nothing was found but something could not be checked.",
)
@click.option(
    "--filename",
    "-f",
    "filenames",
    multiple=True,
    required=True,
    metavar="FILE",
    help="A manifest, a folder with manifests at any depth, or - for standard input, such as the"
    " output of helm template. Repeatable.",
)
@click.option(
    "--against",
    required=True,
    metavar="TARGET",
    shell_complete=complete_sides,
    help="A release such as kubernetes:1.36, context:NAME of the kubeconfig, a URL, or a file of"
    f" 'apidiscovery snapshot save --schemas'; {CLUSTER_HELP}.",
)
@click.option(
    "--errors-only", is_flag=True, help="Report errors only; warnings do not change the exit code."
)
@report_output(FORMATS)
@with_options((SERVICE, *SIDE_OPTIONS), flags_of)
def check(
    flags: Flags, *, filenames: tuple[str, ...], against: str, **options: Unpack[_Options]
) -> None:
    """Print what was found, and end with the exit code that it stands for."""
    if [*filenames, against].count(STDIN) > 1:
        raise click.UsageError("standard input can be read once")
    real = with_service(against, options["service"])
    try:
        columns_of([against], options["service"], flags)  # raises for an unknown name
        manifests = [one for name in filenames for one in manifests_in(name)]
        with open_target(real, flags_for(flags, [real]), against) as target:
            checked = check_manifests(manifests, target.snapshot, target.schemas)
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    errors_only = options["errors_only"]
    print_report(render_check(checked, options["output"], errors_only=errors_only))
    if exit_code := _exit_code(checked, errors_only=errors_only):
        raise click.exceptions.Exit(exit_code)


def _exit_code(checked: Checked, *, errors_only: bool) -> int:
    counting = (Severity.ERROR,) if errors_only else (Severity.ERROR, Severity.WARNING)
    if any(checked.of(severity) for severity in counting):
        return _FOUND
    return TROUBLE if checked.unchecked else 0
