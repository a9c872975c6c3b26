"""`apidiscovery watch`."""

import json
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import TypeAlias, TypedDict, Unpack

import click
from apidiscovery_client import ClientClosed, changes
from apidiscovery_client._connecting import Flags
from apidiscovery_client._interfaces import Transport
from apidiscovery_client.changes import Change
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import Current, Freshness, GroupVersion, Resource

from apidiscovery_cli.connection_options import (
    CONNECTION,
    FOLDER,
    any_server_named,
    flags_of,
    grpc_server_named,
    is_grpc,
    is_on_command_line,
    server_named,
)
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import DURATION, GRPC_ADDRESS, with_options
from apidiscovery_cli.output import print_lines, print_text, tell

_CLOSE_TIMEOUT_S = 5.0
_ENDING = (signal.SIGINT, signal.SIGTERM)


def _print_text(change: Change) -> None:
    print_lines(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {change}")


def _print_json(change: Change) -> None:
    print_text(json.dumps(change_object(change, datetime.now(UTC))) + "\n")


_PRINTERS: Mapping[str, Callable[[Change], None]] = {"text": _print_text, "json": _print_json}


class _Flags(TypedDict):
    grpc: str | None
    interval_s: float
    once: bool
    initial: bool
    output: str


@click.command("watch", cls=Command)
@click.option(
    "--output",
    "-o",
    type=click.Choice(list(_PRINTERS)),
    default="text",
    show_default=True,
    help="A line of text or a JSON object for each change.",
)
@click.option(
    "--grpc",
    type=GRPC_ADDRESS,
    metavar="HOST:PORT",
    help="Watch the server at this address over gRPC; changes are printed as they happen.",
)
@click.option(
    "--interval",
    "interval_s",
    type=DURATION,
    default="5s",
    show_default=True,
    help="Time between two requests over HTTP, or two attempts to connect over gRPC.",
)
@click.option(
    "--initial", is_flag=True, help="First print everything that is served now, as added."
)
@click.option(
    "--once",
    is_flag=True,
    help="Print what has changed since the last command that filled the disk cache, and end.",
)
@click.option(
    "--cache-dir",
    type=FOLDER,
    help="Folder of the disk cache for --once, by default as for api-resources.",
)
@with_options(CONNECTION, flags_of)
def watch(flags: Flags, cache_dir: Path | None, **own: Unpack[_Flags]) -> None:
    """Print each change of what a server serves, until you stop the command.

    It also prints when the server stops answering, and goes on asking.

    Exit code: 1 if the server does not answer at first.
    """
    if own["interval_s"] <= 0:
        raise click.UsageError("--interval must be longer than 0")
    printed = _PRINTERS[own["output"]]
    if own["once"]:
        _refuse_with_once(own)
        _print_since_last(flags, cache_dir, printed)
        return
    if cache_dir:
        raise click.UsageError("--cache-dir is for --once")
    transport = _transport(flags, own["grpc"])
    with DiscoveryClient(transport) as client, _ended_by_signals(client):
        try:
            server = client.refresh().server
        except ClientClosed:  # by a signal
            return
        tell(f"watching {server}, until you stop it")
        _print_each(client.watch(interval_s=own["interval_s"], initial=own["initial"]), printed)


def _refuse_with_once(own: _Flags) -> None:
    for name in ("grpc", "initial"):
        if own[name]:
            raise click.UsageError(f"--once and --{name} cannot be used together")


def _print_since_last(flags: Flags, folder: Path | None, printed: Callable[[Change], None]) -> None:
    from apidiscovery_cli.discovery import (  # noqa: PLC0415 - it imports HTTP
        Source,
        cached_snapshot,
        discover,
        snapshot_cache,
    )

    source = Source(any_server_named(flags), snapshot_cache(folder, is_off=False))
    before = cached_snapshot(source)
    now = discover(source)
    if before is None:
        tell(f"no earlier snapshot of {now.server}; saved one now")
        return
    _print_each(changes.changes(before.snapshot, now), printed)


def _print_each(news: Iterable[Change], printed: Callable[[Change], None]) -> None:
    for change in news:
        printed(change)
        sys.stdout.flush()


def _transport(flags: Flags, address: str | None) -> Transport:
    if address is None and not is_grpc(flags):
        from apidiscovery_client.transports.http import HttpTransport  # noqa: PLC0415

        from apidiscovery_cli.discovery import WITH_RESOURCES  # noqa: PLC0415 - the same

        return HttpTransport(server_named(flags), replace(WITH_RESOURCES, needs_core=False))
    from apidiscovery_client.transports.grpc import GrpcTransport  # noqa: PLC0415 - it imports grpc

    if address and is_on_command_line("server"):
        raise click.UsageError("--server and --grpc cannot be used together")
    return GrpcTransport(grpc_server_named(flags, address))


@contextmanager
def _ended_by_signals(client: DiscoveryClient) -> Generator[None]:
    """Close the client on a signal that ends the process, then exit with its code.

    The handler raises nothing, as the interrupted code may swallow exceptions. A second signal has
    its former effect.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    # In a thread, as the interrupted code may hold locks of the client.
    closing = threading.Thread(target=client.close, daemon=True)

    def close(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        restore()
        closing.start()

    before = {number: signal.signal(number, close) for number in _ENDING}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        yield
    finally:
        restore()
    if received:
        closing.join(_CLOSE_TIMEOUT_S)  # grpc crashes if the process ends meanwhile
        click.get_current_context().exit(128 + received[0])


def change_object(change: Change, time: datetime) -> dict[str, object]:
    """Return a change as JSON: time, type of change, subject, and text.

    The subject is in `group`, empty for the core group, `version`, `resource` and `kind`, as far as
    they apply.
    """
    return {
        "time": time.isoformat(timespec="milliseconds"),
        "type": type(change).__name__,
        **_subject(change),
        "text": str(change),
    }


def _subject(change: Change) -> dict[str, object]:
    match change:
        case changes.ServerFreshnessChanged(server, before, after):
            return {"server": server, **_freshness(before, after)}
        case changes.FreshnessChanged(gv, before, after):
            return {**_group_version(gv), **_freshness(before, after)}
        case changes.ResourceAdded(resource) | changes.ResourceRemoved(resource):
            return _resource(resource)
        case changes.ResourceChanged(_, after, fields):
            return {**_resource(after), "fields": list(fields)}
        case changes.OrderChanged(kind, of, before, after):
            return {"of": of, "kind": kind, "before": list(before), "after": list(after)}
        case _:
            return _subject_of_versions(change)


_OfVersions: TypeAlias = (
    changes.GroupAdded
    | changes.GroupRemoved
    | changes.GroupChanged
    | changes.VersionAdded
    | changes.VersionRemoved
    | changes.VersionChanged
    | changes.PreferredVersionChanged
)


def _subject_of_versions(change: _OfVersions) -> dict[str, object]:
    match change:
        case changes.GroupAdded(group) | changes.GroupRemoved(group):
            return {"group": group.name, "versions": [version.name for version in group.versions]}
        case changes.GroupChanged(_, after, fields):
            return {"group": after.name, "fields": list(fields)}
        case changes.VersionAdded(version) | changes.VersionRemoved(version):
            names = [resource.name for resource in version.resources]
            return {**_group_version(version.gv), "resources": names}
        case changes.VersionChanged(_, after, fields):
            return {**_group_version(after.gv), "fields": list(fields)}
        case changes.PreferredVersionChanged(group, before, after):
            return {"group": group, "before": before, "after": after}


def _group_version(gv: GroupVersion) -> dict[str, object]:
    return {"group": gv.group, "version": gv.version}


def _resource(resource: Resource) -> dict[str, object]:
    return {**_group_version(resource.gv), "resource": resource.name, "kind": resource.kind}


def _freshness(before: Freshness, after: Freshness) -> dict[str, object]:
    words: dict[str, object] = {"before": type(before).__name__, "after": type(after).__name__}
    return words if isinstance(after, Current) else {**words, "reason": after.reason}
