"""What the operator decides, checked."""

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from apidiscovery_service.access import Grant
from apidiscovery_service.access.limits import Limits
from apidiscovery_service.app.upstream_settings import UpstreamSettings
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.urls import StoreUrl, default_store_url

Catalog: TypeAlias = Literal["kubernetes", "none"]

_MAX_PORT = 65535

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 24 * 3600.0


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as `30s`, from 0 to 24 h.

    Raises:
        InvalidConfiguration: It is none.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.inf
    if seconds > _LONGEST_S:
        raise InvalidConfiguration(f"want a duration such as 30s, up to 24h, got {text[:100]!r}")
    return seconds


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen; port 0 takes any free one."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read `HOST:PORT`, with an IPv6 address in brackets.

        Raises:
            InvalidConfiguration: It has no host, or no port from 0 to 65535.
        """
        host, colon, port = text.rpartition(":")
        bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
        if not colon or not bare or (":" in bare) != (bare != host):
            raise InvalidConfiguration(f"want HOST:PORT or [IPV6]:PORT, got {text!r}")
        digits = port.isascii() and port.isdigit() and len(port) <= len(str(_MAX_PORT))
        if not digits or int(port) > _MAX_PORT:
            raise InvalidConfiguration(f"want a port from 0 to {_MAX_PORT}, got {port[-100:]!r}")
        return cls(bare, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Security:
    """How callers are kept apart, identified and limited.

    Attributes:
        tls_cert_file: With `tls_private_key_file`, what HTTPS and gRPC over TLS are served with.
        client_ca_file: Whose client certificates identify callers.
        token_auth_file: Bearer tokens that identify callers.
        grants: Who may do what, once callers are identified.
        max_requests_per_second: Of one caller; 0 for no limit, None for the default.
    """

    tls_cert_file: Path | None = None
    tls_private_key_file: Path | None = None
    client_ca_file: Path | None = None
    token_auth_file: Path | None = None
    grants: tuple[Grant, ...] = ()
    max_requests_per_second: float | None = None

    def __post_init__(self) -> None:
        if (self.tls_cert_file is None) != (self.tls_private_key_file is None):
            raise InvalidConfiguration(
                "--tls-cert-file and --tls-private-key-file go together; only one is given"
            )
        if self.identifies and not self.has_tls:
            raise InvalidConfiguration(
                "--client-ca-file and --token-auth-file need TLS: give --tls-cert-file and "
                "--tls-private-key-file too"
            )
        if self.grants and not self.identifies:
            raise InvalidConfiguration(
                "access: nobody would be identified; give --client-ca-file or --token-auth-file"
            )
        if not math.isfinite(self.max_requests_per_second or 0):
            raise InvalidConfiguration("--max-requests-per-second: want a number, 0 for no limit")
        if self.max_requests_per_second and not self.identifies:
            raise InvalidConfiguration(
                "--max-requests-per-second: callers could not be told apart; give --client-ca-file "
                "or --token-auth-file"
            )

    @property
    def identifies(self) -> bool:
        """Whether callers are asked who they are."""
        return bool(self.client_ca_file or self.token_auth_file)

    @property
    def has_tls(self) -> bool:
        return self.tls_cert_file is not None

    @property
    def limits(self) -> Limits:
        """What one caller may take."""
        rate = self.max_requests_per_second
        if rate is None:
            rate = Limits().requests_per_second if self.identifies else 0.0
        return Limits(requests_per_second=rate)


@dataclass(frozen=True, slots=True)
class Settings:
    """How to run the server.

    Attributes:
        http: Where HTTP listens; None for not at all.
        grpc: Where gRPC listens; None for not at all.
        catalog: The packaged catalogue to serve.
        manifests: Files and directories to serve and to watch.
        upstreams: Other API servers to aggregate.
        services: Where the services of APIServices are, by `NAMESPACE/NAME[:PORT]`, in place of
            their address in a cluster.
        proxy_client_cert_file: With `proxy_client_key_file`, what shows them that it is us who
            says whom we ask for.
        store: Where registrations and what upstreams said last are kept.
        etcd: How an etcd is reached.
        gates: Features on and off.
        ready_file: Written once the server answers, removed when it ends; None for none.
        shutdown_delay_s: For how long requests are answered, without being ready, once the server
            is told to stop.
    """

    http: Address | None
    grpc: Address | None
    catalog: Catalog
    manifests: tuple[Path, ...] = ()
    upstreams: tuple[UpstreamSettings, ...] = ()
    services: Mapping[str, str] = field(default_factory=dict[str, str])
    proxy_client_cert_file: Path | None = None
    proxy_client_key_file: Path | None = None
    store: StoreUrl = field(default_factory=lambda: StoreUrl.parse(default_store_url()))
    etcd: EtcdOptions = field(default_factory=EtcdOptions)
    gates: FeatureGates = field(default_factory=FeatureGates)
    security: Security = field(default_factory=Security)
    ready_file: Path | None = None
    insecure_bind: bool = False
    shutdown_delay_s: float = 0.0

    def __post_init__(self) -> None:
        if self.http is None and self.grpc is None:
            raise InvalidConfiguration("--http and --grpc are both off: nothing would be served")
        if (self.proxy_client_cert_file is None) != (self.proxy_client_key_file is None):
            raise InvalidConfiguration(
                "--proxy-client-cert-file and --proxy-client-key-file go together"
            )
        safe = self.security.has_tls and self.security.identifies
        for flag, address in (("--http", self.http), ("--grpc", self.grpc)):
            if address and not (address.is_loopback or safe or self.insecure_bind):
                raise InvalidConfiguration(
                    f"{flag} {address} is reachable from other machines, and nobody who calls is "
                    "identified over TLS; listen on a loopback address, give --tls-cert-file, "
                    "--tls-private-key-file and --client-ca-file or --token-auth-file, or accept "
                    "that with --insecure-bind"
                )
