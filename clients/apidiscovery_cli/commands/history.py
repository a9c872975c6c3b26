"""`apidiscovery history`: what changed when, in clusters and in what a server merges."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypedDict, Unpack

import click
from apidiscovery.service.v1 import history_pb2
from apidiscovery_client import ServerUnreachable
from apidiscovery_client._grpc.calls import CallRefused

from apidiscovery_cli.grpc_connection import with_client
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.history_calls import HistoryClient, timestamp
from apidiscovery_cli.history_words import MERGED, DescribedChange, describe, row
from apidiscovery_cli.options import TextType, duration_s
from apidiscovery_cli.outages import Outage
from apidiscovery_cli.output import print_data, print_lines, tell
from apidiscovery_cli.printing import table
from apidiscovery_cli.reports.fields import field_lines
from apidiscovery_cli.reports.forms import escaped
from apidiscovery_cli.sides import utc

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_HEADINGS = ("TIME", "CLUSTER", "CAUSE", "CHANGE")
_Describe: TypeAlias = Callable[[history_pb2.HistoryChange], DescribedChange | None]
_DAYS = re.compile(r"([0-9]{1,5})d")


def moment(text: str) -> datetime:
    """Return a time: a date, a time in UTC unless it says otherwise, or an age such as 7d.

    Raises:
        ValueError: It is neither.
    """
    days = _DAYS.fullmatch(text)
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        when = None
    try:
        if when is not None:
            return utc(when)
        ago = timedelta(days=int(days[1])) if days else timedelta(seconds=duration_s(text))
        return datetime.now(UTC) - ago
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is neither a time, such as 2026-11-20 or 2026-11-20T10:00:00Z, nor how"
            " long ago it was, such as 7d or 12h"
        ) from None


_MOMENT = TextType("time", moment)


def _complete_kinds(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    from apidiscovery_cli.completing import (  # noqa: PLC0415 - it imports HTTP
        complete_resources,
    )

    return complete_resources(ctx, param, incomplete)


class _Flags(TypedDict):
    clusters: tuple[str, ...]
    groups: tuple[str, ...]
    kinds: tuple[str, ...]
    since: datetime | None
    until: datetime | None
    limit: int
    output: str
    no_headers: bool
    watch: bool
    fields: bool


@click.command("history", cls=Command)
@click.option(
    "--cluster",
    "clusters",
    multiple=True,
    metavar="NAME",
    help=f"Only changes of this cluster, {MERGED} for the server's own merged groups; repeatable.",
)
@click.option(
    "--group",
    "groups",
    multiple=True,
    metavar="NAME",
    help="Only changes of this API group, core for the core group; repeatable.",
)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    shell_complete=_complete_kinds,
    help="Only changes of this kind, such as Deployment or deployments; repeatable.",
)
@click.option(
    "--since",
    type=_MOMENT,
    metavar="TIME",
    help="Only changes since this time: 7d, 12h, 2026-11-20, or 2026-11-20T10:00:00Z.",
)
@click.option("--until", type=_MOMENT, metavar="TIME", help="Only changes before this time.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=100,
    show_default=True,
    help="Print this many of the newest changes; 0 for all.",
)
@click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json", "markdown", "name"]),
    default="table",
    show_default=True,
    help="Output format; json with --watch is one object a line.",
)
@click.option("--no-headers", is_flag=True, help="Don't print headers.")
@click.option(
    "--watch",
    "-w",
    is_flag=True,
    help="Print the oldest change first, then each new change as it happens.",
)
@click.option(
    "--fields",
    is_flag=True,
    help="Also print what changed in the fields of kinds, as 'diff --fields' does.",
)
@with_client(HistoryClient, has_own_cluster=True)
def history(client: HistoryClient, **flags: Unpack[_Flags]) -> bool:
    """Show what has changed on a server and in its clusters, the newest change first.

    Changes of removed clusters are shown too. The server keeps changes for the time that its option
    --history sets.
    """
    if flags["watch"]:
        if flags["until"] or flags["output"] == "markdown":
            raise click.UsageError("--watch cannot be used together with --until or -o markdown")
        _follow(client, flags)
    limit = flags["limit"]
    every = _described(client, flags, _describer(client, flags))
    found = list(islice(every, limit + 1 if limit else None))
    shown = found[:limit] if limit else found
    _print(shown, flags)
    if len(shown) < len(found):
        tell(f"there are older changes, too; --limit {2 * limit} prints more")
    return True


def _selection(flags: _Flags) -> history_pb2.HistorySelection:
    kinds = [history_pb2.HISTORY_CHANGE_KIND_GROUP] if flags["kinds"] else []
    if kinds and flags["fields"]:
        kinds.append(history_pb2.HISTORY_CHANGE_KIND_OPENAPI)
    return history_pb2.HistorySelection(
        clusters=["" if name == MERGED else name for name in flags["clusters"]],
        groups=["" if name == "core" else name for name in flags["groups"]],
        kinds=kinds,
    )


def _described(
    client: HistoryClient, flags: _Flags, describe_one: _Describe
) -> Iterator[DescribedChange]:
    """Yield what is selected, the newest first."""
    request = history_pb2.ListChangesRequest(
        selection=_selection(flags),
        since=timestamp(flags["since"]),
        until=timestamp(flags["until"]),
        with_groups=True,
    )
    return filter(None, map(describe_one, client.changes(request)))


def _describer(client: HistoryClient, flags: _Flags) -> _Describe:
    """Return a function that describes a change; None for one that is not of the kinds."""
    kinds = [kind.lower() for kind in flags["kinds"]]
    if not flags["fields"]:
        return lambda change: describe(change, kinds)
    from apidiscovery_cli.history_fields import FieldHistory  # noqa: PLC0415 - rarely wanted

    fields = FieldHistory(client, kinds)
    return lambda change: describe(change, kinds, fields.of)


# Printing.


def _print(changes: Sequence[DescribedChange], flags: _Flags) -> None:
    headers = not flags["no_headers"]
    match flags["output"]:
        case "json":
            document = {"changes": [one.as_json() for one in changes]}
            print_data(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
        case "name":
            print_lines(*(f"changes/{one.change.id}" for one in changes))
        case "markdown":
            head = ["| Time | Cluster | Cause | Change |", "|---|---|---|---|"] if headers else []
            print_lines(*head, *map(_markdown_row, changes))
        case _ if changes:
            _print_table(changes, headers=headers)
        case _:
            tell("No changes found")


def _print_table(changes: Sequence[DescribedChange], *, headers: bool) -> None:
    head = [_HEADINGS] if headers else []
    lines = table([*head, *map(row, changes)]).split("\n")
    print_lines(*lines[: len(head)])
    for one, line in zip(changes, lines[len(head) :], strict=False):
        print_lines(line, *_below(one))


def _markdown_row(one: DescribedChange) -> str:
    cells = " | ".join(map(escaped, row(one)))
    return f"| {'<br>'.join([cells, *map(escaped, _fields_of(one))])} |"


def _fields_of(one: DescribedChange) -> list[str]:
    return field_lines(one.fields) if one.fields else []


def _below(one: DescribedChange) -> list[str]:
    return [f"    {line}" for line in _fields_of(one)]


# Watching.


def _follow(client: HistoryClient, flags: _Flags) -> NoReturn:
    """Print what is selected, the oldest first, and then each change as it comes.

    Raises:
        DiscoveryError: The server does not answer any more, or has another history now.
    """
    after = client.last_id()
    describe_one = _describer(client, flags)
    if flags["limit"]:
        found = _described(client, flags, describe_one)
        earlier = (one for one in found if one.change.id <= after)
        for one in reversed(list(islice(earlier, flags["limit"]))):
            _print_line(one, flags)
    outage = Outage(client.request_timeout_s)
    outage.end()
    while True:
        request = history_pb2.WatchChangesRequest(
            selection=_selection(flags), after_id=after, with_groups=True
        )
        try:
            for message in client.watch(request):
                outage.end()
                changes = message.changes.changes
                for one in filter(None, map(describe_one, changes)):
                    _print_line(one, flags)
                after = changes[-1].id if changes else message.heartbeat.after_id
        except (CallRefused, ServerUnreachable) as error:
            outage.wait(error)


def _print_line(one: DescribedChange, flags: _Flags) -> None:
    if flags["output"] == "json":
        print_data(json.dumps(one.as_json(), ensure_ascii=False) + "\n")
    elif flags["output"] == "name":
        print_lines(f"changes/{one.change.id}")
    else:
        print_lines("  ".join(row(one)), *_below(one))
    sys.stdout.flush()
