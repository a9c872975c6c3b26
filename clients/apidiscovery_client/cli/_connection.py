"""The options that say which server to ask and how, by kubectl's names."""

import functools
import os
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Concatenate, ParamSpec, cast
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client.connecting import Flags, read_server
from apidiscovery_client.server import DEFAULT_TIMEOUT_S, Server

P = ParamSpec("P")

DEFAULT_SERVER = "http://127.0.0.1:8080"

_FROM_KUBECONFIG = ("kubeconfig", "context", "cluster", "user")

_DURATION = r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LARGEST_TIMEOUT_S = 2**63 / 1e9  # Go's time.Duration


class ServerUrl(click.ParamType[str]):
    """`host:port`, or a URL with http or https and without credentials, query and fragment."""

    name = "url"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the URL with a scheme and without a trailing slash; fail for anything else."""
        url = value if "://" in value else f"http://{value}"
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError as error:
            self.fail(f"{value!r} is not a URL: {error}", param, ctx)
        if parts.scheme not in ("http", "https"):
            self.fail(f"{value!r} begins with {parts.scheme!r}, not http or https", param, ctx)
        if not host or re.search(r"[\s\x00-\x1f\x7f]", value):
            self.fail(f"{value!r} has no host, or white space in it", param, ctx)
        if "@" in parts.netloc:
            self.fail("a user and password in a URL are not supported, use --token", param, ctx)
        if parts.query or parts.fragment:
            self.fail(f"{value!r} has a query or a fragment", param, ctx)
        return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


class Timeout(click.ParamType[float]):
    """A duration as Go writes it, such as 1m30s or 500ms; a bare integer counts seconds."""

    name = "duration"

    def convert(
        self, value: str | float, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds, 0 for no timeout (client-go clientcmd/helpers.go `ParseTimeout`)."""
        if not isinstance(value, str):
            return value
        if re.fullmatch(r"\d+", value, re.ASCII):
            seconds = float(value)
        elif re.fullmatch(rf"(?:{_DURATION})+", value, re.ASCII):
            seconds = sum(map(_seconds, re.findall(_DURATION, value)))
        else:
            self.fail(
                f"{value!r} is neither a number of seconds nor a number and its unit (1s, 2m, 3h)",
                param,
                ctx,
            )
        if seconds > _LARGEST_TIMEOUT_S:
            self.fail(f"{value!r} is too long", param, ctx)
        return seconds


def _seconds(part: str) -> float:
    number = part.rstrip("nuµμmsh")
    return float(number) * _UNITS_S[part.removeprefix(number)]


_FILE = click.Path(exists=True, dir_okay=False, readable=True)

CREDENTIALS = (
    click.option(
        "--token",
        envvar="APIDISCOVERY_TOKEN",
        show_envvar=True,
        help="Bearer token for authentication to the API server.",
    ),
    click.option(
        "--certificate-authority",
        type=_FILE,
        help="Path to a cert file for the certificate authority.",
    ),
    click.option(
        "--client-certificate", type=_FILE, help="Path to a client certificate file for TLS."
    ),
    click.option("--client-key", type=_FILE, help="Path to a client key file for TLS."),
)
KUBECONFIG = (
    click.option("--kubeconfig", help="Path to the kubeconfig file to use for CLI requests."),
    click.option("--context", help="The name of the kubeconfig context to use."),
    click.option("--cluster", help="The name of the kubeconfig cluster to use."),
    click.option("--user", help="The name of the kubeconfig user to use."),
)
TIMEOUT = click.option(
    "--request-timeout",
    "request_timeout_s",
    type=Timeout(),
    default=DEFAULT_TIMEOUT_S,  # as a number, which need not be parsed each time
    help="How long to wait for the answer to a request, such as 1s, 2m, 3h; 0 is forever."
    f"  [default: {DEFAULT_TIMEOUT_S:g}s]",
)
# How to ask, whichever server it is.
ACCESS = (
    *CREDENTIALS,
    # Kubernetes has not known passwords since 1.19, but servers behind proxies do.
    click.option("--username", hidden=True),
    click.option("--password", hidden=True),
    click.option("--as", "as_user", help="Username to impersonate for the operation."),
    click.option("--as-uid", help="UID to impersonate for the operation."),
    click.option(
        "--as-group",
        "as_groups",
        multiple=True,
        help="Group to impersonate for the operation, can be repeated for several.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Do not check the server's certificate: anyone in between can read and answer.",
    ),
    click.option(
        "--tls-server-name",
        help="Name that the server's certificate must have, by default that of --server.",
    ),
    click.option(
        "--disable-compression",
        is_flag=True,
        help="Opt out of response compression for all requests to the server.",
    ),
    TIMEOUT,
)
_OPTIONS = (
    click.option(
        "--server",
        "-s",
        type=ServerUrl(),
        envvar="APIDISCOVERY_SERVER",
        show_envvar=True,
        help="The address and port of the API server, by default that of the kubeconfig, of the"
        f" cluster this runs in, or {DEFAULT_SERVER}.",
    ),
    *KUBECONFIG,
    *ACCESS,
)


def with_flags(command: Callable[Concatenate[Flags, P], None]) -> Callable[..., None]:
    """Add the connection options to a command, which gets those that name a server."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        command(taken(kwargs), *args, **kwargs)

    for option in reversed(_OPTIONS):
        option(run)
    return run


def with_server(command: Callable[Concatenate[Server, P], None]) -> Callable[..., None]:
    """Add the connection options to a command, which gets the `Server` they describe."""

    @with_flags
    @functools.wraps(command)
    def run(flags: Flags, /, *args: P.args, **kwargs: P.kwargs) -> None:
        command(server_of(flags), *args, **kwargs)

    return run


def server_of(flags: Flags) -> Server:
    """Return the server that the options of a command name.

    Raises:
        click.UsageError: An option says what cannot be.
        InvalidConfiguration: So does a kubeconfig.
    """
    with usage_errors():
        return read_server(
            default_url=DEFAULT_SERVER, prefix="--", terminal=has_terminal(), **flags
        )


def taken(kwargs: dict[str, object]) -> Flags:
    """Take the flags that say which server out of the arguments of a command.

    Where the command line names something of a kubeconfig, server and token of the environment do
    not count: they belong together, and not to that kubeconfig.
    """
    names = Flags.__annotations__.keys() & kwargs.keys()
    flags = cast("Flags", {name: kwargs.pop(name) for name in names})
    if any(flags.get(name) for name in _FROM_KUBECONFIG):
        context = click.get_current_context()
        if context.get_parameter_source("server") is ParameterSource.ENVIRONMENT:
            flags["server"] = None
        if context.get_parameter_source("token") is ParameterSource.ENVIRONMENT:
            flags["token"] = None
    return flags


def has_terminal() -> bool:
    """Tell whether a plugin can ask the user for something."""
    return os.isatty(0)


@contextmanager
def usage_errors() -> Generator[None]:
    """Make a usage error of what is wrong with a flag."""
    try:
        yield
    except InvalidConfiguration as error:
        if str(error).startswith("--"):
            raise click.UsageError(str(error)) from None
        raise
