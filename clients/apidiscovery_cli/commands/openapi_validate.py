"""`apidiscovery openapi validate`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict, Unpack

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._http.reply import MAX_BODY_BYTES
from apidiscovery_client._server import Server
from apidiscovery_client.openapi.asking import INDEX_PATH

from apidiscovery_cli.click_options import with_options
from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.exit_codes import FAILED
from apidiscovery_cli.inputs import input_name, read_input
from apidiscovery_cli.openapi.documents import DocumentCache
from apidiscovery_cli.openapi.validation import MAX_PROBLEMS, file_problems, problems
from apidiscovery_cli.openapi_cache_options import with_cache
from apidiscovery_cli.openapi_documents import fetch
from apidiscovery_cli.output import print_lines, tell

_NOT_CHECKED = 2


class _Flags(TypedDict):
    files: tuple[str, ...]


@click.command("validate", short_help="Tell whether documents are sound OpenAPI 3.0.")
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, dir_okay=False, readable=True, allow_dash=True),
    metavar="[FILE...]",
)
@with_options(CONNECTION, server_of)
@with_cache
def validate_command(cache: DocumentCache | None, server: Server, **flags: Unpack[_Flags]) -> None:
    """Tell whether files are sound OpenAPI 3.0, without any the documents that a server serves.

    Files are JSON or YAML, - is standard input. The exit code is 0 when all are sound, 1 when one
    is not, 2 when one could not be had.
    """
    try:
        documents = list(_read(flags["files"]) if flags["files"] else _served(server, cache))
    except (DiscoveryError, OSError) as error:
        tell(f"error: {error}")
        click.get_current_context().exit(_NOT_CHECKED)
    sound = [_tell_problems(document) for document in documents]
    if not all(sound):
        click.get_current_context().exit(FAILED)


@dataclass(frozen=True, slots=True)
class _Document:
    name: str
    data: bytes
    may_be_yaml: bool


def _served(server: Server, cache: DocumentCache | None) -> Iterator[_Document]:
    for document in fetch(server, cache):
        yield _Document(f"{INDEX_PATH}/{document.location.key}", document.data, may_be_yaml=False)


def _read(files: tuple[str, ...]) -> Iterator[_Document]:
    for name in files:
        # As large as what servers serve may be.
        yield _Document(input_name(name), read_input(name, MAX_BODY_BYTES), may_be_yaml=True)


def _tell_problems(document: _Document) -> bool:
    """Print what is wrong with a document; return whether nothing is."""
    name, check = document.name, file_problems if document.may_be_yaml else problems
    found = [str(problem) for problem in check(document.data)]
    print_lines(*(f"{name}: {problem}" for problem in found))
    if len(found) >= MAX_PROBLEMS:
        print_lines(f"{name}: there may be more, {MAX_PROBLEMS} are told")
    if not found:
        print_lines(f"{name} is sound")
    return not found
