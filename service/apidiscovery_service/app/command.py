"""`apidiscovery serve`: flags, variables and the configuration file into settings."""

import signal
import sys
from pathlib import Path
from typing import NoReturn, Unpack, cast

import click

from apidiscovery_service.app.config_file import STRUCTURED, Entry, located, read_config
from apidiscovery_service.app.flags import (
    ADDRESS,
    DURATION,
    FILE,
    GATES,
    STORE,
    UPSTREAM,
    Flags,
    settings_of,
)
from apidiscovery_service.app.logs import LEVELS, configure_logging
from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration


def _use_config(
    context: click.Context, _parameter: click.Parameter, path: Path | None
) -> Path | None:
    if path is not None:
        context.default_map = {**(context.default_map or {}), **read_config(path, context)}
    return path


def _end(_number: int, _frame: object) -> NoReturn:
    sys.exit(0)


@click.command(context_settings={"auto_envvar_prefix": "APIDISCOVERY", "show_default": True})
@click.option(
    "--config",
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_use_config,
    help="YAML file with the options as keys; options and variables win over it.",
)
@click.option(
    "--http",
    type=ADDRESS,
    metavar="HOST:PORT|off",
    default="127.0.0.1:8080",
    help="Where HTTP/1.1 and HTTP/2 listen; port 0 takes a free one.",
)
@click.option(
    "--grpc",
    type=ADDRESS,
    metavar="HOST:PORT|off",
    default="127.0.0.1:50051",
    help="Where gRPC listens; port 0 takes a free one.",
)
@click.option(
    "--catalog",
    type=click.Choice(["kubernetes", "none"]),
    help="Built-in APIs to serve.  [default: kubernetes when no other source is given, else none]",
)
@click.option(
    "--manifests",
    type=click.Path(path_type=Path),
    multiple=True,
    help="File or directory of YAML and JSON: CustomResourceDefinition, APIService, "
    "APIGroupDiscoveryList and lists of these; watched; may be given several times.",
)
@click.option(
    "--upstream",
    type=UPSTREAM,
    metavar="NAME=URL",
    multiple=True,
    help="An API server to aggregate; may be given several times.",
)
@click.option(
    "--kubeconfig",
    type=FILE,
    help="Aggregate the cluster of a kubeconfig: its current context, unless --context is given.",
)
@click.option(
    "--context",
    multiple=True,
    help="A context of the kubeconfig to aggregate; may be given several times.",
)
@click.option(
    "--proxy-client-cert-file",
    type=FILE,
    help="Client certificate for the servers behind APIServices.",
)
@click.option("--proxy-client-key-file", type=FILE, help="Its key.")
@click.option(
    "--store",
    type=STORE,
    metavar="memory|sqlite:PATH|etcd://...",
    help="Where registrations and last known upstreams are kept: memory, sqlite:PATH or "
    "etcd://HOST:PORT[,HOST:PORT...]/PREFIX.  [default: sqlite in the user's state folder]",
)
@click.option("--etcd-cafile", type=FILE, help="Certificate authority of etcd.")
@click.option("--etcd-certfile", type=FILE, help="Client certificate for etcd.")
@click.option("--etcd-keyfile", type=FILE, help="Its key.")
@click.option("--etcd-username", help="User of etcd.")
@click.option("--etcd-password-file", type=FILE, help="File with the user's password.")
@click.option(
    "--feature-gates",
    type=GATES,
    metavar="NAME=BOOL,...",
    default="",
    show_default=False,
    help="Features to switch on and off.",
)
@click.option(
    "--ready-file",
    type=FILE,
    help="JSON file with the addresses, written when the server answers.",
)
@click.option(
    "--shutdown-delay",
    type=DURATION,
    default="0s",
    help="How long to go on answering after SIGTERM, with /readyz failing, so that load balancers "
    "notice; a second signal ends it.",
)
@click.option(
    "--insecure-bind",
    is_flag=True,
    help="Allow addresses that other machines can reach, though callers are not identified.",
)
@click.option(
    "--tls-cert-file",
    type=FILE,
    help="Serve HTTPS and gRPC over TLS with this certificate; read again when it changes.",
)
@click.option("--tls-private-key-file", type=FILE, help="Its key.")
@click.option(
    "--client-ca-file",
    type=FILE,
    help="Identify callers by client certificates of this authority.",
)
@click.option(
    "--token-auth-file",
    type=FILE,
    help='Identify callers by bearer tokens: CSV of token,user,uid,"group1,group2".',
)
@click.option(
    "--max-requests-per-second",
    type=click.FloatRange(min=0),
    help="What one caller may ask; 0 for no limit.  [default: 1000 when callers are identified]",
)
@click.option(
    "--log-level",
    type=click.Choice(LEVELS),
    default="info",
    help="The least severe messages that are logged.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="How messages are written to standard error.",
)
def serve(**flags: Unpack[Flags]) -> None:
    """Serve API discovery over HTTP and gRPC until SIGTERM or SIGINT.

    Each option is also a variable, APIDISCOVERY_HTTP for --http, and a key of the --config file.

    Exit codes: 0 ended by a signal after draining, 1 failed at run time, 2 bad usage or
    configuration.
    """
    # Until there is something to drain.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    # Imported here: `apidiscovery serve --help` needs none of it.
    from apidiscovery_service.app.run import run  # noqa: PLC0415
    from apidiscovery_service.sources.manifests.folder import InvalidManifests  # noqa: PLC0415

    structured = cast("dict[str, Entry]", click.get_current_context().meta.get(STRUCTURED, {}))
    try:
        settings = settings_of(flags, {key: entry.value for key, entry in structured.items()})
    except InvalidConfiguration as error:
        raise click.UsageError(located(str(error), structured)) from None
    configure_logging(flags["log_level"], as_json=flags["log_format"] == "json")
    try:
        run(settings)
    except InvalidManifests as error:
        for invalid in error.errors:
            click.echo(f"error: {invalid}", err=True)
        sys.exit(2)
    except InvalidConfiguration as error:
        raise click.UsageError(located(str(error), structured)) from None
    except (DiscoveryError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
