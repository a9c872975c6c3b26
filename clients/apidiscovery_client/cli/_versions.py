"""`apidiscovery api-versions`."""

import asyncio

import click

from apidiscovery_client._http import Server, discover_groups
from apidiscovery_client._table import printable
from apidiscovery_client.cli._connection import with_server
from apidiscovery_client.cli._output import write


@click.command("api-versions")
@with_server
def api_versions(server: Server) -> None:
    """Print the supported API versions on the server, in the form of "group/version"."""
    discovery = asyncio.run(discover_groups(server))
    names = sorted(str(gv) for group in discovery.groups for gv in group.group_versions)
    write("".join(f"{printable(name)}\n" for name in names), discovery)
