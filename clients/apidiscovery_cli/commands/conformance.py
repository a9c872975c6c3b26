"""`apidiscovery conformance`: checks whether a server does discovery as clients need it."""

import functools
from collections.abc import Callable
from typing import cast

import click
from apidiscovery_client._server import Server
from apidiscovery_releases import UnknownRelease, minor_of
from click.core import ParameterSource

from apidiscovery_cli.conformance.check import Check, Profile
from apidiscovery_cli.conformance.exchange import Endpoint
from apidiscovery_cli.conformance.reporting import FORMATS, listed
from apidiscovery_cli.conformance.running import CHECKS, run
from apidiscovery_cli.conformance.subject import Release
from apidiscovery_cli.connection_options import CONNECTION, is_on_command_line, server_of
from apidiscovery_cli.help_pages import Command
from apidiscovery_cli.options import SERVER_URL, TextType, report_output, with_options
from apidiscovery_cli.output import FAILED, has_colour, print_painted, print_text

_AUTO = "auto"


def _release(text: str) -> Release:
    try:
        return (1, minor_of(text))
    except UnknownRelease:
        raise ValueError(f"{text!r} is not a release of Kubernetes such as 1.30") from None


def _checks(text: str) -> tuple[Check, ...]:
    """Return the checks with numbers separated by commas, such as 4,5,10, in their own order."""
    numbers = [piece.strip() for piece in text.split(",")]
    by_number = {str(check.number): check for check in CHECKS}
    for number in numbers:
        if number not in by_number:
            raise ValueError(f"there is no check {number!r}; see --list")
    return tuple(check for number, check in by_number.items() if number in numbers)


def _with_url(command: Callable[..., None]) -> Callable[..., None]:
    """Treat the argument `url` as the option --server; with --list, need no server."""

    @functools.wraps(command)
    def run(*, url: str | None, **kwargs: object) -> None:
        if kwargs["lists"]:
            checks = cast("tuple[Check, ...]", kwargs["only"])
            click.echo(listed(checks), nl=False)
            return
        context = click.get_current_context()
        if url is not None:
            if is_on_command_line("server"):
                raise click.UsageError("give the server as URL or by --server, not both")
            context.set_parameter_source("server", ParameterSource.COMMANDLINE)
            kwargs["server"] = url
        command(**kwargs)

    return run


@click.command(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("url", type=SERVER_URL, required=False)
@click.option(
    "--profile",
    type=click.Choice([*(one.value for one in Profile), _AUTO]),
    default=_AUTO,
    show_default=True,
    help="The kind of server; auto takes a server with the core group for a kube-apiserver.",
)
@click.option(
    "--release",
    type=TextType("release", _release),
    help="The release whose behaviour is expected, such as 1.30; by default what /version says.",
)
@click.option(
    "--only",
    type=TextType("numbers", _checks),
    default=CHECKS,
    help="Run only these checks, such as 4,5.",
)
@click.option("--list", "lists", is_flag=True, help="List the checks and run none.")
@report_output(FORMATS)
@_with_url
@with_options(CONNECTION, server_of)
def conformance(  # noqa: PLR0913 - each is an option
    server: Server,
    *,
    profile: str,
    release: Release | None,
    only: tuple[Check, ...],
    lists: bool,
    output: str,
) -> None:
    """Check whether a server serves discovery as clients need it.

    The server is that at URL, or else that of --server. The checks send the requests of kubectl,
    client libraries and kube-aggregator, and only read.

    Exit code: 0 if all checks pass; 1 if one fails, or the server cannot be reached.
    """
    del lists
    endpoint = _endpoint(server)
    report = run(
        endpoint,
        profile=None if profile == _AUTO else Profile(profile),
        release=release,
        checks=only,
    )
    text = FORMATS[output](report)
    if output == "text" and has_colour():
        print_painted(_coloured(text))
    else:
        print_text(text)
    if not report.passed:
        raise click.exceptions.Exit(FAILED)


def _coloured(text: str) -> str:
    """Return the report with a colour for each outcome."""
    colours = {"pass": "green", "fail": "red", "skip": "yellow"}
    lines = (
        click.style(line, fg=colours.get(line.split(" ", 1)[0].lower() or line[2:6]))
        for line in text.split("\n")
    )
    return "\n".join(lines)


def _endpoint(server: Server) -> Endpoint:
    if server.proxy_url:
        raise click.UsageError(
            f"the checks do not go through a proxy, as the configuration of {server.url} wants;"
            " give the address of the server itself as URL"
        )
    return Endpoint(
        url=server.url,
        headers=server.access.headers(),
        tls=server.access.tls(),
        tls_server_name=server.tls_server_name,
        timeout_s=server.request_timeout_s,
    )
