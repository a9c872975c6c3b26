"""From the TLS settings of a server to what a connection is made with."""

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
    """The context of a server, made anew when a file or the certificate of a plugin changes.

    Between two files that are replaced one after the other, and do not belong together meanwhile,
    the context before is kept.

    Args:
        tls: The settings.
        shared: Whether a context that is as for every other server may be the same as theirs.
    """

    def __init__(self, tls: Tls, *, shared: bool = True) -> None:
        self._tls = tls
        self._shared = shared
        self._basis: _Basis | None = None
        self._unusable: _Basis | None = None
        self._context: ssl.SSLContext | None = None
        self._lock = threading.Lock()

    def current(self, held: ClientCertificate | None) -> ssl.SSLContext:
        """Return the context of now, the same object while nothing has changed; blocks on files.

        Args:
            held: Shown where the settings have no client certificate.

        Raises:
            ConfigurationError: There is none that could be used, and was none before.
        """
        with self._lock:
            basis = (self._tls.stamp(), held)
            if self._context is not None and basis in (self._basis, self._unusable):
                return self._context
            try:
                self._context = made(self._tls, held, shared=self._shared)
            except ConfigurationError as error:
                if self._context is None:
                    raise
                self._unusable = basis
                _log.warning("%s kept: %s", "certificates", error)
            else:
                self._basis = basis
            return self._context


def made(tls: Tls, held: ClientCertificate | None, *, shared: bool = True) -> ssl.SSLContext:
    """Return a context.

    The trust is that of Go's crypto/x509, on which clusters are built: whatever is named is an
    anchor, be it self-signed or not, and the common name says nothing.

    Args:
        tls: The settings.
        held: Shown where the settings have no client certificate.
        shared: Whether a context that is as for every other server may be the same as theirs;
            whoever changes it, as by `set_alpn_protocols`, changes it for all.

    Raises:
        ConfigurationError: A file cannot be read, or there is something else in it.
    """
    shown = tls.own_certificate() or held
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
