"""What the subcommands about OpenAPI documents share: cache options, selection, fetching, JSON."""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count

import click
from apidiscovery_client._server import Server
from apidiscovery_client.model import GroupVersionResource
from apidiscovery_client.openapi.asking import FetchedDocument, Location, key_of
from apidiscovery_client.openapi.json_documents import NotExplained, Object

from apidiscovery_cli.connection_options import FOLDER
from apidiscovery_cli.discovery import Source, snapshot_cache
from apidiscovery_cli.openapi.documents import DocumentCache, OpenApiClient, default_folder
from apidiscovery_cli.openapi.resource_names import parse_group_version
from apidiscovery_cli.options import Option, Values
from apidiscovery_cli.output import progress, tell_warning
from apidiscovery_cli.printing import yaml_text

CACHE: tuple[Option, ...] = (
    click.option(
        "--cache-dir",
        type=FOLDER,
        help="Folder of the disk cache, by default apidiscovery/openapi in $KUBECACHEDIR or"
        " ~/.kube/cache.",
    ),
    click.option("--no-cache", is_flag=True, help="Do not use the disk cache."),
)


def cache_of(values: Values) -> DocumentCache | None:
    """Take the cache out of the values of the current command; None when it is off."""
    folder, is_off = values.pop("cache_dir"), values.pop("no_cache")
    if folder and is_off:
        raise click.UsageError("--cache-dir and --no-cache cannot be used together")
    return None if is_off else DocumentCache(folder or default_folder())


def discovery_source(server: Server) -> Source:
    """Return a server with a cache for its discovery, by the cache options of the command."""
    params = click.get_current_context().params
    return Source(server, snapshot_cache(params["cache_dir"], is_off=params["no_cache"]))


def compact_json(value: object) -> str:
    """Return JSON on one line, as API servers send it, and a line feed."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


WRITERS: Mapping[str, Callable[[object], str]] = {"json": compact_json, "yaml": yaml_text}


def chosen(index: Mapping[str, Location], names: Sequence[str]) -> list[Location]:
    """Return the locations of the documents of group-versions, of all without names, by key.

    A name is a group-version such as `apps/v1`, or a key of the index such as `apis/apps`.

    Raises:
        NotExplained: One is not in the index.
    """
    if not names:
        return list(index.values())
    keys = [name if name in index else key_of(parse_group_version(name)) for name in names]
    for name, key in zip(names, keys, strict=True):
        if key not in index:
            raise NotExplained(
                f'the server has no OpenAPI document of "{name}";'
                " those that it has are listed by 'apidiscovery openapi get'"
            )
    return [index[key] for key in sorted(set(keys))]


def fetch(
    server: Server, cache: DocumentCache | None, names: Sequence[str] = ()
) -> list[FetchedDocument]:
    """Return the documents of group-versions, of all without names, and show progress."""

    async def run() -> list[FetchedDocument]:
        async with OpenApiClient(server, cache, warn=tell_warning) as client:
            locations = chosen(await client.index(), names)
            with progress("Fetching documents") as step:
                numbers = count(1)

                def advance() -> None:
                    if step:
                        step(next(numbers), len(locations))

                return await client.documents(locations, advance)

    return asyncio.run(run())


def parsed(documents: Iterable[FetchedDocument]) -> Iterator[tuple[str, Object]]:
    """Yield documents by their keys in the index, parsing one at a time."""
    for document in documents:
        yield document.location.key, document.parsed()


def document_of(
    server: Server, cache: DocumentCache | None, resource: GroupVersionResource
) -> Object:
    """Return the document of a resource's group-version; raise `NotExplained` for none."""

    async def run() -> Object:
        async with OpenApiClient(server, cache, warn=tell_warning) as client:
            location = (await client.index()).get(key_of(resource))
            if location is None:
                raise NotExplained(f'couldn\'t find resource for "{resource}"')
            return (await client.document(location)).parsed()

    return asyncio.run(run())
