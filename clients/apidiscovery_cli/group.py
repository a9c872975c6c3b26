"""The `apidiscovery` command as click has it: finds subcommands, helps, and refuses bad usage."""

from collections.abc import Callable, Sequence
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, cast

import click
from apidiscovery_client._package import VERSION

from apidiscovery_cli.click_options import click_command
from apidiscovery_cli.exit_codes import BAD_USAGE, INTERRUPTED
from apidiscovery_cli.output import tell_bad_usage, tell_error
from apidiscovery_cli.plain_options import PlainCommand
from apidiscovery_cli.subcommands import COMPLETE_VARIABLE, OWN, SUMMARIES

if TYPE_CHECKING:  # importing it takes longer than asking a server; most commands are our own
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "apidiscovery.commands"


class _Commands(click.Group):
    """Our own subcommands and those that installed packages announce as entry points."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(OWN.keys() | _announced().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if own := OWN.get(cmd_name):
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
    own = OWN.get(name)
    return own.summary if own else SUMMARIES.get(name, f"From {_announced()[name].module}.")


def _load(name: str, load: Callable[[], object]) -> click.Command:
    """Import a subcommand; raise `click.UsageError` when a module that it needs is missing."""
    try:
        command = load()
    except ModuleNotFoundError as error:
        extra = "grpc" if name in OWN else "server"
        raise click.UsageError(
            f"'apidiscovery {name}' needs the Python module {error.name!r}, which is not"
            f" installed; run: pip install 'apidiscovery[{extra}]'"
        ) from error
    if isinstance(command, PlainCommand):
        return click_command(command)
    return cast("click.Command", command)


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


def run(program: str, words: Sequence[str]) -> int:
    """Run a command line and return its exit code; bad usage is told.

    `program` is what the user types to run us. Errors that are not click's are raised.
    """
    if environ.get(COMPLETE_VARIABLE, "").startswith("powershell"):
        import_module("apidiscovery_cli.commands.completion")  # click does not know that shell
    try:
        result: object = apidiscovery.main(
            words, prog_name=program, complete_var=COMPLETE_VARIABLE, standalone_mode=False
        )
    except click.Abort:
        return INTERRUPTED
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else program
        tell_bad_usage(error.format_message(), path)
        return BAD_USAGE
    except click.ClickException as error:
        tell_error(error.format_message())
        return error.exit_code
    return result if isinstance(result, int) else 0
