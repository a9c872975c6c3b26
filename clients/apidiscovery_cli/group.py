"""The `apidiscovery` command: its subcommands, loaded when they are run, and its help."""

from collections.abc import Callable, Sequence
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, cast

import click
from apidiscovery_client._package import VERSION

from apidiscovery_cli.help_pages import Group
from apidiscovery_cli.output import (
    BAD_USAGE,
    INTERRUPTED,
    tell_bad_usage,
    tell_error,
    told_warnings,
)

if TYPE_CHECKING:  # importing it takes longer than a request, and most commands are our own
    from importlib.metadata import EntryPoint

PROGRAM = "apidiscovery"
COMPLETE_VARIABLE = "_APIDISCOVERY_COMPLETE"
ENTRY_POINT_GROUP = "apidiscovery.commands"

# The summary of each subcommand. Its function has its name, in a module of that name in
# `commands`, which is imported when the subcommand is run.
OWN = {
    "api-resources": "Print the supported API resources on the server.",
    "api-versions": (
        'Print the supported API versions on the server, in the form of "group/version".'
    ),
    "apply": "Register the definitions, APIServices and discovery lists in manifests.",
    "check": "Check manifests against a server or a release of Kubernetes.",
    "completion": "Print the script with which a shell completes commands.",
    "conformance": "Check whether a server serves discovery as clients need it.",
    "diff": "Show what an upgrade, or another server, changes for clients.",
    "explain": "Describe a type of resources, or one of its fields.",
    "export": "Write what a server serves in formats of other tools.",
    "fleet": "Show clusters side by side: which kinds each serves, in which versions.",
    "get": "Show registrations, or the sources of what a server serves.",
    "history": "Show what has changed on a server and in its clusters, and when.",
    "options": "List the options for servers and credentials, which most commands take.",
    "openapi": "Print, merge, validate and convert OpenAPI documents.",
    "protos": "Print the path of the folder with the .proto files.",
    "resolve": "Show which resource a name means.",
    "snapshot": "Save what a server serves to a file, or show such a file.",
    "storage-versions": "Show which API server writes which version, or wait until all agree.",
    "upgrade": "List what to do before a cluster is upgraded, most urgent first.",
    "watch": "Print each change of what a server serves.",
    "withdraw": "Remove registrations.",
}
_ANNOUNCED_SUMMARIES = {
    "demo": "Start clusters that change, and a server over them, for a first look.",
    "serve": "Serve API discovery over gRPC and HTTP.",
}


# The sections of the help. A command that is in none comes in the last section.
_SECTIONS = {
    "What a server serves": (
        *("api-resources", "api-versions", "explain", "export", "openapi", "resolve", "snapshot"),
        "watch",
    ),
    "Differences and changes": ("check", "diff", "fleet", "history", "upgrade"),
    "A server of apidiscovery": ("apply", "get", "serve", "storage-versions", "withdraw"),
}
_LAST_SECTION = "Other"


class _Commands(Group):
    """Our own subcommands, and the entry points of installed packages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(OWN.keys() | _announced().keys())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name in OWN:
            return _load(cmd_name, lambda: _own(cmd_name))
        announced = _announced().get(cmd_name)
        return _load(cmd_name, announced.load) if announced else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of subcommands without importing them."""
        names = self.list_commands(ctx)
        told = {name for section in _SECTIONS.values() for name in section}
        others = tuple(name for name in names if name not in told)
        for title, section in {**_SECTIONS, _LAST_SECTION: others}.items():
            with formatter.section(title):
                formatter.write_dl([(name, _summary(name)) for name in section if name in names])


def _announced() -> "dict[str, EntryPoint]":
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and rarely needed

    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}


def _own(name: str) -> object:
    function = name.replace("-", "_")
    return getattr(import_module(f"apidiscovery_cli.commands.{function}"), function)


def _summary(name: str) -> str:
    if name in OWN:
        return OWN[name]
    return _ANNOUNCED_SUMMARIES.get(name, f"From {_announced()[name].module}.")


def _load(name: str, load: Callable[[], object]) -> click.Command:
    """Import a subcommand; raise `click.UsageError` when a module that it needs is missing."""
    try:
        return cast("click.Command", load())
    except ModuleNotFoundError as error:
        from apidiscovery_client._installing import install_command  # noqa: PLC0415 - rarely needed

        extra = "grpc" if name in OWN else "server"
        raise click.UsageError(
            f"'apidiscovery {name}' needs the Python module {error.name!r}, which is not"
            f" installed; run: {install_command(extra)}"
        ) from error


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(VERSION, message="apidiscovery %(version)s")
@click.pass_context
def apidiscovery(context: click.Context) -> None:
    """Show which APIs Kubernetes API servers serve, how they differ and what has changed."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(program: str, words: Sequence[str]) -> int:
    """Run a command line and return its exit code; report bad usage.

    `program` is what the user types to run us. Errors that are not click's are raised.
    """
    told_warnings.clear()
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
