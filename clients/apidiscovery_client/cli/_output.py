"""Writes what a subcommand could find out, before it tells what it could not."""

import click

from apidiscovery_client._documents import Discovery
from apidiscovery_client._errors import IncompleteDiscovery


def write(text: str, discovery: Discovery) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, then tell what `discovery` lacks.

    Raises:
        IncompleteDiscovery: Some group-versions could not be discovered; stdout has the others.
    """
    click.echo(text.encode("utf-8", errors="replace"), nl=False)
    if discovery.failures:
        raise IncompleteDiscovery({str(gv): why for gv, why in discovery.failures.items()})
