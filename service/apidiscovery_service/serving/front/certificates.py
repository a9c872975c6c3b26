"""The server's certificate and the authorities of clients, read again when they change."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.front.metrics import FrontMetrics
from apidiscovery_service.serving.front.reload import Reload

_MISMATCH = "KEY_VALUES_MISMATCH"


@dataclass(frozen=True, slots=True)
class Trust:
    """What a handshake needs.

    Attributes:
        context: For connections that begin now.
        authorities: The certificates, as DER, of those whose clients are believed.
    """

    context: ssl.SSLContext
    authorities: frozenset[bytes]


class Certificates(Reload[Trust]):
    """Keeps certificate, key and client authorities at what their files say.

    Connections that are there keep what they began with. When an authority is gone, `on_distrust`
    is told: those whom it vouched for must be asked again.

    Args:
        cert_file: PEM, the server's certificate first, then those that link it to an authority.
        key_file: PEM, not encrypted.
        client_ca_file: PEM of the authorities whose clients are believed; None for none.
        metrics: Where reads are counted.
    """

    def __init__(
        self,
        cert_file: Path,
        key_file: Path,
        client_ca_file: Path | None = None,
        metrics: FrontMetrics | None = None,
    ) -> None:
        self._cert_file = cert_file
        self._key_file = key_file
        self._client_ca_file = client_ca_file
        self._distrust: list[Callable[[], None]] = []
        files = (cert_file, key_file, *([client_ca_file] if client_ca_file else []))
        self._authorities: frozenset[bytes] = frozenset()
        super().__init__("tls-cert-file", files, self._load, self._compare, metrics)
        self._authorities = self.value.authorities

    @property
    def context(self) -> ssl.SSLContext:
        """For connections that begin now."""
        return self.value.context

    def on_distrust(self, listener: Callable[[], None]) -> None:
        """Call `listener` when clients that were believed may no longer be."""
        self._distrust.append(listener)

    def _compare(self, trust: Trust) -> None:
        gone = self._authorities - trust.authorities
        self._authorities = trust.authorities
        if gone:
            for listener in self._distrust:
                listener()

    def _load(self) -> Trust:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(["h2", "http/1.1"])
        # A resumed session would bring back a client that may not be believed any more.
        context.num_tickets = 0
        self._load_pair(context)
        if self._client_ca_file:
            self._load_authorities(context, self._client_ca_file)
        return Trust(context, frozenset(context.get_ca_certs(binary_form=True)))

    def _load_pair(self, context: ssl.SSLContext) -> None:
        cert, key = self._cert_file, self._key_file
        cert_place, key_place = f"--tls-cert-file {cert}", f"--tls-private-key-file {key}"
        _see_that_it_can_be_read(cert_place, cert)
        _see_that_it_can_be_read(key_place, key)
        try:
            context.load_cert_chain(cert, key, password=_no_password)
        except _Encrypted:
            raise InvalidConfiguration(
                f"{key_place}: the key is encrypted; want one that is not, which only the "
                "server's user can read"
            ) from None
        except (ssl.SSLError, OSError) as error:
            if getattr(error, "reason", "") == _MISMATCH:
                raise InvalidConfiguration(
                    f"{key_place}: not the key of the certificate in {cert}"
                ) from None
            raise InvalidConfiguration(
                f"{cert_place}, {key_place}: want a certificate and its key as PEM, "
                f"got {_reason(error)}"
            ) from None

    @staticmethod
    def _load_authorities(context: ssl.SSLContext, file: Path) -> None:
        place = f"--client-ca-file {file}"
        _see_that_it_can_be_read(place, file)
        try:
            context.load_verify_locations(cafile=file)
        except (ssl.SSLError, OSError) as error:
            raise InvalidConfiguration(
                f"{place}: want certificates as PEM, got {_reason(error)}"
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
        # As Go does: whatever is in the file is believed, also what is no root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


class _Encrypted(Exception):
    """A key wants a password."""


def _no_password() -> str:
    """Refuse to ask a person at the terminal."""
    raise _Encrypted


def _see_that_it_can_be_read(place: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise InvalidConfiguration(f"{place}: cannot be read: {error.strerror}") from None


def _reason(error: OSError) -> str:
    """Return what OpenSSL has against a file, without any of its content."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error.strerror or error)
