"""Writes what subcommands print."""

import os
import sys
from collections.abc import Mapping
from typing import cast

from apidiscovery_client import IncompleteDiscovery
from apidiscovery_client._terminal import printable, printable_lines


def write(text: str, failures: Mapping[str, str]) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, then tell what it lacks.

    Raises:
        IncompleteDiscovery: Some group-versions could not be discovered; stdout has the others.
    """
    print_text(text)
    if failures:
        raise IncompleteDiscovery(failures)


def print_text(text: str) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, safe for a terminal.

    Names and descriptions in it come from servers.
    """
    print_painted(printable_lines(text))


def print_painted(text: str) -> None:
    """Write text with colours of ours on stdout, in which all else is safe for a terminal."""
    _print(text.encode("utf-8", errors="replace"))


def print_data(text: str) -> None:
    """Write JSON or YAML on stdout: on a terminal for people, else as it is for programs."""
    print_bytes(text.encode("utf-8", errors="replace"))


def print_bytes(content: bytes) -> None:
    """Write what a server has sent on stdout: on a terminal for people, else as it is."""
    is_for_people = cast("object", sys.stdout) is not None and sys.stdout.isatty()
    if is_for_people:
        print_text(content.decode("utf-8", errors="backslashreplace"))
    else:
        _print(content)


def _print(content: bytes) -> None:
    """Write bytes on stdout; raise `OSError` also when it was closed before we began."""
    if cast("object", sys.stdout) is None:
        raise OSError("stdout is closed: there is nowhere to print to")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_lines(*lines: str) -> None:
    """Write lines on stdout, each safe for a terminal."""
    print_text("".join(f"{printable(line)}\n" for line in lines))


def discard_stdout() -> None:
    """Let what stdout still holds go nowhere: flushing it at exit would fail once more."""
    if cast("object", sys.stdout) is None:
        return
    with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def tell(*lines: str) -> None:
    """Write lines on stderr, each safe for a terminal: names in them come from servers."""
    if cast("object", sys.stderr) is not None:  # print would write on stdout
        for line in lines:
            print(printable(line), file=sys.stderr, flush=True)  # noqa: T201


def tell_error(error: object) -> None:
    """Tell what went wrong, as every command does."""
    tell(f"error: {error}")


def tell_bad_usage(text: str, command: str) -> None:
    """Tell what is wrong with a command line, and where to read how it should be."""
    message = text.rstrip(".")
    tell(f"error: {message[:1].lower()}{message[1:]}", f"See '{command} --help' for help.")


def has_colour() -> bool:
    """Tell whether stdout is a terminal with colours.

    Its user may have set NO_COLOR (no-color.org), and one that is called dumb has none.
    """
    if cast("object", sys.stdout) is None or not sys.stdout.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
