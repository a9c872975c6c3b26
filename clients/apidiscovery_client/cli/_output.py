"""Writes what subcommands print."""

import os
import sys
from collections.abc import Mapping
from typing import cast

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
    print_bytes(text.encode("utf-8", errors="replace"))


def print_bytes(content: bytes) -> None:
    """Write bytes on stdout; raise `click.ClickException` when it was closed before we began."""
    if cast("object", sys.stdout) is None:
        raise click.ClickException("stdout is closed: there is nowhere to print to")
    click.echo(content, nl=False)


def print_lines(*lines: str) -> None:
    """Write lines on stdout, safe for a terminal: names in them come from servers."""
    print_text("".join(f"{printable(line)}\n" for line in lines))


def discard_stdout() -> None:
    """Let what stdout still holds go nowhere: flushing it at exit would fail once more."""
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def warn(*lines: str) -> None:
    """Write lines on stderr, safe for a terminal."""
    for line in lines:
        click.echo(printable(line), err=True)


def has_colour() -> bool:
    """Tell whether stdout is a terminal with colours.

    Its user may have set NO_COLOR (no-color.org), and one that is called dumb has none.
    """
    if cast("object", sys.stdout) is None or not sys.stdout.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
