"""Writes what subcommands print."""

import click

from apidiscovery_client._documents import Discovery
from apidiscovery_client._errors import IncompleteDiscovery
from apidiscovery_client._table import printable


def write(text: str, discovery: Discovery) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, then tell what `discovery` lacks.

    Raises:
        IncompleteDiscovery: Some group-versions could not be discovered; stdout has the others.
    """
    print_text(text)
    if discovery.failures:
        raise IncompleteDiscovery({str(gv): why for gv, why in discovery.failures.items()})


def print_text(text: str) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale."""
    click.echo(text.encode("utf-8", errors="replace"), nl=False)


def print_lines(*lines: str) -> None:
    """Write lines on stdout, safe for a terminal: names in them come from servers."""
    print_text("".join(f"{printable(line)}\n" for line in lines))
