"""`apidiscovery snapshot`."""

from pathlib import Path

import click

from apidiscovery_client._errors import IncompleteDiscovery
from apidiscovery_client.cli._click_options import with_listing, with_source
from apidiscovery_client.cli._discovery import Source, discover
from apidiscovery_client.cli._files import write_file
from apidiscovery_client.cli._output import print_bytes
from apidiscovery_client.cli._resources import Listing
from apidiscovery_client.kubectl.view import failures
from apidiscovery_client.snapshots.file import MAX_BYTES, dump, load
from apidiscovery_client.snapshots.sides import standard_input


@click.group("snapshot", invoke_without_command=True)
@click.pass_context
def snapshot(context: click.Context) -> None:
    """Save what a server serves in a file, and show such a file."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@snapshot.command("save")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@with_source
def save(source: Source, file: str) -> None:
    """Write what a server serves to FILE, or to stdout for `-`.

    What cannot be discovered is told on stderr, and noted in the file; the exit code is 1 then.
    """
    found = discover(source)
    content = dump(found)
    if file == "-":
        print_bytes(content)
    else:
        write_file(Path(file), content)
    if lacking := failures(found):
        raise IncompleteDiscovery(lacking)


@snapshot.command("show")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@with_listing
def show(listing: Listing, file: str) -> None:
    """Print the API resources in FILE, or in what comes on stdin for `-`.

    FILE is one that `apidiscovery snapshot save` has written, or an answer of /apis or /api in
    JSON. The options are those of api-resources.
    """
    if file == "-":
        listing.print(load(standard_input(), "stdin"))
        return
    with open(file, "rb") as opened:  # noqa: PTH123 - it may be a pipe, which is read in part
        content = opened.read(MAX_BYTES + 1)
    listing.print(load(content, file))
