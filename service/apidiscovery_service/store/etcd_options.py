"""Options of the connection to etcd: TLS, authentication, timeouts."""

import ssl
from dataclasses import dataclass
from pathlib import Path

from apidiscovery_service.errors import InvalidConfiguration


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """Options of the connection to etcd; TLS if a CA or a client certificate is given.

    Attributes:
        ca_file: PEM of the authorities for etcd's certificate; None for those of gRPC.
        cert_file: PEM of the client's certificate, for etcd's `--client-cert-auth`.
        key_file: PEM of its key.
        user: User for etcd's own authentication.
        password_file: The password, white space around it ignored; read at each authentication.
        connect_timeout_s: Timeout of a call for the connection.
        request_timeout_s: Timeout of a call, connection included.
    """

    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    connect_timeout_s: float = 2.0
    request_timeout_s: float = 5.0

    def check(self) -> None:
        """Check that the options are complete and the files readable.

        Raises:
            InvalidConfiguration: Naming the option or file.
        """
        if (self.cert_file is None) != (self.key_file is None):
            raise InvalidConfiguration("etcd: a client certificate needs its key, and the reverse")
        if (self.user is None) != (self.password_file is None):
            raise InvalidConfiguration("etcd: a user needs a password file, and the reverse")
        for path in (self.ca_file, self.cert_file, self.key_file, self.password_file):
            if path is not None:
                _read(path)
        self._check_pem()

    def _check_pem(self) -> None:
        """Check the content of the files; gRPC would only report that it cannot connect."""
        # Without the authorities of the machine, which take long to load.
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            if self.ca_file is not None:
                context.load_verify_locations(self.ca_file)
            if self.cert_file is not None:
                # An encrypted key must not ask at the terminal.
                context.load_cert_chain(self.cert_file, self.key_file, password="")
        except ssl.SSLError as error:
            files = ", ".join(str(file) for file in (self.ca_file, self.cert_file) if file)
            raise InvalidConfiguration(
                f"etcd: {files}: not a usable certificate and key in PEM: {error.reason}"
            ) from error

    def credential_files(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Return the current content of the TLS files: CA, certificate, key.

        Raises:
            InvalidConfiguration: One cannot be read.
        """
        ca, cert, key = (
            None if path is None else _read(path)
            for path in (self.ca_file, self.cert_file, self.key_file)
        )
        return ca, cert, key

    def password(self) -> str:
        """Return the current password of the file; empty without a file."""
        return _read(self.password_file).decode().strip() if self.password_file else ""


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidConfiguration(f"etcd: {path}: cannot be read: {error.strerror}") from error
