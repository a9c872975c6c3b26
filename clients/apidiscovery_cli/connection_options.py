"""The options that say which server to ask and how, by kubectl's names."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast

from apidiscovery_client import InvalidConfiguration
from apidiscovery_client._connecting import Flags, read_server
from apidiscovery_client._server import DEFAULT_TIMEOUT_S, Server

from apidiscovery_cli.option_values import duration_s, server_url
from apidiscovery_cli.plain_options import BadUsage, Option, Values

DEFAULT_SERVER = "http://127.0.0.1:8080"

_FROM_KUBECONFIG = ("kubeconfig", "context", "cluster", "user")

CREDENTIALS = (
    Option(
        ("--token",),
        "Bearer token for authentication to the API server.",
        variable="APIDISCOVERY_TOKEN",
    ),
    Option(
        ("--certificate-authority",),
        "Path to a cert file for the certificate authority.",
        path="file",
    ),
    Option(("--client-certificate",), "Path to a client certificate file for TLS.", path="file"),
    Option(("--client-key",), "Path to a client key file for TLS.", path="file"),
)
KUBECONFIG = (
    Option(("--kubeconfig",), "Path to the kubeconfig file to use for CLI requests."),
    Option(("--context",), "The name of the kubeconfig context to use."),
    Option(("--cluster",), "The name of the kubeconfig cluster to use."),
    Option(("--user",), "The name of the kubeconfig user to use."),
)
TIMEOUT = Option(
    ("--request-timeout",),
    "How long to wait for the answer to a request, such as 1s, 2m, 3h; 0 is forever."
    f"  [default: {DEFAULT_TIMEOUT_S:g}s]",
    parameter="request_timeout_s",
    metavar="DURATION",
    reads=duration_s,
    default=DEFAULT_TIMEOUT_S,
)
# How to ask, whichever server it is.
ACCESS = (
    *CREDENTIALS,
    # Kubernetes has not known passwords since 1.19, but servers behind proxies do.
    Option(("--username",), is_hidden=True),
    Option(("--password",), is_hidden=True),
    Option(("--as",), "Username to impersonate for the operation.", parameter="as_user"),
    Option(("--as-uid",), "UID to impersonate for the operation."),
    Option(
        ("--as-group",),
        "Group to impersonate for the operation, can be repeated for several.",
        parameter="as_groups",
        is_repeatable=True,
    ),
    Option(
        ("--insecure-skip-tls-verify",),
        "Do not check the server's certificate: anyone in between can read and answer.",
        reads=None,
    ),
    Option(
        ("--tls-server-name",),
        "Name that the server's certificate must have, by default that of --server.",
    ),
    Option(
        ("--disable-compression",),
        "Opt out of response compression for all requests to the server.",
        reads=None,
    ),
    TIMEOUT,
)
CONNECTION = (
    Option(
        ("--server", "-s"),
        "The address and port of the API server, by default that of the kubeconfig, of the"
        f" cluster this runs in, or {DEFAULT_SERVER}.",
        variable="APIDISCOVERY_SERVER",
        metavar="URL",
        reads=server_url,
    ),
    *KUBECONFIG,
    *ACCESS,
)


def flags_of(values: Values) -> Flags:
    """Return the flags that say which server to ask.

    Where the command line names something of a kubeconfig, server and token of the environment do
    not count: they belong together, and not to that kubeconfig.
    """
    given = values.given
    flags = cast("Flags", {name: given[name] for name in Flags.__annotations__ if name in given})
    if any(flags.get(name) for name in _FROM_KUBECONFIG):
        if "server" in values.of_environment:
            flags["server"] = None
        if "token" in values.of_environment:
            flags["token"] = None
    return flags


def server_of(values: Values) -> Server:
    """Return the server that the options of a command name; raise as `server_named`."""
    return server_named(flags_of(values))


def server_named(flags: Flags) -> Server:
    """Return the server that flags name.

    Raises:
        BadUsage: An option says what cannot be.
        InvalidConfiguration: So does a kubeconfig.
    """
    with blamed_on_options():
        return read_server(
            default_url=DEFAULT_SERVER, prefix="--", terminal=has_terminal(), **flags
        )


@contextmanager
def blamed_on_options() -> Generator[None]:
    """Raise `BadUsage` for a configuration that is wrong by what an option says."""
    try:
        yield
    except InvalidConfiguration as error:
        if str(error).startswith("--"):
            raise BadUsage(str(error)) from None
        raise


def has_terminal() -> bool:
    """Tell whether a plugin can ask the user for something."""
    return os.isatty(0)
