"""Sides that have schemas: manifests in files and folders, snapshots, servers, releases."""

from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from apidiscovery_client import DiscoveryClient
from apidiscovery_client._connecting import Flags
from apidiscovery_client.manifests import Manifest, read_manifests
from apidiscovery_client.model import Snapshot
from apidiscovery_client.schemas import (
    ReleasedSchemas,
    SchemaSource,
    ServedSchemas,
    load_schemas,
    schemas_of_manifests,
)
from apidiscovery_client.snapshots.file import KIND, load
from apidiscovery_client.snapshots.releases import PREFIX, release

from apidiscovery_cli.files import STDIN, UnusableFile
from apidiscovery_cli.manifest_files import readable
from apidiscovery_cli.sides import (
    content_of,
    is_server,
    side_name,
    transport_to,
)

_OF_SNAPSHOT = f'"{KIND}"'.encode()


@dataclass(frozen=True, slots=True)
class Target:
    """What a server, snapshot or release serves, with schemas."""

    snapshot: Snapshot
    schemas: SchemaSource


@contextmanager
def open_target(text: str, flags: Flags, name: str) -> Generator[Target]:
    """Yield what a side serves and its schemas, asked for over one connection.

    Args:
        text: As `sides.open_side` takes it.
        flags: How to connect.
        name: Of a server, in reports.

    Raises:
        InvalidConfiguration: The text names nothing, or it cannot be read.
        DiscoveryError: The server does not answer.
    """
    if text.startswith(PREFIX):
        yield Target(release(text.removeprefix(PREFIX)), ReleasedSchemas(text.removeprefix(PREFIX)))
    elif is_server(text):
        with DiscoveryClient(transport := transport_to(text, flags)) as client:
            snapshot = replace(client.refresh(), server=name)
            yield Target(snapshot, ServedSchemas(transport, name))
    else:
        content, name = content_of(text), side_name(text)
        yield Target(load(content, name), load_schemas(content, name))


@contextmanager
def open_schemas(text: str, flags: Flags) -> Generator[SchemaSource]:
    """Yield the schemas of a side.

    Args:
        text: As `sides.open_side` takes it, or a file or folder with CustomResourceDefinitions.
        flags: How to connect.

    Raises:
        InvalidConfiguration: The text names nothing, or it cannot be read.
        DiscoveryError: The server does not answer.
    """
    if text.startswith(PREFIX):
        yield ReleasedSchemas(text.removeprefix(PREFIX))
    elif is_server(text):
        with closing(transport_to(text, flags)) as transport:
            yield ServedSchemas(transport, text)
    else:
        yield _of_files(text)


def manifests_in(text: str) -> Iterator[Manifest]:
    """Yield the objects of a file, of all files below a folder, or of standard input for `-`.

    Raises:
        InvalidConfiguration: Something cannot be read.
    """
    for file in readable([text], recursive=True):
        if isinstance(file, UnusableFile):
            raise file
        yield from read_manifests(file.content, file.path)


def _of_files(text: str) -> SchemaSource:
    if text != STDIN and Path(text).is_dir():
        return schemas_of_manifests(manifests_in(text), text)
    content, name = content_of(text), side_name(text)
    if _OF_SNAPSHOT in content:
        return load_schemas(content, name)
    return schemas_of_manifests(read_manifests(content, name), name)
