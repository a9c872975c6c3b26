"""`apidiscovery fleet`: clusters side by side, asked by this process or by a service.

| exit code | when |
|---|---|
| 0 | all clusters serve the same |
| 1 | they differ |
| 2 | bad usage, a file, context or release that cannot be read, names that no cluster has; or
nothing differs, but a cluster does not answer |
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias, TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import Flags
from apidiscovery_client.fleet import Fleet
from apidiscovery_client.fleet._members import servers_of_contexts
from apidiscovery_client.resolving.common_version import CommonVersion
from apidiscovery_formats.matrix import Freshness, Matrix, of_clusters

from apidiscovery_cli.commands._side_by_side import (
    exit_for,
    members_of,
    named,
    print_matrix,
)
from apidiscovery_cli.completing import complete_resources, complete_sides
from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.fleet_table import common_text, silence
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import TextType, with_options
from apidiscovery_cli.output import TROUBLE, Trouble, print_text, progress
from apidiscovery_cli.sides import (
    ALL_CONTEXTS,
    CONTEXT,
    CONTEXTS,
    SCHEMES,
    SIDE_HELP,
    SIDE_OPTIONS,
    flags_for,
    refuse_shared_identity,
)

_BEST = "best"

_Form: TypeAlias = Literal["table", "json", "markdown", "name"]
_FORMS: tuple[_Form, ...] = ("table", "json", "markdown", "name")


def _service_url(text: str) -> str:
    scheme, separator, _ = text.partition("://")
    if not separator or scheme.lower() not in SCHEMES:
        raise ValueError(f"want a URL of {', '.join(SCHEMES)}, got {text!r}")
    return text


_SERVICE_URL = TextType("url", _service_url)


class _Options(TypedDict):
    service: str | None
    selector: str
    contexts: Sequence[str]
    all_contexts: bool
    all_rows: bool
    wide: bool
    groups: Sequence[str]
    kinds: Sequence[str]
    common: bool
    output: _Form


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Show clusters side by side: which kinds each serves, in which versions.\n\n"
    f"Each CLUSTER is {SIDE_HELP}. NAME=CLUSTER gives it a name.\n\n"
    "A cell lists the versions; * marks the preferred one. - means that the cluster does not serve"
    " the kind, ? that this is not known.\n\n"
    "With --server the clusters are those of a running service: all, or those whose names match a"
    " CLUSTER, such as 'prod-*'. The service answers at once, with the last known state of clusters"
    " that are down.\n\n"
    "'best KIND' before the clusters prints the best version of that kind that all of them"
    " serve.\n\n"
    "Exit code: 0 if all clusters serve the same; 1 if they differ; 2 if a file, context or"
    " release cannot be read, if no cluster serves a --group or --kind, or if nothing differs but a"
    " cluster does not answer.",
)
@click.argument(
    "clusters", metavar="[best KIND] [CLUSTER]...", nargs=-1, shell_complete=complete_sides
)
@click.option(
    "--server",
    "-s",
    "service",
    type=_SERVICE_URL,
    metavar="URL",
    help="Show the clusters of this running service (apidiscovery serve), over HTTP or gRPC"
    " (grpc://host:50051).",
)
@click.option(
    "--selector",
    "-l",
    "selector",
    metavar="LABELS",
    default="",
    help="Only clusters with these labels, such as region=eu; with --server only.",
)
@CONTEXTS
@ALL_CONTEXTS
@click.option(
    "--all", "all_rows", is_flag=True, help="Also show kinds that are the same everywhere."
)
@click.option("--wide", is_flag=True, help="Also show names of resources, short names and scopes.")
@click.option(
    "--group",
    "groups",
    metavar="GROUP",
    multiple=True,
    help="Only this group, '' for the core group; repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    metavar="KIND",
    multiple=True,
    shell_complete=complete_resources,
    help="Only this kind, by its name, resource or short name, in any case; repeatable. --all shows"
    " it also where it is the same everywhere.",
)
@click.option(
    "--common",
    is_flag=True,
    help="Show what all clusters serve, with the versions that they share.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(list(_FORMS)),
    default="table",
    show_default=True,
    help="Output format.",
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
        if wanted is not None:
            with _opened(flags, clusters, options) as members:
                best = _best_of(members, wanted, clusters, options)
            _print_best(best)
            return
        with _opened(flags, clusters, options) as members:
            matrix = members.matrix(max_age_s=0)
            if options["service"] and clusters:
                matrix = of_clusters(matrix, _matching(members, clusters, options) or ())
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    if not matrix.columns:
        raise Trouble(_no_cluster(options))
    matrix = _selected(matrix, options)
    if options["common"]:
        _print_common(matrix)
        return
    print_matrix(matrix, options["output"], all_rows=options["all_rows"], wide=options["wide"])
    exit_for(matrix)


@contextmanager
def _opened(flags: Flags, clusters: Sequence[str], options: _Options) -> Generator[Fleet]:
    """Yield the fleet that a command line names; nothing has been asked yet."""
    patterns = ("*",) if options["all_contexts"] else tuple(options["contexts"])
    if service := options["service"]:
        if patterns:
            raise click.UsageError("--contexts: with --server the clusters are its own")
        with Fleet.of_server(service, selector=options["selector"], **flags) as fleet:
            yield fleet
        return
    if options["selector"]:
        raise click.UsageError("--selector: only a service knows labels; want --server URL")
    with (
        progress("Asking clusters") as step,
        _asked(flags, clusters, patterns, step) as fleet,
    ):
        yield fleet


def _asked(
    flags: Flags,
    clusters: Sequence[str],
    patterns: Sequence[str],
    step: Callable[[int, int], object] | None,
) -> Fleet:
    """Return the fleet of clusters that this process asks by itself."""
    if not clusters and not patterns:
        raise click.UsageError(
            "which clusters? name some, or give --contexts PATTERN, --all-contexts or --server URL"
        )
    # A pattern stands for several servers, each with credentials of its own.
    sides = [*(side for _, side in map(named, clusters)), *([CONTEXT, CONTEXT] if patterns else [])]
    flags = flags_for(flags, sides)
    refuse_shared_identity(flags, sides)
    members = members_of(clusters, flags)
    if patterns:
        found = servers_of_contexts(patterns, prefix="--", **flags)
        if twice := sorted(found.keys() & members.keys()):
            raise click.UsageError(f"--contexts: another cluster is called {twice[0]!r}")
        members |= found
    return Fleet(members, cache=True, progress=step)


def _matching(members: Fleet, clusters: Sequence[str], options: _Options) -> tuple[str, ...] | None:
    """Return the names of a service's clusters that are meant; None for all.

    Raises:
        Trouble: The service has no cluster of that name.
    """
    if not options["service"] or not clusters:
        return None
    names = [column.name for column in members.clusters()]
    found: dict[str, None] = {}
    for pattern in clusters:
        matching = [name for name in names if fnmatchcase(name, pattern)]
        if not matching:
            known = ", ".join(names) or "none"
            raise Trouble(f"{pattern}: the service knows no such cluster; it knows {known}")
        found |= dict.fromkeys(matching)
    return tuple(found)


def _no_cluster(options: _Options) -> str:
    """Return why there is nothing to show, so that an empty result does not look like agreement."""
    labels = options["selector"]
    return f"the service knows no cluster{f' with the labels {labels}' if labels else ''}"


def _selected(matrix: Matrix, options: _Options) -> Matrix:
    """Return the rows that are meant.

    Raises:
        Trouble: There are none: a wrong name would look as if all clusters were the same.
    """
    groups, kinds = options["groups"], options["kinds"]
    selected = matrix.selected(groups=groups, kinds=kinds)
    if selected.rows or not (groups or kinds):
        return selected
    given = [*(f"--group {group!r}" for group in groups), *(f"--kind {kind!r}" for kind in kinds)]
    told = f"no cluster is known to serve a kind with {' '.join(given)}"
    if "core" in groups:
        told += "; want --group '' for the core group"
    if silent := [c.name for c in matrix.columns if c.freshness is Freshness.UNKNOWN]:
        told += f"; nothing is known of {', '.join(silent)}"
    raise Trouble(told)


def _print_common(matrix: Matrix) -> None:
    """Print what all serve, and which clusters did not answer; exit code 2 if any never did."""
    print_text(common_text(matrix))
    now = datetime.now(UTC)
    for column in matrix.columns:
        if column.freshness is not Freshness.CURRENT:
            click.echo(f"warning: {silence(column, now)}", err=True)
    if any(column.freshness is Freshness.UNKNOWN for column in matrix.columns):
        raise click.exceptions.Exit(TROUBLE)


def _best_of(
    members: Fleet, wanted: str, clusters: Sequence[str], options: _Options
) -> CommonVersion:
    names = _matching(members, clusters, options)
    if not (members.names or members.clusters()):
        raise Trouble(_no_cluster(options))
    return members.best_common_version(wanted, names)


def _print_best(found: CommonVersion) -> None:
    name = f"{found.group}/{found.version}" if found.group else found.version
    print_text(f"{name} {found.kind}\n")
    for server, why in found.unsure.items():
        click.echo(f"warning: {server}: {why}", err=True)
