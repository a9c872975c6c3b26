"""TLS certificates and bearer tokens, read again when their files change.

Files are polled, not watched: polling a few files costs nothing, and also sees what network file
systems and the links of mounted secrets do not announce.
"""

import asyncio
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

import structlog

from apidiscovery_service.access.credentials import Tokens, parse_tokens
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.serving.front.metrics import FrontMetrics

_POLL_EVERY_S = 0.5
_MISMATCH = "KEY_VALUES_MISMATCH"

T = TypeVar("T")

# Modification time in ns, size and inode of each file; None for a missing one.
_Signature: TypeAlias = tuple[tuple[int, int, int] | None, ...]

_log = structlog.get_logger(__name__)


class Reload(Generic[T]):
    """A value that is read from files, again after each change; errors keep the former value.

    Args:
        what: The name in logs, metrics and warnings.
        paths: The files.
        read: Reads them, in a worker thread; raises InvalidConfiguration.
        use: Called with each later value, in the loop's thread.
        metrics: Counts reads.

    Attributes:
        value: The last value that could be read.
        use: May be set later, when it needs the first value.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        read: Callable[[], T],
        use: Callable[[T], None] = lambda _: None,
        metrics: FrontMetrics | None = None,
    ) -> None:
        """Read for the first time.

        Raises:
            InvalidConfiguration: The files cannot be used.
        """
        self._what = what
        self._paths = tuple(paths)
        self._read = read
        self.use = use
        self._metrics = metrics or FrontMetrics()
        self._problem = ""
        # Before the read, so that the next poll sees a change during it.
        self._signature = self._sign()
        self.value = read()

    def warnings(self) -> list[str]:
        """Return why the files cannot be used now, for `/readyz?verbose`."""
        if not self._problem:
            return []
        return [f"{self._what}: {self._problem}; the former content is in use"]

    async def renew(self) -> None:
        """Read again if a file has changed."""
        signature = await asyncio.to_thread(self._sign)
        if signature == self._signature:
            return
        self._signature = signature
        try:
            value = await asyncio.to_thread(self._read)
        except InvalidConfiguration as error:
            self._problem = str(error)
            self._metrics.count_reload(self._what, success=False)
            _log.error(
                "reload failed, the former content stays in use", file=self._what, error=str(error)
            )
            return
        self._problem = ""
        self.value = value
        self._metrics.count_reload(self._what, success=True)
        _log.info("reloaded", file=self._what)
        self.use(value)

    def _sign(self) -> _Signature:
        return tuple(_signature(path) for path in self._paths)


async def follow(*reloads: Reload[Any]) -> None:
    """Poll until cancelled; a change is in use within a second."""
    while True:
        await asyncio.sleep(_POLL_EVERY_S)
        for reload in reloads:
            try:
                await reload.renew()
            except Exception:  # noqa: BLE001 - the other files are still polled
                _log.exception("reload failed")


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None  # the error message comes from reading it
    return (status.st_mtime_ns, status.st_size, status.st_ino)


class TokenFile(Reload[Tokens]):
    """The tokens in `--token-auth-file`.

    Args:
        path: The file.
        metrics: Counts reads.
    """

    def __init__(self, path: Path, metrics: FrontMetrics | None = None) -> None:
        def read() -> Tokens:
            try:
                content = path.read_bytes()
            except OSError as error:
                raise InvalidConfiguration(f"{path}: cannot be read: {error.strerror}") from None
            return parse_tokens(content, str(path))

        super().__init__("token-auth-file", (path,), read, metrics=metrics)

    def warnings(self) -> list[str]:
        """Return errors and oddities of the file, for `/readyz?verbose`."""
        odd = [f"token-auth-file: {text}" for text in self.value.warnings]
        return super().warnings() + odd


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust settings for handshakes.

    Attributes:
        context: For new connections.
        authorities: The certificates, as DER, of the client authorities.
    """

    context: ssl.SSLContext
    authorities: frozenset[bytes]


class Certificates(Reload[Trust]):
    """The server's certificate and key, and the client authorities.

    Established connections keep what they began with. When an authority is removed, the listeners
    of `on_distrust` are called: its clients must be authenticated again.

    Args:
        cert_file: PEM, the server's certificate first, then its intermediates.
        key_file: PEM, not encrypted.
        client_ca_file: PEM of the client authorities; None for none.
        metrics: Counts reads.
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

    def on_distrust(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a client authority has been removed."""
        self._distrust.append(listener)

    def _compare(self, trust: Trust) -> None:
        removed = self._authorities - trust.authorities
        self._authorities = trust.authorities
        if removed:
            for listener in self._distrust:
                listener()

    def _load(self) -> Trust:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.set_alpn_protocols(["h2", "http/1.1"])
        # A resumed session would bring back a client whose authority has been removed.
        context.num_tickets = 0
        self._load_pair(context)
        if self._client_ca_file:
            self._load_authorities(context, self._client_ca_file)
        return Trust(context, frozenset(context.get_ca_certs(binary_form=True)))

    def _load_pair(self, context: ssl.SSLContext) -> None:
        cert, key = self._cert_file, self._key_file
        cert_place, key_place = f"--tls-cert-file {cert}", f"--tls-private-key-file {key}"
        _check_readable(cert_place, cert)
        _check_readable(key_place, key)
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
        _check_readable(place, file)
        try:
            context.load_verify_locations(cafile=file)
        except (ssl.SSLError, OSError) as error:
            raise InvalidConfiguration(
                f"{place}: want certificates as PEM, got {_reason(error)}"
            ) from None
        context.verify_mode = ssl.CERT_OPTIONAL
        # As Go does: every certificate in the file is trusted, also one that is not a root.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN


class _Encrypted(Exception):
    """A key needs a password."""


def _no_password() -> str:
    """Refuse to prompt at the terminal."""
    raise _Encrypted


def _check_readable(place: str, file: Path) -> None:
    try:
        with file.open("rb"):
            pass
    except OSError as error:
        raise InvalidConfiguration(f"{place}: cannot be read: {error.strerror}") from None


def _reason(error: OSError) -> str:
    """Return OpenSSL's reason to reject a file, without any of its content."""
    reason = getattr(error, "reason", None)
    return str(reason).replace("_", " ").lower() if reason else str(error.strerror or error)
