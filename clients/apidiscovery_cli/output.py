"""What subcommands print, on stdout and stderr, and their exit codes.

| exit code | when |
|---|---|
| 0 | success |
| 1 | failure, also in part; the reader of the output went away |
| 2 | bad usage, or the subcommand's extra is not installed |
| 130 | interrupted |
| 143 | terminated while watching |

`diff`, `check`, `fleet` and `upgrade` differ: 1 means that something was found, and 2 also that
something cannot be read or the report not be written.
"""

import os
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TypeAlias, cast

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._terminal import printable, printable_lines

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130
TROUBLE = 2  # of commands whose exit code 1 says that something was found

# Takes how many steps are done, and of how many.
Step: TypeAlias = Callable[[int, int], None]

told_warnings = set[str]()  # by this command line
_MIN_STEPS = 3  # shorter work is done before anybody has read how far it is
_CLEAR_LINE = "\r\x1b[K"


class Trouble(click.ClickException):
    """What a command compares cannot be read, or its report not be written."""

    exit_code = TROUBLE


class IncompleteDiscovery(DiscoveryError):
    """Some group-versions could not be discovered; the others could.

    The text is that of client-go discovery/discovery_client.go `ErrGroupDiscoveryFailed`.

    Attributes:
        failures: Why, by group-version such as `apps/v1`.
    """

    def __init__(self, failures: Mapping[str, str]) -> None:
        reasons = ", ".join(sorted(f"{name}: {reason}" for name, reason in failures.items()))
        super().__init__(f"unable to retrieve the complete list of server APIs: {reasons}")
        self.failures = dict(failures)


def print_report(text: str) -> None:
    """Write a report on stdout; raise `Trouble`, as a failure must not look like its exit codes."""
    try:
        print_painted(text)
    except BrokenPipeError:
        discard_stdout()
        raise click.exceptions.Exit(TROUBLE) from None
    except OSError as error:
        discard_stdout()
        raise Trouble(f"the report cannot be written: {error.strerror or error}") from None


def write(text: str, failures: Mapping[str, str]) -> None:
    """Write `text` on stdout as UTF-8, whatever the locale, then report what it lacks.

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
    """Write text on stdout that is safe for a terminal but for the colours we added."""
    _print(text.encode("utf-8", errors="replace"))


def print_data(text: str) -> None:
    """Write JSON or YAML on stdout, escaped on a terminal, otherwise unchanged."""
    print_bytes(text.encode("utf-8", errors="replace"))


def print_bytes(content: bytes) -> None:
    """Write bytes of a server on stdout, escaped on a terminal, otherwise unchanged."""
    is_terminal = cast("object", sys.stdout) is not None and sys.stdout.isatty()
    if is_terminal:
        print_text(content.decode("utf-8", errors="backslashreplace"))
    else:
        _print(content)


def _print(content: bytes) -> None:
    """Write bytes on stdout; raise `OSError`, also when it was closed before we started."""
    if cast("object", sys.stdout) is None:
        raise OSError("stdout is closed: there is nowhere to print to")
    sys.stdout.flush()
    sys.stdout.buffer.write(content)
    sys.stdout.buffer.flush()


def print_lines(*lines: str) -> None:
    """Write lines on stdout, each safe for a terminal."""
    print_text("".join(f"{printable(line)}\n" for line in lines))


def discard_stdout() -> None:
    """Discard what stdout has buffered: flushing it at exit would fail again."""
    if cast("object", sys.stdout) is None:
        return
    with open(os.devnull, "wb") as null:  # noqa: PTH123
        os.dup2(null.fileno(), sys.stdout.fileno())


def tell(*lines: str) -> None:
    """Write lines on stderr, each made safe for a terminal: names in them come from servers."""
    if cast("object", sys.stderr) is not None:  # print would write on stdout
        cleared = _CLEAR_LINE if _is_terminal() else ""  # the line of `progress` or `working`
        for line in lines:
            print(f"{cleared}{printable(line)}", file=sys.stderr, flush=True)  # noqa: T201


def tell_warning(text: str) -> None:
    """Report a warning of a server on stderr, once, as kubectl does."""
    if text not in told_warnings:
        told_warnings.add(text)
        tell(f"Warning: {text}")


def tell_error(error: object) -> None:
    """Report an error on stderr, as every command does."""
    tell(f"error: {error}")


def tell_bad_usage(text: str, command: str) -> None:
    """Report a wrong command line on stderr, and which command shows its help."""
    message = text.rstrip(".")
    tell(f"error: {message[:1].lower()}{message[1:]}", f"See '{command} --help' for help.")


def has_colour() -> bool:
    """Return whether stdout is a terminal with colours: not a dumb one, and NO_COLOR is not set.

    Source: no-color.org.
    """
    if cast("object", sys.stdout) is None or not sys.stdout.isatty():
        return False
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


@contextmanager
def working(text: str) -> Generator[None]:
    """Show a line on stderr, where that is a terminal, until the end of what takes its time."""
    if not _is_terminal():
        yield
        return
    sys.stderr.write(f"{text} ...")
    sys.stderr.flush()
    try:
        yield
    finally:
        sys.stderr.write(_CLEAR_LINE)
        sys.stderr.flush()


@contextmanager
def progress(label: str) -> Generator[Step | None]:
    """Yield a function that shows progress on stderr, which any thread may call.

    It is None where stderr is not a terminal. The line is cleared at the end.
    """
    if not _is_terminal():
        yield None
        return
    lock = threading.Lock()
    is_shown = False

    def step(done: int, total: int) -> None:
        nonlocal is_shown
        if total < _MIN_STEPS:
            return
        with lock:
            is_shown = True
            sys.stderr.write(f"{_CLEAR_LINE}{label}: {done} of {total}")
            sys.stderr.flush()

    try:
        yield step
    finally:
        if is_shown:
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def _is_terminal() -> bool:
    return cast("object", sys.stderr) is not None and sys.stderr.isatty()
