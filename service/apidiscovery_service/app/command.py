"""`apidiscovery serve`: converts flags, variables and the configuration file to settings."""

import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, Generic, Literal, NoReturn, TypeVar, cast

import click

from apidiscovery_service.app.config_file import STRUCTURED, KeyValue, located, read_config
from apidiscovery_service.app.process import LEVELS, configure_logging
from apidiscovery_service.app.settings import (
    UPSTREAM_NAME,
    Address,
    Catalog,
    Security,
    Settings,
    cors_origin,
    duration_s,
    flagged_upstreams,
)
from apidiscovery_service.app.structured import (
    configured_cluster_options,
    configured_grants,
    configured_services,
    configured_upstreams,
    configured_views,
)
from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.history.model import Retention
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.urls import StoreUrl, default_store_url
from apidiscovery_service.workers import leave

# Of a history in memory.
_BYTES_IN_MEMORY = 64 * 2**20
_SWITCH = {"on": True, "true": True, "off": False, "false": False}

T = TypeVar("T")


class Parsed(click.ParamType[object, T], Generic[T]):
    """A value that a function reads from text; it raises InvalidConfiguration."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        # A configuration file may have a list here. Click also passes values that are converted.
        if not isinstance(value, str | list):
            return cast("T", value)
        try:
            return self._read(str(cast("object", value)))
        except InvalidConfiguration as error:
            self.fail(str(error), param, ctx)


def _address_or_off(text: str) -> Address | Literal["off"]:
    # YAML reads a bare `off` as false.
    return "off" if text in ("off", "false") else Address.parse(text)


def _upstream(text: str) -> tuple[str, str]:
    name, equals, url = text.partition("=")
    if not equals or not UPSTREAM_NAME.fullmatch(name) or not url:
        raise InvalidConfiguration(
            f"want NAME=URL, NAME of letters, digits, dots and dashes, got {name[:100]!r}"
        )
    return name, url


def _history(text: str) -> Retention | Literal["off"]:
    return "off" if text in ("off", "false") else Retention.parse(text)


def _on_or_off(text: str) -> bool:
    # YAML reads them as true and false, where they are not quoted.
    if text.lower() not in _SWITCH:
        raise InvalidConfiguration(f"want on or off, got {text[:100]!r}")
    return _SWITCH[text.lower()]


HISTORY = Parsed("AGE,SIZE|off", _history)
SWITCH = Parsed("on|off", _on_or_off)
CATALOG = Parsed("kubernetes[:1.NN]|none", Catalog.parse)
ADDRESS = Parsed("HOST:PORT|off", _address_or_off)
GATES = Parsed("NAME=BOOL,...", FeatureGates.parse)
UPSTREAM = Parsed("NAME=URL", _upstream)
ORIGIN = Parsed("ORIGIN", cors_origin)
STORE = Parsed("memory|sqlite:PATH|etcd://...", StoreUrl.parse)
DURATION = Parsed("DURATION", duration_s)
FILE = click.Path(path_type=Path, dir_okay=False)


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
    type=CATALOG,
    metavar="kubernetes[:1.NN]|none",
    help="Built-in APIs to serve: those of the newest recorded release of Kubernetes, or those "
    "of another such as kubernetes:1.31.  [default: kubernetes when no other source is given, "
    "else none]",
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
    "--contexts",
    metavar="PATTERN",
    multiple=True,
    help="Aggregate every context of the kubeconfig that fits, such as 'prod-*'; the file is "
    "watched; may be given several times.",
)
@click.option(
    "--clusters",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    multiple=True,
    help="Folder with a kubeconfig for each cluster, which has the name of its file, or with "
    "mounted Secrets of Cluster API or Argo CD; watched; may be given several times.",
)
@click.option(
    "--trust-clusters",
    is_flag=True,
    help="Let the files of --clusters run exec plugins and name other files.",
)
@click.option(
    "--no-merge",
    is_flag=True,
    help="Serve clusters only below /clusters/NAME, not merged at /apis.",
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
@click.option(
    "--history",
    type=HISTORY,
    metavar="AGE,SIZE|off",
    help="How long and in how much space changes are remembered, beside the store; "
    "the oldest are forgotten first.  [default: 90d,2GiB; in memory 90d,64MiB; off with etcd]",
)
@click.option(
    "--web",
    type=SWITCH,
    metavar="on|off",
    default="on",
    help="Whether there are pages for browsers below /ui/, where the extra web is installed.",
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
    "--cors-origin",
    type=ORIGIN,
    metavar="ORIGIN",
    multiple=True,
    help="Let pages of this origin read HTTP's answers, such as http://localhost:5173; * for all; "
    "may be given several times.",
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
    help="Maximum request rate of a caller; 0 for no limit.  "
    "[default: 1000 when callers are identified]",
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
def serve(**flags: object) -> None:
    """Serve API discovery over HTTP and gRPC until SIGTERM or SIGINT.

    Each option is also a variable, APIDISCOVERY_HTTP for --http, and a key of the --config file.

    Exit codes: 0 ended by a signal after draining, 1 failed at run time, 2 bad usage or
    configuration.
    """
    # Until the server runs, which drains.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    # Imported here, since `apidiscovery serve --help` does not need it.
    from apidiscovery_service.app.run import run  # noqa: PLC0415
    from apidiscovery_service.sources.manifests.folder import InvalidManifests  # noqa: PLC0415

    structured = cast("dict[str, KeyValue]", click.get_current_context().meta.get(STRUCTURED, {}))
    try:
        settings = settings_of(flags, {key: entry.value for key, entry in structured.items()})
    except InvalidConfiguration as error:
        raise click.UsageError(located(str(error), structured)) from None
    configure_logging(str(flags["log_level"]), as_json=flags["log_format"] == "json")
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
        leave(1)
    leave(0)


def settings_of(flags: Mapping[str, Any], structured: Mapping[str, object]) -> Settings:
    """Return the settings of flags and of keys without a flag.

    Args:
        flags: The flags, by name of the parameter; those that are fields of `Settings` or
            `Security` are taken as they are.
        structured: The values of the keys without a flag in the configuration file.

    Raises:
        InvalidConfiguration: They are not valid together; the message begins with the flag, or with
            the path of the key.
    """
    patterns, clusters = flags["contexts"], flags["clusters"]
    upstreams = [
        *flagged_upstreams(flags["upstream"], flags["kubeconfig"], flags["context"], patterns),
        *configured_upstreams(structured.get("upstreams", {})),
    ]
    for name, count in Counter(upstream.name for upstream in upstreams).items():
        if count > 1:
            raise InvalidConfiguration(
                f"{count} upstreams are called {name}; want a name of its own for each"
            )
    if flags["trust_clusters"] and not clusters:
        raise InvalidConfiguration("--trust-clusters: there is no --clusters folder to trust")
    store = flags["store"] or StoreUrl.parse(default_store_url())
    other_sources = flags["manifests"] or upstreams or patterns or clusters
    converted: dict[str, Any] = {
        "http": None if flags["http"] == "off" else flags["http"],
        "grpc": None if flags["grpc"] == "off" else flags["grpc"],
        "catalog": flags["catalog"] or Catalog.parse("none" if other_sources else "kubernetes"),
        "upstreams": tuple(upstreams),
        "views": configured_views(structured.get("views", {})),
        "cluster_options": configured_cluster_options(structured.get("cluster-options", {})),
        "services": configured_services(structured.get("services", {})),
        "store": store,
        "etcd": _etcd(flags),
        "gates": flags["feature_gates"],
        "security": Security(
            grants=configured_grants(structured.get("access", [])), **_fields_of(Security, flags)
        ),
        "cors_origins": flags["cors_origin"],
        "shutdown_delay_s": flags["shutdown_delay"],
        "history": _retention(flags["history"], store),
    }
    return Settings(**{**_fields_of(Settings, flags), **converted})


def _fields_of(settings: type[Settings | Security], flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags whose names are those of fields."""
    return {each.name: flags[each.name] for each in fields(settings) if each.name in flags}


def _retention(flag: Retention | Literal["off"] | None, store: StoreUrl) -> Retention | None:
    if flag is None and not store.is_remote:
        return Retention() if store.path else Retention(max_bytes=_BYTES_IN_MEMORY)
    return None if flag == "off" else flag


def _etcd(flags: Mapping[str, Any]) -> EtcdOptions:
    options = EtcdOptions(
        ca_file=flags["etcd_cafile"],
        cert_file=flags["etcd_certfile"],
        key_file=flags["etcd_keyfile"],
        user=flags["etcd_username"],
        password_file=flags["etcd_password_file"],
    )
    # Each part on its own, so that the error names its flags.
    for names, part in (
        ("--etcd-cafile", EtcdOptions(ca_file=options.ca_file)),
        (
            "--etcd-certfile and --etcd-keyfile",
            EtcdOptions(cert_file=options.cert_file, key_file=options.key_file),
        ),
        (
            "--etcd-username and --etcd-password-file",
            EtcdOptions(user=options.user, password_file=options.password_file),
        ),
    ):
        try:
            part.check()
        except InvalidConfiguration as error:
            raise InvalidConfiguration(f"{names}: {error}") from None
    return options
