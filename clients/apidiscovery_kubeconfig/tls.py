"""How a server proves who it is, and which certificate it is shown."""

from typing import TYPE_CHECKING, NamedTuple

from apidiscovery_kubeconfig.credentials import ClientCertificate, Material
from apidiscovery_kubeconfig.errors import ConfigurationError

if TYPE_CHECKING:  # it takes long to import, and a server without TLS needs none of it
    import ssl


class Tls(NamedTuple):
    """The TLS settings of one server.

    Attributes:
        ca: Authorities to trust in place of the system's.
        certificate: The client certificate with its chain, which needs `key`.
        key: Its key, unencrypted.
        server_name: Asked for and expected in place of the host in the URL; empty for that.
        insecure: Whether any certificate will do.
    """

    ca: Material | None = None
    certificate: Material | None = None
    key: Material | None = None
    server_name: str = ""
    insecure: bool = False

    def context(self, held: ClientCertificate | None = None) -> "ssl.SSLContext":
        """Return a context; `held` is shown where the settings have no client certificate.

        Raises:
            ConfigurationError: A file cannot be read, or there is something else in it.
        """
        from apidiscovery_kubeconfig.contexts import made  # noqa: PLC0415 - it imports ssl

        return made(self, held)

    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Return something that is another when a file is."""
        return tuple(part.stamp() for part in (self.ca, self.certificate, self.key) if part)

    def own_certificate(self) -> ClientCertificate | None:
        """Return what the settings name; raise `ConfigurationError` when it cannot be used."""
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
    """Raise `ConfigurationError` when an authority is named that is not to be asked.

    Source: client-go transport/transport.go `TLSConfigFor`.
    """
    if tls.insecure and tls.ca is not None:
        raise ConfigurationError(
            f"{tls.ca.where}: an authority beside insecure-skip-tls-verify; want one of the two"
        )
