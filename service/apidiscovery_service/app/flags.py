"""The flags of `apidiscovery serve`: which there are, and what values they take."""

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Generic, Literal, TypedDict, TypeVar, cast

import click

from apidiscovery_service.access.grants import parse_grants
from apidiscovery_service.app.settings import Address, Catalog, Security, Settings, duration_s
from apidiscovery_service.app.upstream_settings import (
    UPSTREAM_NAME,
    configured_services,
    configured_upstreams,
    flagged_upstreams,
)
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.urls import StoreUrl, default_store_url

T = TypeVar("T")


class Flags(TypedDict):
    """The values of all flags."""

    http: Address | Literal["off"]
    grpc: Address | Literal["off"]
    catalog: Catalog | None
    manifests: tuple[Path, ...]
    upstream: tuple[tuple[str, str], ...]
    kubeconfig: Path | None
    context: tuple[str, ...]
    proxy_client_cert_file: Path | None
    proxy_client_key_file: Path | None
    store: StoreUrl | None
    etcd_cafile: Path | None
    etcd_certfile: Path | None
    etcd_keyfile: Path | None
    etcd_username: str | None
    etcd_password_file: Path | None
    feature_gates: FeatureGates
    ready_file: Path | None
    shutdown_delay: float
    insecure_bind: bool
    tls_cert_file: Path | None
    tls_private_key_file: Path | None
    client_ca_file: Path | None
    token_auth_file: Path | None
    max_requests_per_second: float | None
    log_level: str
    log_format: str


class Parsed(click.ParamType[object, T], Generic[T]):
    """A value that a function reads from text; it raises InvalidConfiguration."""

    def __init__(self, name: str, read: Callable[[str], T]) -> None:
        self.name = name
        self._read = read

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        # A file may have a list here; what is neither was read already, click hands it back.
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


ADDRESS = Parsed("HOST:PORT|off", _address_or_off)
GATES = Parsed("NAME=BOOL,...", FeatureGates.parse)
UPSTREAM = Parsed("NAME=URL", _upstream)
STORE = Parsed("memory|sqlite:PATH|etcd://...", StoreUrl.parse)
DURATION = Parsed("DURATION", duration_s)
FILE = click.Path(path_type=Path, dir_okay=False)


def settings_of(flags: Flags, structured: Mapping[str, object]) -> Settings:
    """Return the settings that flags and the keys without a flag make together.

    Args:
        flags: The flags.
        structured: The value of each key without a flag that is there.

    Raises:
        InvalidConfiguration: They make no sense; the message begins with the flag, or with the path
            of the key.
    """
    upstreams = flagged_upstreams(flags["upstream"], flags["kubeconfig"], flags["context"])
    upstreams += configured_upstreams(structured.get("upstreams", {}))
    for name, count in Counter(upstream.name for upstream in upstreams).items():
        if count > 1:
            raise InvalidConfiguration(
                f"{count} upstreams are called {name}; want a name of its own for each"
            )
    other_sources = flags["manifests"] or upstreams
    return Settings(
        http=None if flags["http"] == "off" else flags["http"],
        grpc=None if flags["grpc"] == "off" else flags["grpc"],
        catalog=flags["catalog"] or ("none" if other_sources else "kubernetes"),
        manifests=flags["manifests"],
        upstreams=tuple(upstreams),
        services=configured_services(structured.get("services", {})),
        proxy_client_cert_file=flags["proxy_client_cert_file"],
        proxy_client_key_file=flags["proxy_client_key_file"],
        store=flags["store"] or StoreUrl.parse(default_store_url()),
        etcd=_etcd(flags),
        gates=flags["feature_gates"],
        security=_security(flags, structured),
        ready_file=flags["ready_file"],
        insecure_bind=flags["insecure_bind"],
        shutdown_delay_s=flags["shutdown_delay"],
    )


def _etcd(flags: Flags) -> EtcdOptions:
    options = EtcdOptions(
        ca_file=flags["etcd_cafile"],
        cert_file=flags["etcd_certfile"],
        key_file=flags["etcd_keyfile"],
        user=flags["etcd_username"],
        password_file=flags["etcd_password_file"],
    )
    # Each part by itself, to name the flags that are to blame.
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


def _security(flags: Flags, structured: Mapping[str, object]) -> Security:
    return Security(
        tls_cert_file=flags["tls_cert_file"],
        tls_private_key_file=flags["tls_private_key_file"],
        client_ca_file=flags["client_ca_file"],
        token_auth_file=flags["token_auth_file"],
        grants=parse_grants(structured.get("access", [])),
        max_requests_per_second=flags["max_requests_per_second"],
    )
