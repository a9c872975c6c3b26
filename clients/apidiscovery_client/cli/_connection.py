"""The options that say which server to ask and how, by kubectl's names."""

import functools
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Concatenate, ParamSpec
from urllib.parse import urlsplit

import click

from apidiscovery_client._http import DEFAULT_TIMEOUT_S, Server

P = ParamSpec("P")

_DURATION = re.compile(r"(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h)")
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
        elif re.fullmatch(rf"(?:{_DURATION.pattern})+", value, re.ASCII):
            seconds = sum(map(_seconds, _DURATION.findall(value)))
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
_OPTIONS = (
    click.option(
        "--server",
        "-s",
        type=ServerUrl(),
        envvar="APIDISCOVERY_SERVER",
        default="http://127.0.0.1:8080",
        show_default=True,
        show_envvar=True,
        help="The address and port of the API server.",
    ),
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
        "--request-timeout",
        type=Timeout(),
        default=f"{DEFAULT_TIMEOUT_S:g}s",
        show_default=True,
        help="How long to wait for the answer to a request, such as 1s, 2m, 3h; 0 is forever.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    server: str
    token: str | None
    certificate_authority: str | None
    client_certificate: str | None
    client_key: str | None
    insecure_skip_tls_verify: bool
    tls_server_name: str | None
    request_timeout: float

    @property
    def names_tls(self) -> bool:
        """Whether an option says how TLS is to be done."""
        return bool(
            self.insecure_skip_tls_verify
            or self.certificate_authority
            or self.client_certificate
            or self.client_key
        )


def with_server(command: Callable[Concatenate[Server, P], None]) -> Callable[..., None]:
    """Add the connection options to a command, which gets the `Server` they describe."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        flags = {name: kwargs.pop(name) for name in _Flags.__dataclass_fields__}
        command(_server(_Flags(**flags)), *args, **kwargs)  # type: ignore[arg-type]

    for option in reversed(_OPTIONS):
        option(run)
    return run


def _server(flags: _Flags) -> Server:
    server = Server(
        url=flags.server,
        token=flags.token,
        tls=_tls(flags) if flags.names_tls else None,
        tls_server_name=flags.tls_server_name,
        request_timeout_s=flags.request_timeout or None,
    )
    if flags.token and not re.fullmatch(r"[!-~]+", flags.token):
        raise click.UsageError("--token has characters that no token has")
    if flags.token and flags.server.startswith("http:") and not server.is_local:
        raise click.UsageError(f"--token is not sent without TLS: {flags.server} is not https")
    return server


def _tls(flags: _Flags) -> ssl.SSLContext:
    """Return the TLS settings; raise `click.UsageError` for flags that contradict, bad files."""
    if flags.insecure_skip_tls_verify and flags.certificate_authority:
        raise click.UsageError(
            "--certificate-authority and --insecure-skip-tls-verify cannot be used together"
        )
    if bool(flags.client_certificate) != bool(flags.client_key):
        raise click.UsageError("--client-certificate and --client-key must be used together")
    try:
        tls = ssl.create_default_context(cafile=flags.certificate_authority)
    except (OSError, ValueError) as error:
        raise click.UsageError(f"--certificate-authority cannot be read: {error}") from error
    if flags.insecure_skip_tls_verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    if flags.client_certificate:
        try:
            # without a password an encrypted key would be asked for on the terminal
            tls.load_cert_chain(flags.client_certificate, flags.client_key, password="")
        except (OSError, ValueError) as error:
            raise click.UsageError(f"--client-certificate cannot be used: {error}") from error
    return tls
