"""What the subcommands about documents share: choosing, fetching, progress, writing."""

import asyncio
import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import click
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import FetchedDocument, Location, key_of
from apidiscovery_client.openapi.json_documents import NotExplained

from apidiscovery_cli.openapi.documents import DocumentCache, OpenApiClient
from apidiscovery_cli.openapi.resource_names import parse_group_version
from apidiscovery_cli.printing import yaml_text

Step = Callable[[], object]


def compact_json(value: object) -> str:
    """Return JSON on one line, as API servers send it, with a line feed."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


WRITERS: Mapping[str, Callable[[object], str]] = {"json": compact_json, "yaml": yaml_text}


def chosen(index: Mapping[str, Location], names: Sequence[str]) -> list[Location]:
    """Return where the documents of group-versions are, of all without names, in order of keys.

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
    """Return the documents of group-versions, of all without names, and show how far it is."""

    async def run() -> list[FetchedDocument]:
        async with OpenApiClient(server, cache) as client:
            locations = chosen(await client.index(), names)
            with progress(len(locations), "Fetching documents") as advance:
                return await client.documents(locations, advance)

    return asyncio.run(run())


@contextmanager
def progress(length: int, label: str) -> Generator[Step]:
    """Show a progress bar on stderr while it is a terminal, nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield lambda: bar.update(1)
