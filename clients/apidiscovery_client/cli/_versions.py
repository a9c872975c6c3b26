"""`apidiscovery api-versions`."""

import click

from apidiscovery_client.cli._discovery import ONLY_GROUPS, Source, discover, with_source
from apidiscovery_client.cli._output import write
from apidiscovery_client.kubectl.table import printable
from apidiscovery_client.kubectl.view import failures_of_groups, listed_versions


@click.command("api-versions")
@with_source
def api_versions(source: Source) -> None:
    """Print the supported API versions on the server, in the form of "group/version"."""
    snapshot = discover(source, ONLY_GROUPS)
    names = sorted(
        str(version.gv) for group in snapshot.groups for version in listed_versions(group)
    )
    write("".join(f"{printable(name)}\n" for name in names), failures_of_groups(snapshot))
