"""`apidiscovery api-versions`."""

import click
from apidiscovery_client._kubectl import failures_of_groups, listed_versions
from apidiscovery_client._terminal import printable

from apidiscovery_cli.discovery import (
    ONLY_GROUPS,
    SOURCE,
    Source,
    discover,
    refuse_nothing,
    source_of,
)
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import with_options
from apidiscovery_cli.output import write


@click.command("api-versions", cls=Command)
@with_options(SOURCE, source_of)
def api_versions(source: Source) -> None:
    """Print the supported API versions on the server, in the form of "group/version"."""
    snapshot = discover(source, ONLY_GROUPS)
    names = sorted(
        str(version.gv) for group in snapshot.groups for version in listed_versions(group)
    )
    write("".join(f"{printable(name)}\n" for name in names), failures_of_groups(snapshot))
    refuse_nothing(snapshot)
