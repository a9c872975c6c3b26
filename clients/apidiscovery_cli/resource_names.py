"""Completes names of resources from the disk cache, without a request."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import read_server
from apidiscovery_client._kubectl import preferred_resources
from apidiscovery_client._terminal import printable
from apidiscovery_client.model import Snapshot

from apidiscovery_cli.connection_options import DEFAULT_SERVER, flags_of
from apidiscovery_cli.discovery import Source, cached_snapshot, snapshot_cache

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_MAX_CANDIDATES = 500  # shells ask for confirmation from 100 on


def complete_resources(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the names with a prefix: plural names, also with their group, and short names.

    There are none where the server of the command line is not in the cache, or not valid.
    """
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for completion

    del param
    snapshot = _cached(ctx)
    if snapshot is None:
        return []
    found = {
        name: kind
        for name, kind in _names(snapshot)
        if name.startswith(incomplete) and printable(name) == name
    }
    return [
        CompletionItem(name, help=printable(kind))
        for name, kind in sorted(found.items())[:_MAX_CANDIDATES]
    ]


def _names(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield names with kinds; for a name in several groups the preferred group comes last."""
    listed = [resource for _, found in preferred_resources(snapshot) for resource in found]
    for resource in reversed(listed):
        if resource.verbs:
            yield resource.name, resource.kind
            yield resource.gvr.group_resource, resource.kind
            yield from ((name, resource.kind) for name in resource.short_names)


def _cached(ctx: click.Context) -> Snapshot | None:
    with ctx.scope(cleanup=False):
        flags = flags_of(dict(ctx.params))
    try:
        server = read_server(default_url=DEFAULT_SERVER, **flags)
        cache = snapshot_cache(ctx.params.get("cache_dir"), is_off=bool(ctx.params.get("no_cache")))
        fetched = cached_snapshot(Source(server, cache))
    except (DiscoveryError, click.UsageError, OSError, ValueError):
        return None  # a shell cannot show errors of completion
    return fetched.snapshot if fetched else None
