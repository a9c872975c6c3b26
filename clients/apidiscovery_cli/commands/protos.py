"""`apidiscovery protos`."""

import click
from apidiscovery_client.protos import protos_path

from apidiscovery_cli.help_pages import Command


@click.command("protos", cls=Command)
def protos() -> None:
    """Print the path of the folder with the .proto files, for a generator's --proto_path."""
    click.echo(protos_path())
