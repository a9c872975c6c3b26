"""Types of option values, and how commands share options."""

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeAlias, TypeVar
from urllib.parse import urlsplit

import click
from apidiscovery_formats.go_text import parse_bool

P = ParamSpec("P")
T = TypeVar("T")

# What `click.option` returns.
Option: TypeAlias = Callable[[Callable[..., None]], Callable[..., None]]
# The values of a command's parameters, by their names in Python.
Values: TypeAlias = dict[str, Any]

GRPC_SCHEMES = ("grpc", "grpcs")

_DURATION = r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)"
_UNITS_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1, "m": 60, "h": 3600}
_LARGEST_TIMEOUT_S = 2**63 / 1e9  # Go's time.Duration


def boolean(text: str) -> bool:
    """Return what a text means to Go's strconv.ParseBool, which kubectl reads flags by."""
    value = parse_bool(text)
    if value is None:
        raise ValueError(f"{text!r} is not a valid boolean")
    return value


def server_url(text: str) -> str:
    """Return a server's URL without a trailing slash; `host:port` is one for http.

    Raises:
        ValueError: It is not a URL of http or https, or has credentials, a query or a fragment.
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


def any_server_url(text: str) -> str:
    """Return a server's URL of http, https, grpc or grpcs; `host:port` is one for http.

    Raises:
        ValueError: It is none, or has credentials, a query or a fragment.
    """
    scheme, separator, rest = text.partition("://")
    if separator and scheme.lower() in GRPC_SCHEMES:
        return f"{scheme.lower()}://{grpc_address(rest.rstrip('/'))}"
    if separator and scheme.lower() not in ("http", "https"):
        raise ValueError(f"{text!r} begins with {scheme!r}, not http, https, grpc or grpcs")
    return server_url(text)


def grpc_server(text: str) -> str:
    """Return `grpc://host:port`, `grpcs://host:port` or `host:port`; raise `ValueError`."""
    scheme, separator, _ = text.partition("://")
    if not separator:
        return grpc_address(text)
    if scheme.lower() not in GRPC_SCHEMES:
        raise ValueError(
            f"{text!r}: this is asked over gRPC; want grpc://HOST:PORT, or grpcs:// for TLS"
        )
    return any_server_url(text)


def grpc_address(text: str) -> str:
    """Return a `host:port` unchanged; raise `ValueError` for anything else."""
    host, _, port = text.rpartition(":")
    is_host = re.fullmatch(r"\[[0-9a-fA-F:.%]+\]|[^\s:/@\[\]\x00-\x1f\x7f]+", host)
    if not is_host or not re.fullmatch(r"[0-9]{1,5}", port) or not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} is not HOST:PORT, such as 127.0.0.1:50051")
    return text


def duration_s(text: str) -> float:
    """Return the seconds of a duration as Go writes it, such as 1m30s or 500ms; 0 means no limit.

    A bare integer counts seconds. Source: client-go clientcmd/helpers.go `ParseTimeout`.

    Raises:
        ValueError: It is not a duration, or exceeds Go's largest one.
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


class TextType(click.ParamType[Any]):
    """A text that a function turns into a value, or refuses by raising `ValueError`."""

    def __init__(self, name: str, read: Callable[[str], object]) -> None:
        self.name = name
        self._read = read

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> object:
        """Return the value; a default that is not a text is returned as it is."""
        if not isinstance(value, str):
            return value
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def report_output(formats: Iterable[str]) -> Option:
    """Return the option for the form of a report, by default text."""
    return click.option(
        "--output",
        "-o",
        type=click.Choice(list(formats)),
        default="text",
        show_default=True,
        help="Format of the report.",
    )


BOOLEAN = TextType("boolean", boolean)
DURATION = TextType("duration", duration_s)
GRPC_ADDRESS = TextType("address", grpc_address)
GRPC_SERVER_URL = TextType("url", grpc_server)
SERVER_URL = TextType("url", server_url)
ANY_SERVER_URL = TextType("url", any_server_url)


def with_options(
    options: Sequence[Option], make: Callable[[Values], T]
) -> Callable[[Callable[Concatenate[T, P], None]], Callable[..., None]]:
    """Add options to a command, whose first argument is what `make` returns.

    `make` removes the values of these options from the values of all parameters of the command;
    the others are passed to the command.
    """

    def add(command: Callable[Concatenate[T, P], None]) -> Callable[..., None]:
        @functools.wraps(command)
        def run(*args: P.args, **kwargs: P.kwargs) -> None:
            made = make(kwargs)  # before the others are passed on
            command(made, *args, **kwargs)

        for option in reversed(options):
            option(run)
        return run

    return add
