"""`apidiscovery fleet`: clusters side by side, without a service between.

| exit code | when |
|---|---|
| 0 | all clusters serve the same |
| 1 | they differ |
| 2 | trouble: bad usage, a file cannot be read, or nothing differs but a cluster does not answer |
"""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Literal, TypeAlias, TypedDict, Unpack
from urllib.parse import urlsplit

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import Flags
from apidiscovery_client._server import Server
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.fleet import Fleet
from apidiscovery_client.fleet._members import servers_of_contexts
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.releases import PREFIX
from apidiscovery_formats.matrix import Agreement, Freshness, Matrix, to_json

from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.fleet_table import common_text, headline, markdown, rows_text
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import TROUBLE, Trouble, print_data, print_text
from apidiscovery_cli.sides import (
    CONTEXT,
    SIDE_HELP,
    SIDE_OPTIONS,
    connector,
    flags_for,
    is_server,
    open_side,
    refuse_shared_identity,
)

_DIFFERENT = 1
_BEST = "best"

_Form: TypeAlias = Literal["table", "json", "markdown", "name"]
_FORMS: tuple[_Form, ...] = ("table", "json", "markdown", "name")


class _Options(TypedDict):
    contexts: Sequence[str]
    all_contexts: bool
    all_rows: bool
    wide: bool
    groups: Sequence[str]
    kinds: Sequence[str]
    common: bool
    output: _Form


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show several clusters side by side: which serves which kind, in which versions.\n\n"
    f"Each CLUSTER is {SIDE_HELP}; NAME=CLUSTER gives it a name of its own."
    " A cell has the versions, the preferred one marked with *; - where the cluster does not serve"
    " the kind, ? where that is not known.\n\n"
    "With the words 'best KIND' before the clusters it prints the best version of that kind that"
    " all of them serve.\n\n"
    "Exit code 0 if all serve the same, 1 if not, 2 for trouble, or if nothing differs but a"
    " cluster does not answer.",
)
@click.argument("clusters", metavar="[best KIND] [CLUSTER]...", nargs=-1)
@click.option(
    "--contexts",
    metavar="PATTERN",
    multiple=True,
    help="The clusters of all contexts of the kubeconfig with such a name, such as 'prod-*'.",
)
@click.option("--all-contexts", is_flag=True, help="Those of every context of the kubeconfig.")
@click.option("--all", "all_rows", is_flag=True, help="Also kinds that are the same everywhere.")
@click.option("--wide", is_flag=True, help="Also names of resources, short names and scopes.")
@click.option(
    "--group", "groups", metavar="GROUP", multiple=True, help="Only this group; core is ''."
)
@click.option("--kind", "kinds", metavar="KIND", multiple=True, help="Only this kind or resource.")
@click.option("--common", is_flag=True, help="What all clusters serve, in the versions they share.")
@click.option(
    "--output",
    "-o",
    type=click.Choice(list(_FORMS)),
    default="table",
    show_default=True,
    help="The form of the matrix.",
)
@with_options(SIDE_OPTIONS, flags_of)
def fleet(flags: Flags, *, clusters: tuple[str, ...], **options: Unpack[_Options]) -> None:
    """Print the matrix, and end with the exit code that it stands for."""
    wanted = None
    if clusters[:1] == (_BEST,):
        if len(clusters) == 1:
            raise click.UsageError("best: want the name of a kind, such as: fleet best deployments")
        wanted, clusters = clusters[1], clusters[2:]
    try:
        with _opened(flags, clusters, options) as members:
            if wanted is not None:
                _print_best(members, wanted)
                return
            matrix = members.matrix(max_age_s=0)
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    matrix = matrix.selected(groups=options["groups"], kinds=options["kinds"])
    _print(matrix, options)
    if not options["common"]:
        _exit(matrix)


def _opened(flags: Flags, clusters: Sequence[str], options: _Options) -> Fleet:
    """Return the fleet that a command line names; nothing has been asked yet."""
    patterns = ("*",) if options["all_contexts"] else tuple(options["contexts"])
    if not clusters and not patterns:
        raise click.UsageError(
            "which clusters? name some, or give --contexts PATTERN or --all-contexts"
        )
    named = [_named(text) for text in clusters]
    # A pattern stands for several servers, each with credentials of its own.
    sides = [*(side for _, side in named), *([CONTEXT, CONTEXT] if patterns else [])]
    flags = flags_for(flags, sides)
    refuse_shared_identity(flags, sides)
    members: dict[str, DiscoveryClient | Snapshot | Server | str] = {}
    for name, side in named:
        if name in members:
            raise click.UsageError(f"{side}: another cluster is called {name!r}; want NAME=CLUSTER")
        members[name] = _member(side, flags)
    if patterns:
        found = servers_of_contexts(patterns, **flags)
        if twice := sorted(found.keys() & members.keys()):
            raise click.UsageError(f"--contexts: another cluster is called {twice[0]!r}")
        members |= found
    return Fleet(members, cache=True)


def _named(text: str) -> tuple[str, str]:
    """Return the name of a cluster as it was typed, and what it is."""
    name, separator, side = text.partition("=")
    if separator and re.fullmatch(r"[\w.-]+", name):
        return name, side
    return _usual_name(text), text


def _usual_name(side: str) -> str:
    """Return what a cluster is called that was given no name."""
    if side.startswith(PREFIX):
        return side.removeprefix(PREFIX)
    if side.startswith(CONTEXT):
        return side.removeprefix(CONTEXT)
    if "://" in side:
        return urlsplit(side).netloc.rpartition("@")[2] or side
    return PurePath(side).stem or side


def _member(side: str, flags: Flags) -> DiscoveryClient | Snapshot:
    """Return a client of a server, or what a file or a release tells."""
    if not is_server(side):
        return open_side(side, connector(flags))
    context = side.removeprefix(CONTEXT) if side.startswith(CONTEXT) else None
    kubeconfig = flags.get("kubeconfig") if context else None
    own: Flags = {**flags, "context": context, "kubeconfig": kubeconfig}
    return DiscoveryClient(None if context else side, cache=True, **own)


def _print_best(members: Fleet, wanted: str) -> None:
    found = members.best_common_version(wanted)
    name = f"{found.group}/{found.version}" if found.group else found.version
    print_text(f"{name} {found.kind}\n")
    for server, why in found.unsure.items():
        click.echo(f"warning: {server}: {why}", err=True)


def _print(matrix: Matrix, options: _Options) -> None:
    shown = matrix.selected(different=not options["all_rows"])
    now = datetime.now(UTC)
    match options["output"]:
        case _ if options["common"]:
            print_text(common_text(matrix))
        case "json":
            print_data(json.dumps(to_json(shown), indent=2) + "\n")
        case "markdown":
            print_text(markdown(shown, now, wide=options["wide"]))
        case "name":
            names = (f"{row.resource}.{row.group}".rstrip(".") for row in shown.rows)
            print_text("".join(f"{name}\n" for name in names))
        case "table":
            print_text(f"{headline(matrix, now)}\n{rows_text(shown, now, wide=options['wide'])}")


def _exit(matrix: Matrix) -> None:
    if matrix.count(Agreement.DIFFERENT):
        raise click.exceptions.Exit(_DIFFERENT)
    if any(column.freshness is not Freshness.CURRENT for column in matrix.columns):
        raise click.exceptions.Exit(TROUBLE)
