"""`apidiscovery openapi`: the subcommands, each in a module of its own."""

import click

from apidiscovery_cli.commands.openapi_bundle import bundle_command
from apidiscovery_cli.commands.openapi_get import get_command
from apidiscovery_cli.commands.openapi_schema import schema_command
from apidiscovery_cli.commands.openapi_validate import validate_command


@click.group("openapi", invoke_without_command=True)
@click.pass_context
def openapi(context: click.Context) -> None:
    """Print, merge, check and convert the OpenAPI v3 documents of a server.

    The exit code is 0 when all went well, 1 when something failed, 2 for bad usage; nothing is
    written in part.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (get_command, bundle_command, validate_command, schema_command):
    openapi.add_command(_command)
