"""`apidiscovery snapshot`."""

from contextlib import closing
from pathlib import Path

import click
from apidiscovery_client._kubectl import failures
from apidiscovery_client._server import Server
from apidiscovery_client.snapshots.file import MAX_BYTES, dump, load
from apidiscovery_client.transports.http import HttpTransport

from apidiscovery_cli.commands.api_resources import LISTING, ListOptions, listing_of
from apidiscovery_cli.discovery import SOURCE, WITH_RESOURCES, Source, discover, source_of
from apidiscovery_cli.files import input_name, read_input, write_file
from apidiscovery_cli.help_pages import Group
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import IncompleteDiscovery, print_bytes


@click.group("snapshot", cls=Group, invoke_without_command=True)
@click.pass_context
def snapshot(context: click.Context) -> None:
    """Save what a server serves to a file, or show such a file."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@snapshot.command("save")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option("--schemas", is_flag=True, help="Also save the schemas of kinds, for diff --fields.")
@with_options(SOURCE, source_of)
def save(source: Source, file: str, *, schemas: bool) -> None:
    """Write what a server serves to FILE, or to stdout for `-`.

    Group-versions that cannot be discovered are reported on stderr and noted in the file; the exit
    code is 1 then. Schemas are those of CustomResourceDefinitions, where you may list these, else
    those of OpenAPI v3 documents.
    """
    found = discover(source)
    stored, unread = _schemas(source) if schemas else (None, {})
    content = dump(found, schemas=stored)
    if file == "-":
        print_bytes(content)
    else:
        write_file(Path(file), content)
    if lacking := {**failures(found), **unread}:
        raise IncompleteDiscovery(lacking)


def _schemas(source: Source) -> tuple[dict[str, object], dict[str, str]]:
    """Return the schemas of a server as a file has them, and why some could not be had."""
    from apidiscovery_client.schemas import (  # noqa: PLC0415 - it imports yaml
        ServedSchemas,
        all_of,
        stored_schemas,
    )

    if not isinstance(source.server, Server):
        raise click.UsageError("--schemas: they are asked for over HTTP; want http:// or https://")
    with closing(HttpTransport(source.server, WITH_RESOURCES)) as transport:
        served = all_of(ServedSchemas(transport, source.server.url))
    return stored_schemas(served), {str(gv): why for gv, why in served.failures.items()}


@snapshot.command("show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@with_options(LISTING, listing_of)
def show(listing: ListOptions, file: str) -> None:
    """Print the API resources in FILE, or in stdin for `-`.

    FILE was written by `apidiscovery snapshot save`, or is the answer of /apis or /api in JSON. The
    options are those of api-resources.
    """
    listing.print(load(read_input(file, MAX_BYTES), input_name(file)))
