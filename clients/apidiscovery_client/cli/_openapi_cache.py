"""The options that say where documents are kept."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec

import click

from apidiscovery_client._http import Server
from apidiscovery_client.openapi.cache import DocumentCache, default_folder

P = ParamSpec("P")


def with_cache(
    command: Callable[Concatenate[DocumentCache | None, Server, P], None],
) -> Callable[Concatenate[Server, ...], None]:
    """Add the options of the cache to a command, which gets the cache, None for none."""

    @click.option(
        "--cache-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder to keep documents in, by default apidiscovery/openapi in $XDG_CACHE_HOME or"
        " ~/.cache.",
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


def _path(value: object) -> Path | None:
    return value if isinstance(value, Path) else None
