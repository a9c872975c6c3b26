"""TLS settings: how to verify a server, and the client certificate."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from apidiscovery_kubeconfig.credentials import ClientCertificate, Material
from apidiscovery_kubeconfig.errors import ConfigurationError

if TYPE_CHECKING:  # slow to import, and not needed without TLS
    import ssl


@dataclass(frozen=True, slots=True)
class Tls:
    """The TLS settings of one server.

    Attributes:
        ca: Certificate authorities to trust instead of the system's.
        certificate: The client certificate with its chain, which needs `key`.
        key: Its key, unencrypted.
        server_name: Expected instead of the host in the URL; empty for the host.
        insecure: Whether to accept any certificate.
    """

    ca: Material | None = None
    certificate: Material | None = None
    key: Material | None = None
    server_name: str = ""
    insecure: bool = False

    def context(self, issued: ClientCertificate | None = None) -> "ssl.SSLContext":
        """Return a context; `issued` is for settings without a client certificate.

        Raises:
            ConfigurationError: A file cannot be read or parsed.
        """
        from apidiscovery_kubeconfig.ssl_contexts import make_context  # noqa: PLC0415 - it imports ssl

        return make_context(self, issued)

    @property
    def has_files(self) -> bool:
        """Whether anything is read from a file, which may change."""
        return any(part.file is not None and not part.data for part in self._parts)

    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Return a value that changes when a file does."""
        return tuple(part.stamp() for part in self._parts)

    @property
    def _parts(self) -> tuple[Material, ...]:
        return tuple(part for part in (self.ca, self.certificate, self.key) if part)

    def own_certificate(self) -> ClientCertificate | None:
        """Return the configured certificate; raise `ConfigurationError` if it is not usable."""
        if self.certificate is None or self.key is None:
            return None
        key = self.key.read()
        if b"ENCRYPTED" in key:
            raise ConfigurationError(
                f"{self.key.where}: the key is encrypted, want one that is not;"
                " decrypt it, such as with openssl pkey -in KEY -out PLAIN"
            )
        return ClientCertificate(self.certificate.read(), key)


def check_trust(tls: Tls) -> None:
    """Raise `ConfigurationError` for a certificate authority beside `insecure`.

    Source: client-go transport/transport.go `TLSConfigFor`.
    """
    if tls.insecure and tls.ca is not None:
        raise ConfigurationError(
            f"{tls.ca.where}: an authority beside insecure-skip-tls-verify; want one of the two"
        )
