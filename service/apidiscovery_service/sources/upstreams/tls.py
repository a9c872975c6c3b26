"""How a server proves who it is, and which certificate it is shown: settings into a context."""

import os
import ssl
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.credentials import ClientCertificate, Material


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
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

    def context(self, held: ClientCertificate | None = None) -> ssl.SSLContext:
        """Return a context; `held` is shown where the settings have no client certificate.

        The trust is that of Go's crypto/x509, on which clusters are built: whatever is named is
        an anchor, be it self-signed or not, and the common name says nothing.

        Raises:
            InvalidConfiguration: A file cannot be read, or there is something else in it.
        """
        shown = self._own_certificate() or held
        if self.ca is None and shown is None and not self.insecure:
            return _system_context()
        context = _bare_context()
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif self.ca is None:
            context.load_default_certs()
        else:
            _trust(context, self.ca)
        if shown is not None:
            where = self.certificate.where if self.certificate else "the client certificate"
            _show(context, shown, where)
        return context

    def stamp(self) -> tuple[tuple[int, ...], ...]:
        """Return something that is another when a file is."""
        return tuple(part.stamp() for part in (self.ca, self.certificate, self.key) if part)

    def _own_certificate(self) -> ClientCertificate | None:
        if self.certificate is None or self.key is None:
            return None
        key = self.key.read()
        if b"ENCRYPTED" in key:
            raise InvalidConfiguration(
                f"{self.key.where}: the key is encrypted, want one that is not;"
                " decrypt it, such as with openssl pkey -in KEY -out PLAIN"
            )
        return ClientCertificate(self.certificate.read(), key)


@cache  # it takes a megabyte and 20 ms, and many upstreams may share it
def _system_context() -> ssl.SSLContext:
    context = _bare_context()
    context.load_default_certs()
    return context


def _bare_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.hostname_checks_common_name = False
    return context


def _trust(context: ssl.SSLContext, ca: Material) -> None:
    text = ca.read().decode("ascii", "ignore")  # between certificates there may be comments
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise InvalidConfiguration(
            f"{ca.where}: no certificate in it; want one or more in PEM,"
            " each beginning with -----BEGIN CERTIFICATE-----"
        ) from None


def _show(context: ssl.SSLContext, pair: ClientCertificate, where: str) -> None:
    def refuse_password() -> str:
        raise InvalidConfiguration(f"{where}: the key is encrypted, want one that is not")

    with _as_file(pair.certificate) as certificate, _as_file(pair.key) as key:
        try:
            context.load_cert_chain(certificate, key, password=refuse_password)
        except ssl.SSLError as error:
            raise InvalidConfiguration(f"{where}: {_why_unusable(error)}") from None


def _why_unusable(error: ssl.SSLError) -> str:
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not belong to the certificate"
    return f"want a certificate and its key in PEM, OpenSSL cannot read them ({error.reason})"


@contextmanager
def _as_file(content: bytes) -> Generator[str]:
    """Yield the path of a file with this content, which only this process can see.

    ssl takes a certificate and its key from files alone. Where there are files in memory, the key
    touches no disk, and a read-only root will do.
    """
    if sys.platform == "linux":
        descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.TemporaryDirectory() as folder:  # mode 0700
            path = Path(folder, "pem")
            path.write_bytes(content)
            yield str(path)
