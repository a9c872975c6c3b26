"""The options that say which server to ask and how, by kubectl's names."""

import os
import re
from collections.abc import Generator
from contextlib import contextmanager
from typing import cast
from urllib.parse import urlsplit

from apidiscovery_client._errors import InvalidConfiguration
from apidiscovery_client.cli._options import BadUsage, Option, Values
from apidiscovery_client.connecting import Flags, read_server
from apidiscovery_client.server import DEFAULT_TIMEOUT_S, Server

DEFAULT_SERVER = "http://127.0.0.1:8080"

_FROM_KUBECONFIG = ("kubeconfig", "context", "cluster", "user")

_DURATION = r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LARGEST_TIMEOUT_S = 2**63 / 1e9  # Go's time.Duration


def server_url(text: str) -> str:
    """Return a server's URL without a trailing slash; `host:port` is one for http.

    Raises:
        ValueError: It is none, or has credentials, a query or a fragment.
    """
    url = text if "://" in text else f"http://{text}"
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https"):
        raise ValueError(f"{text!r} begins with {parts.scheme!r}, not http or https")
    if not host or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError(f"{text!r} has no host, or white space in it")
    if "@" in parts.netloc:
        raise ValueError("a user and password in a URL are not supported, use --token")
    if parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a query or a fragment")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def grpc_address(text: str) -> str:
    """Return `host:port` as it is given; raise `ValueError` for anything else."""
    host, _, port = text.rpartition(":")
    is_host = re.fullmatch(r"\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]\x00-\x1f\x7f]+", host)
    if not is_host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:50051")
    return text


def duration_s(text: str) -> float:
    """Return the seconds of a duration as Go writes it, such as 1m30s or 500ms; 0 is for ever.

    A bare integer counts seconds. Source: client-go clientcmd/helpers.go `ParseTimeout`.

    Raises:
        ValueError: It is none, or longer than Go's can be.
    """
    if re.fullmatch(r"\d+", text, re.ASCII):
        seconds = float(text)
    elif re.fullmatch(rf"(?:{_DURATION})+", text, re.ASCII):
        seconds = sum(map(_seconds, re.findall(_DURATION, text)))
    else:
        raise ValueError(
            f"{text!r} is neither a number of seconds nor a number and its unit (1s, 2m, 3h)"
        )
    if seconds > _LARGEST_TIMEOUT_S:
        raise ValueError(f"{text!r} is too long")
    return seconds


def _seconds(part: str) -> float:
    number = part.rstrip("nuµμmsh")
    return float(number) * _UNITS_S[part.removeprefix(number)]


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


def server_of(flags: Flags) -> Server:
    """Return the server that the options of a command name.

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
