"""The `apidiscovery` command: runs a command line, tells of errors and returns the exit code."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath
from typing import cast

from apidiscovery_client import DiscoveryError

from apidiscovery_cli import plain_parser
from apidiscovery_cli.exit_codes import BAD_USAGE, FAILED, INTERRUPTED
from apidiscovery_cli.output import discard_stdout, tell_bad_usage, tell_error
from apidiscovery_cli.plain_options import BadUsage, PlainCommand
from apidiscovery_cli.subcommands import COMPLETE_VARIABLE, OWN, PROGRAM

_OBJECTS_BEFORE_COLLECTION = 50_000


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    `args` are those after the program's name, by default those of this process. Errors are one
    line on stderr, `error: ...`.
    """
    # Read by grpc when it is imported: what it logs on stderr of a failed handshake, we tell.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if args is not None:
        return _ended(PROGRAM, args)
    # Looking for garbage after every 700 objects, as by default, takes as long as a request.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    exit_code = _ended(_program(sys.argv[0]), sys.argv[1:])
    gc.freeze()  # the process ends: what is left need not be looked through for garbage
    return exit_code


def _ended(program: str, words: Sequence[str]) -> int:
    try:
        return _run(program, words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except DiscoveryError as error:
        tell_error(error)
    except OSError as error:
        discard_stdout()
        if not isinstance(error, BrokenPipeError):
            tell_error(error)
    return FAILED


def _run(program: str, words: Sequence[str]) -> int:
    known = OWN.get(words[0]) if words else None
    if known and known.is_plain and COMPLETE_VARIABLE not in os.environ:
        command = cast("PlainCommand", known.load())
        if values := plain_parser.read(command.options, words[1:], os.environ):
            try:
                command.run(values)
            except BadUsage as error:
                tell_bad_usage(str(error), f"{program} {command.name}")
                return BAD_USAGE
            return 0
    from apidiscovery_cli import group  # noqa: PLC0415 - click takes long to import

    return group.run(program, words)


def _program(file: str) -> str:
    """Return what the user types to run us: as a plugin of kubectl, that is `kubectl NAME`."""
    name = PurePath(file).name
    return name.replace("kubectl-", "kubectl ", 1) if name.startswith("kubectl-") else PROGRAM
