"""The `apidiscovery` command: finds subcommands, turns each error into a line and an exit code.

| exit code | when |
|---|---|
| 0 | done |
| 1 | failed, also in part; the reader of the output went away |
| 2 | bad usage, or the subcommand's extra is not installed |
| 130 | interrupted |
| 143 | terminated, while it watched |

`diff` has two of its own: 1 for a difference, and 2 also when one of its sides cannot be had, or
the report not be written.
"""

import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple, cast

import click

from apidiscovery_client._errors import DiscoveryError
from apidiscovery_client._version import VERSION
from apidiscovery_client.cli._output import discard_stdout
from apidiscovery_client.kubectl.table import printable

if TYPE_CHECKING:  # importing it takes longer than asking a server; most commands are our own
    from importlib.metadata import EntryPoint

PROGRAM = "apidiscovery"
COMPLETE_VARIABLE = "_APIDISCOVERY_COMPLETE"
ENTRY_POINT_GROUP = "apidiscovery.commands"

_FAILED, _BAD_USAGE, _INTERRUPTED = 1, 2, 130
_OBJECTS_BEFORE_COLLECTION = 50_000


class _Command(NamedTuple):
    """Where a subcommand is, so that it is imported only when it is run."""

    target: str
    summary: str

    def load(self) -> object:
        """Import it."""
        module, _, name = self.target.partition(":")
        return getattr(import_module(module), name)


_OWN = {
    "api-resources": _Command(
        "apidiscovery_client.cli._resources:api_resources",
        "Print the supported API resources on the server.",
    ),
    "api-versions": _Command(
        "apidiscovery_client.cli._versions:api_versions",
        'Print the supported API versions on the server, in the form of "group/version".',
    ),
    "apply": _Command(
        "apidiscovery_client.cli._apply:apply",
        "Register what manifests define.",
    ),
    "completion": _Command(
        "apidiscovery_client.cli._completion:completion",
        "Print the script that completes commands in a shell.",
    ),
    "conformance": _Command(
        "apidiscovery_client.cli._conformance:conformance",
        "Check whether a server does discovery as clients need it.",
    ),
    "diff": _Command(
        "apidiscovery_client.cli._diff:diff",
        "Tell what an upgrade, or another server, changes for clients.",
    ),
    "explain": _Command(
        "apidiscovery_client.cli._explain:explain",
        "Tell what a type of resources or one of its fields is.",
    ),
    "export": _Command(
        "apidiscovery_client.cli._export:export",
        "Write what a server serves in the forms that other tools read.",
    ),
    "get": _Command(
        "apidiscovery_client.cli._get:get",
        "Show registrations, or the sources of what is served.",
    ),
    "openapi": _Command(
        "apidiscovery_client.cli._openapi:openapi",
        "Print, merge, check and convert OpenAPI documents.",
    ),
    "protos": _Command(
        "apidiscovery_client.cli._protos:protos",
        "Print the folder that holds the .proto files.",
    ),
    "resolve": _Command(
        "apidiscovery_client.cli._resolve:resolve",
        "Tell which resource a name means.",
    ),
    "snapshot": _Command(
        "apidiscovery_client.cli._snapshot:snapshot",
        "Save what a server serves in a file, and show such a file.",
    ),
    "storage-versions": _Command(
        "apidiscovery_client.cli._storage_versions:storage_versions",
        "Show which API server writes which version, and wait until all agree.",
    ),
    "watch": _Command(
        "apidiscovery_client.cli._watch:watch",
        "Print what changes in what a server serves.",
    ),
    "withdraw": _Command(
        "apidiscovery_client.cli._withdraw:withdraw",
        "Remove registrations.",
    ),
}
_SUMMARIES = {"serve": "Serve API discovery over gRPC and HTTP."}


class _Commands(click.Group):
    """Our own subcommands and those that installed packages announce as entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(_OWN.keys() | _announced().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if own := _OWN.get(cmd_name):
            return _load(cmd_name, own.load)
        announced = _announced().get(cmd_name)
        return _load(cmd_name, announced.load) if announced else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, _summary(name)) for name in self.list_commands(ctx)])


def _announced() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _summary(name: str) -> str:
    own = _OWN.get(name)
    return own.summary if own else _SUMMARIES.get(name, f"From {_announced()[name].module}.")


def _load(name: str, load: Callable[[], object]) -> click.Command:
    """Import a subcommand; raise `click.UsageError` when a module that it needs is missing."""
    try:
        return cast("click.Command", load())
    except ModuleNotFoundError as error:
        raise click.UsageError(
            f"'apidiscovery {name}' needs the Python module {error.name!r}, which is not"
            " installed; run: pip install 'apidiscovery[server]'"
        ) from error


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(VERSION, message="apidiscovery %(version)s")
@click.pass_context
def apidiscovery(context: click.Context) -> None:
    """Tell what APIs Kubernetes-style API servers serve."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def main(args: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    `args` are those after the program's name, by default those of this process. Errors are one
    line on stderr, `error: ...`.
    """
    # Read by grpc when it is imported: what it logs on stderr of a failed handshake, we tell.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if os.environ.get(COMPLETE_VARIABLE, "").startswith("powershell"):
        import_module("apidiscovery_client.cli._completion")  # click does not know that shell
    is_whole_process = args is None
    if is_whole_process:
        # Looking for garbage after every 700 objects, as by default, takes as long as a request.
        gc.set_threshold(_OBJECTS_BEFORE_COLLECTION)
    program = _program(sys.argv[0]) if is_whole_process else PROGRAM
    try:
        result: object = apidiscovery.main(
            args, prog_name=program, complete_var=COMPLETE_VARIABLE, standalone_mode=False
        )
    except (click.Abort, KeyboardInterrupt):
        return _INTERRUPTED
    except click.UsageError as error:
        return _tell(_usage(error), _BAD_USAGE)
    except click.ClickException as error:
        return _tell(printable(error.format_message()), error.exit_code)
    except DiscoveryError as error:
        return _tell(printable(str(error)), _FAILED)
    except OSError as error:
        discard_stdout()
        went_away = isinstance(error, BrokenPipeError)
        return _FAILED if went_away else _tell(printable(str(error)), _FAILED)
    if is_whole_process:
        gc.freeze()  # the process ends: what is left need not be looked through for garbage
    return result if isinstance(result, int) else 0


def _program(file: str) -> str:
    """Return what the user types to run us: as a plugin of kubectl, that is `kubectl NAME`."""
    name = PurePath(file).name
    return name.replace("kubectl-", "kubectl ", 1) if name.startswith("kubectl-") else PROGRAM


def _tell(message: str, exit_code: int) -> int:
    click.echo(f"error: {message}", err=True)
    return exit_code


def _usage(error: click.UsageError) -> str:
    message = printable(error.format_message().rstrip("."))
    path = error.ctx.command_path if error.ctx else PROGRAM
    return f"{message[:1].lower()}{message[1:]}\nSee '{path} --help' for help."
