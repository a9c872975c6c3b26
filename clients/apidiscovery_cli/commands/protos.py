"""`apidiscovery protos`."""

import click
from apidiscovery_client.protos import protos_path


@click.command("protos")
def protos() -> None:
    """Print the folder that holds the .proto files, for a generator's --proto_path."""
    click.echo(protos_path())
