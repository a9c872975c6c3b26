"""`apidiscovery openapi bundle`."""

from pathlib import Path
from typing import TypedDict, Unpack

import click
from apidiscovery_client._server import Server

from apidiscovery_cli.click_options import with_options
from apidiscovery_cli.connection_options import CONNECTION, server_of
from apidiscovery_cli.exit_codes import FAILED
from apidiscovery_cli.files import write_file
from apidiscovery_cli.openapi.bundle import Part, bundle
from apidiscovery_cli.openapi.documents import DocumentCache
from apidiscovery_cli.openapi_cache_options import with_cache
from apidiscovery_cli.openapi_documents import WRITERS, fetch
from apidiscovery_cli.output import print_data, tell


class _Flags(TypedDict):
    names: tuple[str, ...]
    output_format: str
    output_file: Path | None
    on_conflict: str


def _file(_context: click.Context, _parameter: click.Parameter, path: Path | None) -> Path | None:
    """Refuse what `-o` would take: with other commands --output is the format."""
    if path and str(path) in WRITERS:
        raise click.BadParameter(f"a format is chosen with -o {path}; a file may be ./{path}")
    return path


@click.command("bundle", short_help="Merge documents into one OpenAPI v3 file.")
@click.argument("names", nargs=-1, metavar="[GROUP/VERSION...]")
@click.option(
    "-o",
    "output_format",
    type=click.Choice(list(WRITERS)),
    default="json",
    metavar="json|yaml",
    help="Output format, by default json.",
)
@click.option(
    "--output",
    "output_file",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    callback=_file,
    help="File to write, by default standard output.",
)
@click.option(
    "--on-conflict",
    type=click.Choice(["rename", "error"]),
    default="rename",
    show_default=True,
    metavar="rename|error",
    help="Whether what differs under one name gets another name, or nothing is written.",
)
@with_options(CONNECTION, server_of)
@with_cache
def bundle_command(cache: DocumentCache | None, server: Server, **flags: Unpack[_Flags]) -> None:
    """Merge the documents of group-versions, by default all, into one OpenAPI v3 file.

    What differs under one name is told on standard error, and the exit code is 1 then with
    --on-conflict=error, otherwise 0.
    """
    documents = fetch(server, cache, flags["names"])
    merged = bundle(Part(found.location.key, found.parsed()) for found in documents)
    is_refused = flags["on_conflict"] == "error"
    for conflict in merged.conflicts:
        tell(f"error: {conflict.problem}" if is_refused else f"Warning: {conflict}")
    if merged.conflicts and is_refused:
        click.get_current_context().exit(FAILED)
    text = WRITERS[flags["output_format"]](merged.document)
    if path := flags["output_file"]:
        write_file(path, text.encode("utf-8", errors="replace"))
    else:
        print_data(text)
