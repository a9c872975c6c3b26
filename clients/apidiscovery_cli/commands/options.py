"""`apidiscovery options`: the options for servers and credentials that all commands share."""

import click

from apidiscovery_cli.connection_options import all_options
from apidiscovery_cli.output import print_text


@click.command("options")
@click.pass_context
def options(context: click.Context) -> None:
    """List the options for servers and credentials, which most commands take.

    They may also come before the command.
    """
    formatter = context.make_formatter()
    records = [param.get_help_record(context) for param in all_options()]
    with formatter.section("Options for servers and credentials"):
        formatter.write_dl([record for record in records if record])
    print_text(formatter.getvalue())
