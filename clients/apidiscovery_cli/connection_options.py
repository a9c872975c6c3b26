"""Options that name the server to connect to and the credentials, under kubectl's names."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import click
from apidiscovery_client import InvalidConfiguration
from apidiscovery_client._connecting import Flags, read_server
from apidiscovery_client._server import DEFAULT_TIMEOUT_S, Server
from click.core import ParameterSource

from apidiscovery_cli.options import DURATION, SERVER_URL, Option, Values

DEFAULT_SERVER = "http://127.0.0.1:8080"
FOLDER = click.Path(file_okay=False, path_type=Path)

_FROM_KUBECONFIG = ("kubeconfig", "context", "cluster", "user")
_FILE = click.Path(exists=True, dir_okay=False, readable=True)

CREDENTIALS: tuple[Option, ...] = (
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
KUBECONFIG_FILE: Option = click.option(
    "--kubeconfig", help="Path to the kubeconfig file to use for CLI requests."
)
KUBECONFIG_CLUSTER: Option = click.option(
    "--cluster", help="The name of the kubeconfig cluster to use."
)
KUBECONFIG: tuple[Option, ...] = (
    KUBECONFIG_FILE,
    click.option("--context", help="The name of the kubeconfig context to use."),
    KUBECONFIG_CLUSTER,
    click.option("--user", help="The name of the kubeconfig user to use."),
)
TIMEOUT: Option = click.option(
    "--request-timeout",
    "request_timeout_s",
    type=DURATION,
    default=DEFAULT_TIMEOUT_S,
    metavar="DURATION",
    help="How long to wait for the answer to a request, such as 1s, 2m, 3h; 0 is forever."
    f"  [default: {DEFAULT_TIMEOUT_S:g}s]",
)
# Everything but which server it is.
ACCESS: tuple[Option, ...] = (
    *CREDENTIALS,
    # Kubernetes removed passwords in 1.19, but servers behind proxies still have them.
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
CONNECTION: tuple[Option, ...] = (
    click.option(
        "--server",
        "-s",
        type=SERVER_URL,
        metavar="URL",
        envvar="APIDISCOVERY_SERVER",
        show_envvar=True,
        help="The address and port of the API server, by default that of the kubeconfig, of the"
        f" cluster this runs in, or {DEFAULT_SERVER}.",
    ),
    *KUBECONFIG,
    *ACCESS,
)


def flags_of(values: Values) -> Flags:
    """Take the flags that name a server out of the values of the current command.

    Server and token from the environment are dropped where the command line selects from a
    kubeconfig: they belong together, and not to that kubeconfig.
    """
    names = [name for name in Flags.__annotations__ if name in values]
    flags = cast("Flags", {name: values.pop(name) for name in names})
    if any(flags.get(name) for name in _FROM_KUBECONFIG):
        if is_from_environment("server"):
            flags["server"] = None
        if is_from_environment("token"):
            flags["token"] = None
    return flags


def is_from_environment(name: str) -> bool:
    """Return whether the value of a parameter of the current command is that of a variable."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.ENVIRONMENT


def is_on_command_line(name: str) -> bool:
    """Return whether the current command line has a parameter."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE


def server_of(values: Values) -> Server:
    """Take the server out of the values of the current command; raise as `server_named`."""
    return server_named(flags_of(values))


def server_named(flags: Flags) -> Server:
    """Return the server that flags name.

    Raises:
        click.UsageError: An option is wrong.
        InvalidConfiguration: A kubeconfig is wrong.
    """
    with usage_errors():
        return read_server(
            default_url=DEFAULT_SERVER, prefix="--", terminal=has_terminal(), **flags
        )


@contextmanager
def usage_errors() -> Generator[None]:
    """Raise `click.UsageError` for an `InvalidConfiguration` that an option causes."""
    try:
        yield
    except InvalidConfiguration as error:
        if str(error).startswith("--"):
            raise click.UsageError(str(error)) from None
        raise


def has_terminal() -> bool:
    """Return whether an exec plugin can ask the user for input."""
    return os.isatty(0)
