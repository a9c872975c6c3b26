"""The entry point of the `apidiscovery` command: runs a command line and reports errors."""

import gc
import os
import sys
from collections.abc import Sequence
from pathlib import PurePath

from apidiscovery_client import DiscoveryError

from apidiscovery_cli import group
from apidiscovery_cli.group import PROGRAM
from apidiscovery_cli.output import FAILED, INTERRUPTED, discard_stdout, tell_error

_OBJECTS_BEFORE_COLLECTION = 50_000


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    `args` are those after the program's name, by default those of this process. Errors are one
    line on stderr, `error: ...`.
    """
    # grpc reads it on import; we report failed handshakes ourselves.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if args is not None:
        return _run(PROGRAM, args)
    # Collecting garbage after every 700 objects, the default, takes as long as a request.
    gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    exit_code = _run(_program(sys.argv[0]), sys.argv[1:])
    gc.freeze()  # the process ends: nothing is left to collect
    return exit_code


def _run(program: str, words: Sequence[str]) -> int:
    try:
        return group.run(program, words)
    except KeyboardInterrupt:
        return INTERRUPTED
    except DiscoveryError as error:
        tell_error(error)
    except OSError as error:
        discard_stdout()
        if not isinstance(error, BrokenPipeError):
            tell_error(error)
    return FAILED


def _program(file: str) -> str:
    """Return what the user types to run us: as a plugin of kubectl, that is `kubectl NAME`."""
    name = PurePath(file).name
    return name.replace("kubectl-", "kubectl ", 1) if name.startswith("kubectl-") else PROGRAM
