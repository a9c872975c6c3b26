"""Completes names of resources and sides of comparisons, without a request.

Resources come from the disk cache, contexts from the kubeconfig.
"""

import contextlib
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


def complete_sides(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> "list[CompletionItem]":
    """Return the sides that begin so, and an item that makes the shell complete files."""
    from apidiscovery_client.snapshots.releases import (  # noqa: PLC0415 - only for completion
        PREFIX,
        known_releases,
    )
    from click.shell_completion import CompletionItem  # noqa: PLC0415 - the same

    from apidiscovery_cli.sides import CLUSTER, CONTEXT  # noqa: PLC0415 - the same

    del param
    words = [f"{CONTEXT}{name}" for name in _contexts(ctx)]
    words += (f"{PREFIX}{name.removeprefix(PREFIX)}" for name in reversed(known_releases()))
    words += [CLUSTER] if ctx.params.get("service") else []
    items = [
        CompletionItem(word)
        for word in words
        if word.startswith(incomplete) and printable(word) == word
    ]
    if not incomplete.startswith((CLUSTER, CONTEXT, PREFIX)):
        items.append(CompletionItem(incomplete, type="file"))
    return items


def _contexts(ctx: click.Context) -> list[str]:
    from apidiscovery_client.fleet._members import (  # noqa: PLC0415 - only for completion
        servers_of_contexts,
    )

    with contextlib.suppress(DiscoveryError, OSError, ValueError):
        return list(servers_of_contexts(["*"], kubeconfig=ctx.params.get("kubeconfig")))
    return []  # a shell cannot show errors of completion
