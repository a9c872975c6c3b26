"""`apidiscovery upgrade`: lists what to do before clusters are upgraded.

| exit code | when |
|---|---|
| 0 | nothing to do |
| 1 | something to do, for some cluster |
| 2 | trouble: bad usage, the only cluster does not answer, or nothing is to be done and something,
      or a cluster, could not be read |
"""

import shlex
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryClient, DiscoveryError, InvalidConfiguration
from apidiscovery_client._connecting import Flags, http_target
from apidiscovery_client.fleet import Fleet
from apidiscovery_client.fleet._members import servers_of_contexts
from apidiscovery_client.snapshots.releases import PREFIX, release
from apidiscovery_client.transports import HttpTransport
from apidiscovery_client.upgrading import Evidence, plan, read_cluster

from apidiscovery_cli.commands._side_by_side import named
from apidiscovery_cli.completing import complete_sides
from apidiscovery_cli.connection_options import flags_of
from apidiscovery_cli.files import STDIN
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import report_output, with_options
from apidiscovery_cli.output import TROUBLE, Trouble, print_report, working
from apidiscovery_cli.reports.forms import FORMATS, Format
from apidiscovery_cli.reports.upgrade import Outcome, Unanswered, render_plans
from apidiscovery_cli.sides import (
    ALL_CONTEXTS,
    CLUSTER,
    CONTEXT,
    CONTEXTS,
    SERVICE,
    SIDE_HELP,
    SIDE_OPTIONS,
    connector,
    flags_for,
    is_server,
    open_side,
    refuse_shared_identity,
    transport_to,
    with_service,
)

_TO_DO = 1
_AT_ONCE = 8  # clusters that are asked side by side
_CURRENT = ""  # the side that is the current context


class _Options(TypedDict):
    target: str
    contexts: Sequence[str]
    all_contexts: bool
    service: str | None
    output: Format


@dataclass(frozen=True, slots=True)
class _Member:
    """A cluster of the command line.

    Attributes:
        side: Without `cluster:`; `_CURRENT` for the current context.
        kubectl: How kubectl is run for it.
    """

    name: str
    side: str
    kubectl: str


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="List what to do before a cluster is upgraded, most urgent first, each with a command.\n\n"
    f"Each CLUSTER is {SIDE_HELP}; with --server also cluster:NAME. By default it is the current"
    " context. For a file, a release or a cluster of a service the list is made from discovery"
    " alone.\n\n"
    "The command reads discovery, /version, /metrics (which deprecated APIs clients have called"
    " since the API server started), CustomResourceDefinitions, APIServices, StorageVersions, and"
    " Services of conversion webhooks. It calls no webhook and writes nothing. What you may not"
    " read is listed.\n\n"
    "Exit code: 0 if there is nothing to do; 1 if there is; 2 if the only cluster cannot be read,"
    " or if there is nothing to do but something, or a cluster, could not be read.",
)
@click.argument("clusters", metavar="[CLUSTER]...", nargs=-1, shell_complete=complete_sides)
@click.option(
    "--to",
    "target",
    required=True,
    metavar="RELEASE",
    help="The release to upgrade to, such as 1.36.",
)
@click.option("--context", metavar="NAME", help="The context of the kubeconfig to use.")
@CONTEXTS
@ALL_CONTEXTS
@report_output(FORMATS)
@with_options((SERVICE, *SIDE_OPTIONS), flags_of)
def upgrade(flags: Flags, *, clusters: tuple[str, ...], **options: Unpack[_Options]) -> None:
    """Print the report, and end with the exit code that it stands for."""
    try:
        target = release(options["target"].removeprefix(PREFIX)).server.removeprefix(PREFIX)
        sides = _sides(flags, clusters, options)
        members = _members(sides, flags, options["service"])
        flags = flags_for(flags, sides)
        refuse_shared_identity(flags, [member.side for member in members])
        with working(f"Comparing with Kubernetes {target}"), ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = partial(_outcome, flags=flags, target=target)
            outcomes = list(pool.map(asked, members))
    except DiscoveryError as error:
        raise Trouble(str(error)) from None
    if len(outcomes) == 1 and isinstance(outcomes[0], Unanswered):
        raise Trouble(outcomes[0].reason)
    print_report(render_plans(outcomes, target, options["output"]))
    if exit_code := _exit_code(outcomes):
        raise click.exceptions.Exit(exit_code)


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    if any(not isinstance(one, Unanswered) and one.steps for one in outcomes):
        return _TO_DO
    doubtful = any(isinstance(one, Unanswered) or one.unread for one in outcomes)
    return TROUBLE if doubtful else 0


def _sides(flags: Flags, clusters: Sequence[str], options: _Options) -> list[str]:
    """Return the clusters that a command line names; none of them has been asked yet.

    Raises:
        click.UsageError: They do not go together.
        DiscoveryError: The kubeconfig cannot be read, or the service does not answer.
    """
    sides = list(clusters)
    if context := flags.get("context"):
        sides.append(CONTEXT + context)
    flags = {**flags, "context": None}
    if patterns := ("*",) if options["all_contexts"] else tuple(options["contexts"]):
        sides += (CONTEXT + name for name in servers_of_contexts(patterns, prefix="--", **flags))
    if (service := options["service"]) and not sides:
        with Fleet.of_server(service, **flags) as fleet:
            sides = [CLUSTER + column.name for column in fleet.clusters()]
        if not sides:
            raise InvalidConfiguration(f"{service}: the service knows no clusters")
    if sides.count(STDIN) > 1:
        raise click.UsageError("only one cluster can be standard input")
    return sides or [_CURRENT]


def _members(sides: Sequence[str], flags: Flags, service: str | None) -> list[_Member]:
    found = dict[str, _Member]()
    for text in sides:
        name, side = named(text) if text else ("current context", _CURRENT)
        if name in found:
            raise click.UsageError(f"{text}: another cluster is called {name!r}; want NAME=CLUSTER")
        found[name] = _Member(name, with_service(side, service), _kubectl(side, flags))
    return list(found.values())


def _kubectl(side: str, flags: Flags) -> str:
    """Return how kubectl is run for a side, as words of a shell; without credentials."""
    words = ["kubectl"]
    if side.startswith(CONTEXT):
        words += ["--context", side.removeprefix(CONTEXT)]
    elif side.partition("://")[0].lower() in ("http", "https"):
        return shlex.join([*words, "--server", side])
    if kubeconfig := flags.get("kubeconfig"):
        words += ["--kubeconfig", kubeconfig]
    return shlex.join(words)


def _outcome(member: _Member, *, flags: Flags, target: str) -> Outcome:
    try:
        return plan(_evidence(member, flags), target, member.kubectl)
    except DiscoveryError as error:
        return Unanswered(member.name, str(error))


def _evidence(member: _Member, flags: Flags) -> Evidence:
    side = member.side
    if side != _CURRENT and not is_server(side):
        return read_cluster(member.name, open_side(side, connector(flags)))
    transport = (
        transport_to(side, flags) if side else HttpTransport(http_target(None, flags, prefix="--"))
    )
    with DiscoveryClient(transport) as client:
        return read_cluster(member.name, client.refresh(), transport)
