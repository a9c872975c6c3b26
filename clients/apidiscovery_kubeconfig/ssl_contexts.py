"""`ssl` contexts from the TLS settings of a server."""

import logging
import os
import ssl
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeAlias

from apidiscovery_kubeconfig.credentials import ClientCertificate, Material
from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.tls import Tls

_Basis: TypeAlias = tuple[tuple[tuple[int, ...], ...], ClientCertificate | None]

_log = logging.getLogger("apidiscovery_kubeconfig")


class RenewedContext:
    """The context of a server, remade when a file or the certificate of a plugin changes.

    While two files are replaced one after the other, and do not match, the former context stays.

    Args:
        tls: The settings.
        shared: Whether servers without settings of their own may share a context.

    Attributes:
        certificate: The client certificate of the current context; None for none.
    """

    def __init__(self, tls: Tls, *, shared: bool = True) -> None:
        self.certificate: ClientCertificate | None = None
        self._tls = tls
        self._shared = shared
        self._basis: _Basis | None = None
        self._unusable: _Basis | None = None
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def cached(self, issued: ClientCertificate | None) -> ssl.SSLContext | None:
        """Return the current context without blocking; None where `current` must be called."""
        if self._context is None or self._tls.has_files:
            return None
        basis = (self._tls.stamp(), issued)
        return self._context if basis in (self._basis, self._unusable) else None

    def current(self, issued: ClientCertificate | None) -> ssl.SSLContext:
        """Return the current context, the same object until something changes; blocks on files.

        Args:
            issued: A certificate from a plugin, for settings without a client certificate.

        Raises:
            ConfigurationError: The settings are not usable, and there is no former context.
        """
        with self._lock:
            basis = (self._tls.stamp(), issued)
            if self._context is not None and basis in (self._basis, self._unusable):
                return self._context
            try:
                self._context = make_context(self._tls, issued, shared=self._shared)
            except ConfigurationError as error:
                if self._context is None:
                    raise
                self._unusable = basis
                _log.warning("%s kept: %s", "certificates", error)
            else:
                self._basis = basis
                self.certificate = self._tls.own_certificate() or issued
            return self._context


def make_context(
    tls: Tls, issued: ClientCertificate | None, *, shared: bool = True
) -> ssl.SSLContext:
    """Return a context.

    Trust follows Go's crypto/x509, on which clusters are built: every named certificate is an
    anchor, self-signed or not, and the common name is ignored.

    Args:
        tls: The settings.
        issued: A certificate from a plugin, for settings without a client certificate.
        shared: Whether settings without anything of their own may share a context; a change to
            it, such as `set_alpn_protocols`, then affects all.

    Raises:
        ConfigurationError: A file cannot be read or parsed.
    """
    shown = tls.own_certificate() or issued
    if shared and tls.ca is None and shown is None and not tls.insecure:
        return _system_context()
    context = _bare_context()
    if tls.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca is None:
        context.load_default_certs()
    else:
        _trust(context, tls.ca)
    if shown is not None:
        where = tls.certificate.where if tls.certificate else "the client certificate"
        _show(context, shown, where)
    return context


@cache  # 1 MB and 20 ms each, and many upstreams may share it
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
    text = ca.read().decode("ascii", "ignore")  # there may be comments between certificates
    try:
        context.load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        raise ConfigurationError(
            f"{ca.where}: no certificate in it; want one or more in PEM,"
            " each beginning with -----BEGIN CERTIFICATE-----"
        ) from None


def _show(context: ssl.SSLContext, pair: ClientCertificate, where: str) -> None:
    def refuse_password() -> str:
        raise ConfigurationError(f"{where}: the key is encrypted, want one that is not")

    with _as_file(pair.certificate) as certificate, _as_file(pair.key) as key:
        try:
            context.load_cert_chain(certificate, key, password=refuse_password)
        except ssl.SSLError as error:
            raise ConfigurationError(f"{where}: {_why_unusable(error)}") from None


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
        import tempfile  # noqa: PLC0415 - for this platform alone

        with tempfile.TemporaryDirectory() as folder:  # mode 0700
            path = Path(folder, "pem")
            path.write_bytes(content)
            yield str(path)
