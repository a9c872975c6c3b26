"""Completes names of resources from what is kept on disk, without asking anybody."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

import click

from apidiscovery_client.model import Snapshot

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from apidiscovery_client.connecting import Flags

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
    found = {name: kind for name, kind in _names(snapshot) if name.startswith(incomplete)}
    return [CompletionItem(name, help=kind) for name, kind in sorted(found.items())[:_MOST]]


def _names(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """Yield names with kinds; a name of several groups is that of the last, whose kind is shown."""
    from apidiscovery_client.kubectl.preferred import preferred_resources  # noqa: PLC0415 - as above

    listed = [resource for _, found in preferred_resources(snapshot) for resource in found]
    for resource in reversed(listed):
        if resource.verbs:
            yield resource.name, resource.kind
            yield resource.gvr.group_resource, resource.kind
            yield from ((name, resource.kind) for name in resource.short_names)


def _kept_snapshot(ctx: click.Context) -> Snapshot | None:
    # Whatever goes wrong, a shell that completes has no use for it.
    from apidiscovery_client._errors import DiscoveryError  # noqa: PLC0415 - as above
    from apidiscovery_client.cli._connection import (  # noqa: PLC0415 - as above
        DEFAULT_SERVER,
    )
    from apidiscovery_client.cli._discovery import (  # noqa: PLC0415 - as above
        Source,
        kept,
        snapshot_cache,
    )
    from apidiscovery_client.cli._options import BadUsage  # noqa: PLC0415 - as above
    from apidiscovery_client.connecting import Flags, read_server  # noqa: PLC0415 - as above

    names = Flags.__annotations__.keys() & ctx.params.keys()
    flags = cast("Flags", {name: ctx.params[name] for name in names})
    try:
        server = read_server(default_url=DEFAULT_SERVER, **flags)
        cache = snapshot_cache(ctx.params.get("cache_dir"), is_off=bool(ctx.params.get("no_cache")))
        held = kept(Source(server, cache))
    except (DiscoveryError, BadUsage, OSError, ValueError):
        return None
    return held.snapshot if held else None
