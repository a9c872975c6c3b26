"""Completes names of resources from what is kept on disk, without asking anybody."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import read_server
from apidiscovery_client._kubectl import preferred_resources
from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Snapshot

from apidiscovery_cli.click_options import values_of
from apidiscovery_cli.connection_options import DEFAULT_SERVER, flags_of
from apidiscovery_cli.discovery import Source, kept, snapshot_cache
from apidiscovery_cli.plain_options import BadUsage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_MOST = 500  # more than anybody reads; shells ask whether to show as few as 100


def complete_resources(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the names that begin so: plural names, those with a group, and short names.

    There are none when nothing is kept of the server that the command line names, or it names
    none that can be understood.
    """
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - for completion alone

    del param
    snapshot = _kept_snapshot(ctx)
    if snapshot is None:
        return []
    found = {
        name: kind
        for name, kind in _names(snapshot)
        if name.startswith(incomplete) and printable(name) == name
    }
    return [
        CompletionItem(name, help=printable(kind)) for name, kind in sorted(found.items())[:_MOST]
    ]


def _names(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield names with kinds; a name of several groups is that of the last, whose kind is shown."""
    listed = [resource for _, found in preferred_resources(snapshot) for resource in found]
    for resource in reversed(listed):
        if resource.verbs:
            yield resource.name, resource.kind
            yield resource.gvr.group_resource, resource.kind
            yield from ((name, resource.kind) for name in resource.short_names)


def _kept_snapshot(ctx: click.Context) -> Snapshot | None:
    flags = flags_of(values_of(ctx, ctx.params))
    try:
        server = read_server(default_url=DEFAULT_SERVER, **flags)
        cache = snapshot_cache(ctx.params.get("cache_dir"), is_off=bool(ctx.params.get("no_cache")))
        fetched = kept(Source(server, cache))
    except (DiscoveryError, BadUsage, OSError, ValueError):
        return None  # a shell that completes has no use for what went wrong
    return fetched.snapshot if fetched else None
