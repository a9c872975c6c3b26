"""Writes what subcommands print."""

import os
import sys
from collections.abc import Mapping

import click

from apidiscovery_client._errors import IncompleteDiscovery
from apidiscovery_client.kubectl.table import printable


def write(text: str, failures: Mapping[str, str]) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, then tell what it lacks.

    Raises:
        IncompleteDiscovery: Some group-versions could not be discovered; stdout has the others.
    """
    print_text(text)
    if failures:
        raise IncompleteDiscovery(failures)


def print_text(text: str) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale."""
    click.echo(text.encode("utf-8", errors="replace"), nl=False)


def print_lines(*lines: str) -> None:
    """Write lines on stdout, safe for a terminal: names in them come from servers."""
    print_text("".join(f"{printable(line)}\n" for line in lines))


def warn(*lines: str) -> None:
    """Write lines on stderr, safe for a terminal."""
    for line in lines:
        click.echo(printable(line), err=True)


def has_colour() -> bool:
    """Tell whether stdout is a terminal whose user has not set NO_COLOR (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
