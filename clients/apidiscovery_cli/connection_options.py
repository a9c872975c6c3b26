"""Options that name the server to connect to and the credentials, under kubectl's names."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, cast

import click
from apidiscovery_client import InvalidConfiguration
from apidiscovery_client._connecting import Flags, read_grpc_server, read_server
from apidiscovery_client._server import DEFAULT_TIMEOUT_S, Server
from apidiscovery_kubeconfig.addresses import is_loopback
from click.core import ParameterSource

from apidiscovery_cli.options import (
    ANY_SERVER_URL,
    DURATION,
    GRPC_SCHEMES,
    GRPC_SERVER_URL,
    Option,
    Values,
)

if TYPE_CHECKING:  # it imports grpc
    from apidiscovery_client._grpc.calls import GrpcServer

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
    help="How long to wait for the answer to a request, such as 1s, 2m, 3h; 0 for no limit."
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
        help="Group to impersonate for the operation; repeatable.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="Do not check the server's certificate. Others can then read and change the traffic.",
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
        type=ANY_SERVER_URL,
        metavar="URL",
        envvar="APIDISCOVERY_SERVER",
        show_envvar=True,
        help="The API server: https://HOST:PORT, or for a server of apidiscovery also"
        " grpc://HOST:PORT. By default that of the kubeconfig, else that of the cluster in which"
        f" this runs, else {DEFAULT_SERVER}.",
    ),
    *KUBECONFIG,
    *ACCESS,
)

# Of commands over gRPC alone.
GRPC_SERVER: Option = click.option(
    "--server",
    "-s",
    "--grpc-server",
    "grpc_server",
    type=GRPC_SERVER_URL,
    default="127.0.0.1:50051",
    show_default=True,
    metavar="URL",
    envvar="APIDISCOVERY_GRPC_SERVER",
    show_envvar=True,
    help="The server of apidiscovery, over gRPC: grpc://HOST:PORT, grpcs://HOST:PORT with TLS, or"
    " HOST:PORT.",
)
TOKEN_FILE: Option = click.option(
    "--token-file",
    type=click.Path(exists=True, dir_okay=False, readable=True),
    help="Path to a file with the bearer token.",
)
PLAINTEXT: Option = click.option(
    "--plaintext",
    "--insecure",
    is_flag=True,
    help="Use no TLS; the default for a server on this machine, unless another option asks for"
    " TLS.",
)


def all_options() -> list[click.Parameter]:
    """Return every option that names a server or credentials."""

    def nothing(**_: object) -> None: ...

    for option in reversed((*CONNECTION, GRPC_SERVER, TOKEN_FILE, PLAINTEXT)):
        option(nothing)
    return click.command()(nothing).params


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
    if is_grpc(flags):
        url = flags.get("server")
        raise click.UsageError(f"--server: this is asked over HTTP; want http(s)://, got {url}")
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


# Servers over gRPC.


# Options that imply TLS; without it, nothing of a kubeconfig is sent.
_FOR_TLS = (
    "certificate_authority",
    "client_certificate",
    "client_key",
    "tls_server_name",
    "kubeconfig",
    "context",
    "cluster",
    "user",
)


class OfGrpc(TypedDict):
    """The options of gRPC only."""

    grpc_server: str
    token_file: str | None
    plaintext: bool


def grpc_server_at(own: OfGrpc, flags: Flags) -> "GrpcServer":
    """Return the gRPC server that the options of a command name.

    Raises:
        click.UsageError: They contradict each other.
        InvalidConfiguration: They or a kubeconfig are not usable.
    """
    scheme, _, address = own["grpc_server"].rpartition("://")
    names_tls = scheme == "grpcs" or any(flags.get(name) for name in _FOR_TLS)
    wants_plain = own["plaintext"] or scheme == "grpc"
    if wants_plain and names_tls:
        said = "--plaintext" if own["plaintext"] else "grpc://, which is without TLS,"
        raise click.UsageError(f"{said} cannot be used together with options for TLS")
    is_local = is_loopback(address.rpartition(":")[0].strip("[]"))
    is_plain = wants_plain or (is_local and not names_tls)
    token = _token(flags.get("token"), own["token_file"])
    if token and is_plain and not is_local:
        raise click.UsageError(f"a token is not sent without TLS, as to {address}")
    named: Flags = {**flags, "token": token}
    return read_grpc_server(
        address, plaintext=is_plain, prefix="--", terminal=has_terminal(), **named
    )


def _token(token: str | None, file: str | None) -> str | None:
    """Return the token; raise `click.UsageError`, which never quotes it, for an invalid one."""
    if file:
        if token and is_on_command_line("token"):
            raise click.UsageError("--token and --token-file cannot be used together")
        token = _content(file, "--token-file").decode(errors="replace").strip()
        if not token:
            raise click.UsageError(f"--token-file is empty: {file}")
    if token and not re.fullmatch(r"[!-~]+", token):
        raise click.UsageError("the token has characters that no token has")
    return token or None


def _content(path: str, option: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{option} cannot be read: {error}") from error


def any_server_named(flags: Flags) -> "Server | GrpcServer":
    """Return the server that flags name, over HTTP or gRPC; raise as `server_named`."""
    return grpc_server_named(flags) if is_grpc(flags) else server_named(flags)


def grpc_server_named(flags: Flags, address: str | None = None) -> "GrpcServer":
    """Return the gRPC server at an address, by default at the URL of flags; raise the same."""
    named = address or flags.get("server") or ""
    own: OfGrpc = {"grpc_server": named, "token_file": None, "plaintext": False}
    with usage_errors():
        return grpc_server_at(own, {**flags, "server": None})


def is_grpc(flags: Flags) -> bool:
    """Return whether flags name a server by a URL of gRPC."""
    return (flags.get("server") or "").partition("://")[0] in GRPC_SCHEMES
