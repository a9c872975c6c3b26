"""What the operator decides, checked."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.feature_gates import FeatureGates

Catalog: TypeAlias = Literal["kubernetes", "none"]

_MAX_PORT = 65535


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
class Settings:
    """How to run the server.

    Attributes:
        http: Where HTTP listens; None for not at all.
        grpc: Where gRPC listens; None for not at all.
        catalog: The packaged catalogue to serve.
        manifests: Files and directories to serve and to watch.
        gates: Features on and off.
        ready_file: Written once the server answers, removed when it ends; None for none.
    """

    http: Address | None
    grpc: Address | None
    catalog: Catalog
    manifests: tuple[Path, ...] = ()
    gates: FeatureGates = field(default_factory=FeatureGates)
    ready_file: Path | None = None
    insecure_bind: bool = False

    def __post_init__(self) -> None:
        if self.http is None and self.grpc is None:
            raise InvalidConfiguration("--http and --grpc are both off: nothing would be served")
        for flag, address in (("--http", self.http), ("--grpc", self.grpc)):
            if address and not address.is_loopback and not self.insecure_bind:
                raise InvalidConfiguration(
                    f"{flag} {address} is reachable from other machines, and nobody who calls is "
                    "identified; listen on a loopback address, or accept that with --insecure-bind"
                )
