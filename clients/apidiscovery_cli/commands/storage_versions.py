"""`apidiscovery storage-versions` and `apidiscovery storage-versions wait`."""

import math
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NoReturn, TypedDict, Unpack

import click
import grpc
from apidiscovery.service.v1 import storage_version_pb2
from apidiscovery_client import ServerUnreachable
from apidiscovery_client._grpc.calls import CallRefused
from apidiscovery_client.storage_versions.service import StorageVersionClient

from apidiscovery_cli.grpc_connection import with_client
from apidiscovery_cli.help_pages import Group
from apidiscovery_cli.options import DURATION
from apidiscovery_cli.outages import Outage
from apidiscovery_cli.output import (
    has_colour,
    print_data,
    print_lines,
    print_painted,
    print_text,
    tell,
)
from apidiscovery_cli.registration_objects import WRITERS
from apidiscovery_cli.skew_matrix import Skew, as_document, hostnames, matrix

TIMED_OUT = 3

# A rolling upgrade changes hundreds of objects in succession; changes are collected for this long.
_COLLECT_S = 0.2

_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


class _Group(Group):
    """Runs `show` when there is no subcommand."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if is_named else ["show", *args])


@click.group("storage-versions", cls=_Group)
def storage_versions() -> None:
    """Show which API server writes which version, or wait until all agree.

    `show` is the default subcommand.
    """


class _ShowFlags(TypedDict):
    names: tuple[str, ...]
    output: str
    color: str
    watch: bool


@storage_versions.command("show")
@click.argument("names", nargs=-1, metavar="[RESOURCE...]")
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "wide", *WRITERS]),
    default="table",
    metavar="table|wide|json|yaml",
    help="Output format, by default a table of resources and servers.",
)
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour the table; auto does so on a terminal, unless NO_COLOR is set.",
)
@click.option("--watch", "-w", is_flag=True, help="Print again after each change.")
@with_client(StorageVersionClient)
def show(client: StorageVersionClient, **flags: Unpack[_ShowFlags]) -> bool:
    """Show the version that each server writes, resource by resource.

    RESOURCE is GROUP.RESOURCE, such as apps.deployments. Without a dot it is of the core group.

    --watch waits for a server that goes away, for as long as --request-timeout.
    """
    names = [_name(word) for word in flags["names"]]
    printer = _Printer(flags)
    if flags["watch"]:
        _follow(client, names, printer)
    shown = Skew.of(client.list(), names)
    printer.show(shown)
    missing = sorted(set(names) - {one.metadata.name for one in shown.objects})
    for name in missing:
        tell(f'Error from server (NotFound): storageversions "{name}" not found')
    return not missing


def _follow(client: StorageVersionClient, names: Sequence[str], printer: "_Printer") -> NoReturn:
    """Print storage versions, and again after each change.

    Raises:
        DiscoveryError: The server does not answer any more.
    """
    outage = Outage(client.request_timeout_s)
    while True:
        try:
            for answer in _answers(client, names):
                outage.end()
                printer.show(Skew.of(answer, names))
            time.sleep(_COLLECT_S)  # our servers never end a watch this way
        except CallRefused as error:
            # The watch has lost changes: list again.
            if error.code != grpc.StatusCode.OUT_OF_RANGE:
                outage.wait(error)
        except ServerUnreachable as error:
            outage.wait(error)


def _answers(
    client: StorageVersionClient, names: Sequence[str]
) -> Iterator[storage_version_pb2.ListStorageVersionsResponse]:
    """Yield a list now and after each change of these names, of any name without names."""
    answer = client.list()
    yield answer
    listed = time.monotonic()
    for event in client.watch(names, answer.list.metadata.resource_version):
        if (
            event.type == storage_version_pb2.WatchStorageVersionsResponse.EVENT_TYPE_BOOKMARK
            or _includes(answer, event)
        ):
            continue
        time.sleep(max(0.0, listed + _COLLECT_S - time.monotonic()))
        answer = client.list()
        yield answer
        listed = time.monotonic()


def _includes(
    answer: storage_version_pb2.ListStorageVersionsResponse,
    event: storage_version_pb2.WatchStorageVersionsResponse,
) -> bool:
    """Return whether a list includes the change of an event."""
    return int(event.resource_version) <= int(answer.list.metadata.resource_version)


class _Printer:
    """Prints storage versions, and again only when they differ."""

    def __init__(self, flags: _ShowFlags) -> None:
        self._flags = flags
        self._last: Skew | None = None

    def show(self, skew: Skew) -> None:
        """Print storage versions, unless they equal the last ones."""
        last, self._last = self._last, skew
        if last is not None and last.objects == skew.objects:
            return
        output = self._flags["output"]
        if write := WRITERS.get(output):
            between = "---\n" if last is not None and output == "yaml" else ""
            print_data(between + write(as_document(skew)))
            return
        if last is not None and sys.stdout.isatty():
            print_painted(_CLEAR)
        if not skew.objects:
            tell("No resources found")
            return
        if last is not None and not sys.stdout.isatty():
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            print_text(f"\n{now}\n")
        colour = _has_colour(self._flags["color"])
        print_painted(matrix(skew, wide=output == "wide", colour=colour))


def _has_colour(asked: str) -> bool:
    if asked == "auto":
        return has_colour()
    return asked == "always"


class _WaitFlags(TypedDict):
    resources: tuple[str, ...]
    timeout: float
    quiet: bool


@storage_versions.command("wait")
@click.argument("resources", nargs=-1, required=True, metavar="RESOURCE[=VERSION]...")
@click.option(
    "--timeout",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long to wait, such as 30s, 5m, 1h; 0 for no limit.",
)
@click.option("--quiet", "-q", is_flag=True, help="Don't print which servers are waited for.")
@with_client(StorageVersionClient)
def wait(client: StorageVersionClient, **flags: Unpack[_WaitFlags]) -> bool:
    """Wait until all API servers write the same version of these resources.

    RESOURCE is GROUP.RESOURCE, such as apps.deployments. Without a dot it is of the core group.
    With =VERSION, such as apps.deployments=apps/v1, they must agree on that version.

    The command fails at once if the service does not answer the first time. A service that stops
    answering later is asked again until the time has passed.

    Exit code: 0 if all agree; 1 if the service fails; 2 for bad usage; 3 if the time has passed.
    """
    targets = [_target(word) for word in flags["resources"]]
    end = time.monotonic() + (flags["timeout"] or math.inf)
    waiting = _Waiting(client, targets, quiet=flags["quiet"])
    outage = Outage(None)
    while (left_s := end - time.monotonic()) > 0:
        try:
            if waiting.reach(outage, None if math.isinf(left_s) else left_s):
                return True
            time.sleep(min(left_s, _COLLECT_S))  # the time is over, or almost
        except (CallRefused, ServerUnreachable) as error:
            if time.monotonic() < end:
                outage.wait(error)
    tell(f"error: timed out waiting for agreement on {', '.join(waiting.missing)}")
    raise click.exceptions.Exit(TIMED_OUT)


class _Waiting:
    """The resources that are waited for, and what was reported of them."""

    def __init__(
        self, client: StorageVersionClient, targets: Sequence[tuple[str, str]], *, quiet: bool
    ) -> None:
        self._client = client
        self._targets = targets
        self._quiet = quiet
        self._told: dict[int, str] = {}
        self._hosts: dict[str, str] = {}
        self.missing = _once(name for name, _ in targets)

    def reach(self, outage: Outage, timeout_s: float | None) -> bool:
        """Report progress until all agree; return False when the time is over.

        Raises:
            CallRefused: The service refuses.
            ServerUnreachable: It does not answer.
        """
        for answer in self._client.wait(self._targets, timeout_s):
            outage.end()
            self._find_hosts(answer, timeout_s)
            self.missing = _once(one.name for one in answer.progress if not one.agreed)
            for index, progress in enumerate(answer.progress):
                self._tell(index, progress)
            if answer.done:
                return True
        return False

    def _find_hosts(
        self, answer: storage_version_pb2.WaitForAgreementResponse, timeout_s: float | None
    ) -> None:
        """Look up the hostnames of servers that a report names."""
        if not self._quiet and any(_servers(one) - self._hosts.keys() for one in answer.progress):
            self._hosts |= hostnames(self._client.list(timeout_s).members)
            # Former members have no hostname, and are not looked up again.
            for one in answer.progress:
                self._hosts |= {each: each for each in _servers(one) - self._hosts.keys()}

    def _tell(self, index: int, progress: storage_version_pb2.AgreementProgress) -> None:
        line = _progress_line(progress, self._hosts)
        if self._told.get(index) == line:
            return
        self._told[index] = line
        if progress.agreed:
            print_lines(line)
        elif not self._quiet:
            tell(line)


def _once(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _servers(progress: storage_version_pb2.AgreementProgress) -> set[str]:
    return {*progress.agreeing, *progress.lagging, *progress.unreported}


def _progress_line(
    progress: storage_version_pb2.AgreementProgress, hosts: Mapping[str, str]
) -> str:
    name = f"storageversion.internal.apiserver.k8s.io/{progress.name}"
    if progress.agreed:
        version = progress.storage_version.status.common_encoding_version
        return f"{name} condition met: all write {version}"
    if not progress.HasField("storage_version"):
        return f"{name} waiting: no server has reported yet"
    parts = [
        f"{label} {', '.join(hosts.get(server, server) for server in servers)}"
        for label, servers in (
            ("agreeing", progress.agreeing),
            ("lagging", progress.lagging),
            ("unreported", progress.unreported),
        )
        if servers
    ]
    return f"{name} waiting: {'; '.join(parts) or 'no server has reported'}"


def _target(word: str) -> tuple[str, str]:
    resource, _, version = word.partition("=")
    return _name(resource), version


def _name(word: str) -> str:
    """Return the name of the StorageVersion of a resource."""
    return word if "." in word else f"core.{word}"
