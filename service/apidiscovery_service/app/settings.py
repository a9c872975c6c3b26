"""The settings of a server, validated."""

import ipaddress
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from apidiscovery_releases import Release, UnknownRelease, newest

from apidiscovery_service.access import Grant
from apidiscovery_service.access.limits import CallerLimits
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.fleet.view_spec import ViewSpec
from apidiscovery_service.history.model import Retention
from apidiscovery_service.serving.feature_gates import FeatureGates
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.urls import StoreUrl, default_store_url

_KUBERNETES = "kubernetes"

_MAX_PORT = 65535

UPSTREAM_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9._@:/]*[A-Za-z0-9])?")

# As browsers send it (RFC 6454, section 6.2).
_ORIGIN = re.compile(r"[a-z][-a-z0-9+.]*://(\[[0-9a-f:.]+\]|[^\s/:?#@*\[\]A-Z]+)(:[0-9]{1,5})?")

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST_S = 24 * 3600.0


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as `30s`, from 0 to 24 h.

    Raises:
        InvalidConfiguration: It is not a duration, or longer.
    """
    match = _DURATION.fullmatch(text)
    seconds = float(match[1]) * _SECONDS[match[2]] if match else math.inf
    if seconds > _LONGEST_S:
        raise InvalidConfiguration(f"want a duration such as 30s, up to 24h, got {text[:100]!r}")
    return seconds


@dataclass(frozen=True, slots=True)
class Address:
    """An address to listen on; port 0 takes a free one."""

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
        """Whether only this machine can connect to it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Catalog:
    """Which built-in APIs are served.

    Attributes:
        release: Those of this release of Kubernetes; None for none at all.
    """

    release: Release | None = None

    @classmethod
    def parse(cls, text: str) -> "Catalog":
        """Read `kubernetes`, which is the newest release, `kubernetes:1.NN`, or `none`.

        Raises:
            InvalidConfiguration: It is something else, or a release that is not recorded.
        """
        name, colon, release = text.partition(":")
        if text == "none":
            return cls()
        if name != _KUBERNETES or (colon and not release):
            raise InvalidConfiguration(
                f"want kubernetes, kubernetes:1.NN or none, got {text[:100]!r}"
            )
        if not colon:
            return cls(newest())
        try:
            return cls(Release.read(release))
        except UnknownRelease as error:
            raise InvalidConfiguration(str(error)) from None


@dataclass(frozen=True, slots=True)
class Security:
    """TLS, authentication, authorization and rate limits.

    Attributes:
        tls_cert_file: Certificate of HTTPS and gRPC over TLS; its key is `tls_private_key_file`.
        client_ca_file: Authority of the client certificates that identify callers.
        token_auth_file: Bearer tokens that identify callers.
        grants: Authorization of identified callers.
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
                "access: no caller would be identified; give --client-ca-file or --token-auth-file"
            )
        if not math.isfinite(self.max_requests_per_second or 0):
            raise InvalidConfiguration("--max-requests-per-second: want a number, 0 for no limit")
        if self.max_requests_per_second and not self.identifies:
            raise InvalidConfiguration(
                "--max-requests-per-second: needs authentication; give --client-ca-file or "
                "--token-auth-file"
            )

    @property
    def identifies(self) -> bool:
        """Whether callers are authenticated."""
        return bool(self.client_ca_file or self.token_auth_file)

    @property
    def has_tls(self) -> bool:
        return self.tls_cert_file is not None

    @property
    def limits(self) -> CallerLimits:
        """Limits of one caller."""
        rate = self.max_requests_per_second
        if rate is None:
            rate = CallerLimits().requests_per_second if self.identifies else 0.0
        return CallerLimits(requests_per_second=rate)


@dataclass(frozen=True, slots=True)
class UpstreamSettings:
    """One upstream; its options are not validated yet.

    Attributes:
        url: Its URL; empty for one from a kubeconfig.
        kubeconfig: The file; None for kubectl's own rules.
        context: The context of the kubeconfig; empty for the current one.
        options: All other keys of the configuration file.
        place: The prefix of its keys in errors.
    """

    name: str
    url: str = ""
    kubeconfig: Path | None = None
    context: str = ""
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    place: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a server.

    Attributes:
        http: The address of HTTP; None for none.
        grpc: The address of gRPC; None for none.
        catalog: The built-in APIs to serve.
        manifests: Files and directories to serve and watch.
        upstreams: Other API servers to aggregate.
        views: Views over the clusters, besides the built-in ones.
        kubeconfig: The file of `contexts`; None for kubectl's own rules.
        contexts: Patterns of contexts to aggregate, watched.
        clusters: Folders with a file for each cluster, watched.
        trust_clusters: Let these files name programs and other files.
        no_merge: Serve clusters only below `/clusters`; their own options override it.
        cluster_options: Options of clusters by a pattern of their names, in order.
        services: URLs of the services of APIServices by `NAMESPACE/NAME[:PORT]`, in place of their
            address in a cluster.
        proxy_client_cert_file: Client certificate for them, which proves that the user names we
            send are ours to send; its key is `proxy_client_key_file`.
        store: The store of registrations and of the last state of upstreams.
        etcd: How to connect to etcd.
        gates: Features on and off.
        ready_file: Written when the server answers, removed when it ends; None for none.
        insecure_bind: Allow addresses that other machines can reach without authentication.
        shutdown_delay_s: How long requests are answered after SIGTERM, without being ready.
        history: How long changes are kept; None for no history.
        web: Whether there are pages for browsers.
        cors_origins: Origins whose pages may read the answers of HTTP; `*` for all.
    """

    http: Address | None
    grpc: Address | None
    catalog: Catalog
    manifests: tuple[Path, ...] = ()
    upstreams: tuple[UpstreamSettings, ...] = ()
    views: tuple[ViewSpec, ...] = ()
    kubeconfig: Path | None = None
    contexts: tuple[str, ...] = ()
    clusters: tuple[Path, ...] = ()
    trust_clusters: bool = False
    no_merge: bool = False
    cluster_options: Mapping[str, Mapping[str, object]] = field(
        default_factory=dict[str, Mapping[str, object]]
    )
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
    history: Retention | None = None
    web: bool = True
    cors_origins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.http is None and self.grpc is None:
            raise InvalidConfiguration("--http and --grpc are both off: nothing would be served")
        if (self.proxy_client_cert_file is None) != (self.proxy_client_key_file is None):
            raise InvalidConfiguration(
                "--proxy-client-cert-file and --proxy-client-key-file go together"
            )
        if self.history and self.store.is_remote:
            raise InvalidConfiguration(
                "--history: etcd would have to hold it, and is made for small data; use a store in "
                "a file, or leave the option out"
            )
        safe = self.security.has_tls and self.security.identifies
        for flag, address in (("--http", self.http), ("--grpc", self.grpc)):
            if address and not (address.is_loopback or safe or self.insecure_bind):
                raise InvalidConfiguration(
                    f"{flag} {address} is reachable from other machines, and callers are not "
                    "identified over TLS; listen on a loopback address, give --tls-cert-file, "
                    "--tls-private-key-file and --client-ca-file or --token-auth-file, or accept "
                    "that with --insecure-bind"
                )


def cors_origin(text: str) -> str:
    """Read an origin as browsers send it, `SCHEME://HOST[:PORT]`, or `*`.

    Raises:
        InvalidConfiguration: It is something else.
    """
    if text != "*" and not _ORIGIN.fullmatch(text):
        raise InvalidConfiguration(
            "want an origin without a path, such as https://tools.example.com or "
            f"http://localhost:5173, or * for all, got {text[:100]!r}"
        )
    return text


def flagged_upstreams(
    upstreams: tuple[tuple[str, str], ...],
    kubeconfig: Path | None,
    contexts: tuple[str, ...],
    patterns: tuple[str, ...] = (),
) -> list[UpstreamSettings]:
    """Return the upstreams of the flags: one of each URL, and of each context of the kubeconfig.

    Args:
        upstreams: Names and URLs.
        kubeconfig: Its current context counts unless contexts or patterns are given.
        contexts: Names of contexts.
        patterns: Patterns of contexts, which are followed and are not upstreams here.
    """
    named = [UpstreamSettings(name, url, place=f"--upstream {name}: ") for name, url in upstreams]
    if kubeconfig is not None and not contexts and not patterns:
        contexts = ("",)
    return named + [
        UpstreamSettings(
            context or "kubeconfig", kubeconfig=kubeconfig, context=context, place="--"
        )
        for context in contexts
    ]
