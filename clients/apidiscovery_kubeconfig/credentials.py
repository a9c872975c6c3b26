"""What a server is shown so that it knows who asks: tokens, passwords, certificates.

Nothing here shows a secret in its repr, and no error quotes one.
"""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from apidiscovery_kubeconfig.errors import ConfigurationError, CredentialsUnavailable

MAX_FILE_BYTES = 1 << 20  # a bundle of all public authorities is 220 kB


@dataclass(frozen=True, slots=True)
class Material:
    """Bytes that are given outright or are in a file, which may change.

    Attributes:
        where: The key that the operator wrote, with the file it is in.
        data: Wins over `file`.
    """

    where: str
    data: bytes = field(default=b"", repr=False)
    file: Path | None = None

    def read(self) -> bytes:
        """Return the bytes, which are never none.

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
        """Return something that is another when the file is; the same for ever without one."""
        if self.data or self.file is None:
            return ()
        try:
            state = self.file.stat()
        except OSError:
            return (0,)
        return (state.st_mtime_ns, state.st_size, state.st_ino, state.st_dev)

    @property
    def identity(self) -> str:
        """What tells this from others: the path of the file, or a digest of what was given."""
        return digest(self.data) if self.data or self.file is None else str(self.file)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate with its chain, and its key, both PEM."""

    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Proof:
    """What goes with one request.

    Attributes:
        authorization: Value of the header, or None.
        certificate: For the TLS handshake, when it comes with the header from one source.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    """A source of proofs, which several threads may ask.

    Attributes:
        gives_certificates: Whether proofs may have one.
    """

    @property
    def gives_certificates(self) -> bool: ...

    @property
    def identity(self) -> str:
        """Who this is, in a way that is the same tomorrow and no secret."""
        ...

    def held(self) -> Proof | None:
        """Return what is valid now, if that takes no time; None where `get` must be called."""
        ...

    def get(self) -> Proof:
        """Return what is valid now; it may read a file or run a program for a minute.

        Raises:
            CredentialsUnavailable: There is nothing, such as when a plugin fails.
        """
        ...

    def drop(self, refused: str | None = None) -> None:
        """Forget what is cached, when `refused` is None or the Authorization that it gives."""
        ...

    def close(self) -> None:
        """End what runs for another thread; that thread then gets `CredentialsUnavailable`."""
        ...


class Anonymous:
    """Nothing is shown."""

    gives_certificates = False
    _proof = Proof()

    @property
    def identity(self) -> str:
        return ""

    def held(self) -> Proof | None:
        return self._proof

    def get(self) -> Proof:
        return self._proof

    def drop(self, refused: str | None = None) -> None:
        """There is nothing to forget."""

    def close(self) -> None:
        """There is nothing to end."""


class StaticToken(Anonymous):
    """A bearer token that stays the same."""

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
    """A bearer token in a file that somebody replaces, such as the kubelet.

    The file is read for each request. While it cannot be, the token read last is used, or else the
    one given outright (client-go transport/token_source.go `cachingTokenSource.Token`).
    """

    def __init__(self, source: Material, fallback: str = "") -> None:
        self._source = source
        self._fallback = bearer(fallback, source.where) if fallback else None
        self._last = self._fallback

    @property
    def identity(self) -> str:
        return f"token in {self._source.file}"

    def check(self) -> None:
        """Raise `ConfigurationError` when there is no token now."""
        if not self._fallback:
            self._read()

    def held(self) -> Proof | None:
        return None

    def get(self) -> Proof:
        last = self._last
        try:
            self._last = last = self._read()
        except ConfigurationError as error:
            if last is None:
                raise CredentialsUnavailable(str(error)) from None
            _tell_kept(error)
        return Proof(last)

    def drop(self, refused: str | None = None) -> None:
        if refused in (None, self._last):
            self._last = self._fallback

    def _read(self) -> str:
        token = self._source.read().decode("utf-8", "replace").strip()
        return bearer(token, self._source.where)


def _tell_kept(error: ConfigurationError) -> None:
    import logging  # noqa: PLC0415 - hardly ever

    logging.getLogger("apidiscovery_kubeconfig").warning("%s kept: %s", "token", error)


def bearer(token: str, where: str) -> str:
    """Return the value of the Authorization header; `where` is for the error.

    Raises:
        ConfigurationError: The token holds what no header may; it is not quoted.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError(
            f"{where}: want a token of visible ASCII characters, got {len(token)} characters"
            " of which some are others"
        )
    return f"Bearer {token}"


def digest(content: str | bytes) -> str:
    """Return what tells contents apart and gives none of them away."""
    import hashlib  # noqa: PLC0415 - for those who keep something by identity

    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()[:32]
