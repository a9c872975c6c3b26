"""The options that say where documents are kept."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

import click
from apidiscovery_client._server import Server

from apidiscovery_cli.discovery import Source, snapshot_cache
from apidiscovery_cli.openapi.documents import DocumentCache, default_folder

P = ParamSpec("P")


def with_cache(
    command: Callable[Concatenate[DocumentCache | None, Server, P], None],
) -> Callable[Concatenate[Server, ...], None]:
    """Add the options of the cache to a command, which gets the cache, None for none."""

    @click.option(
        "--cache-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder to keep documents in, by default apidiscovery/openapi in $KUBECACHEDIR or"
        " ~/.kube/cache.",
    )
    @click.option("--no-cache", is_flag=True, help="Neither use nor keep documents on disk.")
    @functools.wraps(command)
    def run(server: Server, /, *args: P.args, **kwargs: P.kwargs) -> None:
        folder, is_off = kwargs.pop("cache_dir"), kwargs.pop("no_cache")
        if folder and is_off:
            raise click.UsageError("--cache-dir and --no-cache cannot be used together")
        cache = None if is_off else DocumentCache(_path(folder) or default_folder())
        command(cache, server, *args, **kwargs)

    return run


def discovery_source(server: Server) -> Source:
    """Return a server with the cache for what it serves that the options of the command say."""
    params = click.get_current_context().params
    return Source(server, snapshot_cache(params["cache_dir"], is_off=params["no_cache"]))


def _path(value: object) -> Path | None:
    return value if isinstance(value, Path) else None
