"""What the subcommands about documents share: choosing, fetching, progress, writing."""

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._go_yaml import yaml_text
from apidiscovery_client._http import Server
from apidiscovery_client._table import printable
from apidiscovery_client.openapi.cache import DocumentCache
from apidiscovery_client.openapi.documents import FetchedDocument, Location, OpenApiClient
from apidiscovery_client.openapi.errors import NotExplained
from apidiscovery_client.openapi.resource_names import key_of, parse_group_version

FAILED = 1


class CannotWrite(DiscoveryError):
    """A file or folder that was asked for cannot be written."""

    def __init__(self, path: Path, error: OSError) -> None:
        super().__init__(f"{path} cannot be written: {error.strerror or error}")


Step = Callable[[], object]


def compact_json(value: object) -> str:
    """Return JSON on one line, as API servers send it, with a line feed."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


WRITERS: Mapping[str, Callable[[object], str]] = {"json": compact_json, "yaml": yaml_text}


def tell(line: str) -> None:
    """Write a line on stderr, safe for a terminal."""
    click.echo(printable(line), err=True)


def write_bytes(content: bytes) -> None:
    """Write bytes on stdout as they are."""
    click.echo(content, nl=False)


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


def write_file(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all; raise `CannotWrite`."""
    try:
        _write_whole(path, content)
    except OSError as error:
        raise CannotWrite(path, error) from error


def make_folder(path: Path) -> None:
    """Make a folder and those above it, where they are not there; raise `CannotWrite`."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(path, error) from error


def _write_whole(path: Path, content: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(".tmp", prefix=f".{path.name}.", dir=path.parent)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor has no Path
            file.write(content)
        Path(temporary).chmod(0o666 & ~_umask())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
