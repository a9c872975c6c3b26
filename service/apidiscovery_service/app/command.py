"""`apidiscovery serve`: flags, variables and the configuration file into settings."""

import signal
import sys
from pathlib import Path
from typing import Literal, NoReturn

import click

from apidiscovery_service.app.config_file import read_config
from apidiscovery_service.app.logs import LEVELS, configure_logging
from apidiscovery_service.app.settings import Address, Catalog, Settings
from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.feature_gates import FeatureGates


class _AddressType(click.ParamType[object, Address | Literal["off"]]):
    """`HOST:PORT`, or `off`."""

    name = "HOST:PORT|off"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Address | Literal["off"]:
        if isinstance(value, Address):
            return value
        if value in ("off", "false"):  # YAML reads a bare `off` as false
            return "off"
        try:
            return Address.parse(str(value))
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)


class _GatesType(click.ParamType[object, FeatureGates]):
    """`NAME=BOOL,...`."""

    name = "NAME=BOOL,..."

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> FeatureGates:
        if isinstance(value, FeatureGates):
            return value
        try:
            return FeatureGates.parse(str(value))
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)


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
    type=click.Path(path_type=Path, dir_okay=False),
    is_eager=True,
    expose_value=False,
    callback=_use_config,
    help="YAML file with the options as keys; options and variables win over it.",
)
@click.option(
    "--http",
    type=_AddressType(),
    metavar="HOST:PORT|off",
    default="127.0.0.1:8080",
    help="Where HTTP/1.1 and HTTP/2 listen; port 0 takes a free one.",
)
@click.option(
    "--grpc",
    type=_AddressType(),
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
    help="File or directory of YAML and JSON discovery lists, watched; may be given several times.",
)
@click.option(
    "--store",
    type=click.Choice(["memory"]),
    default="memory",
    help="Where state is kept; catalogue and manifests are read again at each start.",
)
@click.option(
    "--feature-gates",
    type=_GatesType(),
    metavar="NAME=BOOL,...",
    default="",
    show_default=False,
    help="Features to switch on and off.",
)
@click.option(
    "--ready-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="JSON file with the addresses, written when the server answers.",
)
@click.option(
    "--insecure-bind",
    is_flag=True,
    help="Allow addresses that other machines can reach, though callers are not identified.",
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
def serve(  # noqa: PLR0913 - one argument a flag
    *,
    http: Address | Literal["off"],
    grpc: Address | Literal["off"],
    catalog: Catalog | None,
    manifests: tuple[Path, ...],
    store: str,  # noqa: ARG001 - one choice so far; it needs nothing
    feature_gates: FeatureGates,
    ready_file: Path | None,
    insecure_bind: bool,
    log_level: str,
    log_format: str,
) -> None:
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
    from apidiscovery_service.sources.manifests import InvalidManifests  # noqa: PLC0415

    try:
        settings = Settings(
            http=None if http == "off" else http,
            grpc=None if grpc == "off" else grpc,
            catalog=catalog or ("none" if manifests else "kubernetes"),
            manifests=manifests,
            gates=feature_gates,
            ready_file=ready_file,
            insecure_bind=insecure_bind,
        )
    except InvalidConfiguration as error:
        raise click.UsageError(str(error)) from None
    configure_logging(log_level, as_json=log_format == "json")
    try:
        run(settings)
    except InvalidManifests as error:
        for invalid in error.errors:
            click.echo(f"error: {invalid}", err=True)
        sys.exit(2)
    except (DiscoveryError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)
