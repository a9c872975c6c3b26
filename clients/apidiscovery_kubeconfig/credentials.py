"""Credentials: tokens, passwords, client certificates.

No repr and no error shows a secret.
"""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from apidiscovery_kubeconfig.errors import ConfigurationError, CredentialsUnavailable

MAX_FILE_BYTES = 1 << 20  # a bundle of all public authorities is 220 kB


@dataclass(frozen=True, slots=True)
class Material:
    """Bytes that are given inline, or in a file that may change.

    Attributes:
        where: The key in the configuration, and the file that has the key.
        data: Takes precedence over `file`.
    """

    where: str
    data: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def read(self) -> bytes:
        """Return the bytes, which are not empty.

        Raises:
            ConfigurationError: The file cannot be read, is empty or very large.
        """
        if self.data or self.file is None:
            return self.data
        try:
            with self.file.open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise ConfigurationError(
                f"{self.where}: cannot read {self.file}: {error.strerror}"
            ) from None
        if not content.strip():
            raise ConfigurationError(f"{self.where}: {self.file} is empty")
        if len(content) > MAX_FILE_BYTES:
            raise ConfigurationError(
                f"{self.where}: {self.file} is larger than {MAX_FILE_BYTES} bytes"
            )
        return content

    def stamp(self) -> tuple[int, ...]:
        """Return a value that changes when the file does; constant without one."""
        if self.data or self.file is None:
            return ()
        try:
            state = self.file.stat()
        except OSError:
            return (0,)
        return (state.st_mtime_ns, state.st_size, state.st_ino, state.st_dev)

    @property
    def identity(self) -> str:
        """The path of the file, or a digest of the inline data."""
        return digest(self.data) if self.data or self.file is None else str(self.file)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate with its chain, and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """Authentication of one request.

    Attributes:
        authorization: Value of the header, or None.
        certificate: For the TLS handshake, where one source issues both.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    """A source of proofs; thread-safe.

    Attributes:
        gives_certificates: Whether proofs may have a certificate.
    """

    @property
    def gives_certificates(self) -> bool: ...

    @property
    def identity(self) -> str:
        """A stable name of these credentials, which is not a secret."""
        ...

    def cached(self) -> Proof | None:
        """Return a valid proof without blocking; None where `get` must be called."""
        ...

    def get(self) -> Proof:
        """Return a valid proof; may read a file, or run a program for a minute.

        Raises:
            CredentialsUnavailable: There is none, such as when a plugin fails.
        """
        ...

    def drop(self, refused: str | None = None) -> None:
        """Forget the cached proof if `refused` is None or its Authorization."""
        ...

    def close(self) -> None:
        """Stop what another thread waits for, which then raises `CredentialsUnavailable`."""
        ...


class Anonymous:
    """No credentials."""

    gives_certificates = False
    _proof = Proof()

    @property
    def identity(self) -> str:
        return ""

    def cached(self) -> Proof | None:
        return self._proof

    def get(self) -> Proof:
        return self._proof

    def drop(self, refused: str | None = None) -> None:
        """Do nothing: nothing is cached."""

    def close(self) -> None:
        """Do nothing: nothing runs."""


class StaticToken(Anonymous):
    """A bearer token that does not change."""

    def __init__(self, token: str, where: str) -> None:
        self._proof = Proof(bearer(token, where))

    @property
    def identity(self) -> str:
        return f"token {digest(self._proof.authorization or '')}"


class BasicAuth(Anonymous):
    """User name and password (RFC 7617, in UTF-8)."""

    def __init__(self, username: str, password: str) -> None:
        pair = base64.b64encode(f"{username}:{password}".encode())
        self._proof = Proof(f"Basic {pair.decode()}")
        self._username = username

    @property
    def identity(self) -> str:
        return f"user {self._username}"


class TokenFile(Anonymous):
    """A bearer token in a file that is replaced, for example by the kubelet.

    The file is read for each request. While it is not readable, the last token is used, or the
    inline one (client-go transport/token_source.go `cachingTokenSource.Token`).
    """

    def __init__(self, source: Material, fallback: str = "") -> None:
        self._source = source
        self._fallback = bearer(fallback, source.where) if fallback else None
        self._last = self._fallback

    @property
    def identity(self) -> str:
        return f"token in {self._source.file}"

    def check(self) -> None:
        """Raise `ConfigurationError` if there is no token now."""
        if not self._fallback:
            self._read()

    def cached(self) -> Proof | None:
        return None

    def get(self) -> Proof:
        last = self._last
        try:
            self._last = last = self._read()
        except ConfigurationError as error:
            if last is None:
                raise CredentialsUnavailable(str(error)) from None
            _log_stale_token(error)
        return Proof(last)

    def drop(self, refused: str | None = None) -> None:
        if refused in (None, self._last):
            self._last = self._fallback

    def _read(self) -> str:
        token = self._source.read().decode("utf-8", "replace").strip()
        return bearer(token, self._source.where)


def _log_stale_token(error: ConfigurationError) -> None:
    import logging  # noqa: PLC0415 - rarely needed

    logging.getLogger("apidiscovery_kubeconfig").warning("%s kept: %s", "token", error)


def bearer(token: str, where: str) -> str:
    """Return the value of the Authorization header; `where` is for the error.

    Raises:
        ConfigurationError: The token is not a header value; the message does not quote it.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{where}: want a token of visible ASCII characters, got {len(token)} characters"
            ", some of which are not"
        )
    return f"Bearer {token}"


def digest(content: str | bytes) -> str:
    """Return a digest, which identifies content and does not reveal it."""
    import hashlib  # noqa: PLC0415 - only caches need it

    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:32]
