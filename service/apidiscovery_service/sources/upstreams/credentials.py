"""What a server is shown so that it knows who asks: tokens, passwords, certificates.

Nothing here shows a secret in its repr, and no error quotes one.
"""

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import structlog

from apidiscovery_service.errors import DiscoveryError, InvalidConfiguration
from apidiscovery_service.sources.upstreams.fields import Fields

MAX_FILE_BYTES = 1 << 20  # a bundle of all public authorities is 220 kB

# RFC 9110 section 5.6.2, tchar.
_TOKEN_CHARACTERS = frozenset(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

_log = structlog.get_logger(__name__)


class CredentialsUnavailable(DiscoveryError):
    """What the server is to be shown cannot be had now; the message says where from and why."""


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
            InvalidConfiguration: The file cannot be read, is empty or very large.
        """
        if self.data or self.file is None:
            return self.data
        try:
            with self.file.open("rb") as stream:
                content = stream.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise InvalidConfiguration(
                f"{self.where}: cannot read {self.file}: {error.strerror}"
            ) from None
        if not content.strip():
            raise InvalidConfiguration(f"{self.where}: {self.file} is empty")
        if len(content) > MAX_FILE_BYTES:
            raise InvalidConfiguration(
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
    """A source of proofs."""

    async def get(self) -> Proof:
        """Return what is valid now; raise `CredentialsUnavailable`."""
        ...

    async def certificate(self) -> ClientCertificate | None:
        """Return the certificate for a handshake now; raise `CredentialsUnavailable`."""
        ...

    def drop(self, refused: str | None = None) -> None:
        """Forget what is cached, when `refused` is None or the Authorization that it gives."""
        ...

    def describe(self) -> str:
        """Return what kind this is, without secrets."""
        ...

    async def aclose(self) -> None:
        """End what runs in the background."""
        ...


class Anonymous:
    """Nothing is shown."""

    async def get(self) -> Proof:
        return Proof()

    async def certificate(self) -> ClientCertificate | None:
        return None

    def drop(self, refused: str | None = None) -> None:
        """There is nothing to forget."""

    def describe(self) -> str:
        return "no credentials"

    async def aclose(self) -> None:
        """There is nothing to end."""


class StaticToken(Anonymous):
    """A bearer token that stays the same."""

    def __init__(self, token: str, where: str) -> None:
        self._proof = Proof(bearer(token, where))

    async def get(self) -> Proof:
        return self._proof

    def describe(self) -> str:
        return "bearer token"


class BasicAuth(Anonymous):
    """User name and password (RFC 7617, in UTF-8)."""

    def __init__(self, username: str, password: str) -> None:
        pair = base64.b64encode(f"{username}:{password}".encode())
        self._proof = Proof(f"Basic {pair.decode()}")

    async def get(self) -> Proof:
        return self._proof

    def describe(self) -> str:
        return "user name and password"


class TokenFile(Anonymous):
    """A bearer token in a file that somebody replaces, such as the kubelet.

    The file is read for each request. While it cannot be, the token read last is used, or else the
    one given outright (client-go transport/token_source.go `cachingTokenSource.Token`).
    """

    def __init__(self, source: Material, fallback: str = "") -> None:
        self._source = source
        self._fallback = bearer(fallback, source.where) if fallback else None
        self._last = self._fallback

    def check(self) -> None:
        """Raise `InvalidConfiguration` when there is no token now."""
        if not self._fallback:
            self._read()

    async def get(self) -> Proof:
        try:
            self._last = await asyncio.to_thread(self._read)
        except InvalidConfiguration as error:
            if self._last is None:
                raise CredentialsUnavailable(str(error)) from None
            _log.warning("token kept", source=self._source.where, reason=str(error))
        return Proof(self._last)

    def drop(self, refused: str | None = None) -> None:
        if refused in (None, self._last):
            self._last = self._fallback

    def describe(self) -> str:
        return f"bearer token in {self._source.file}"

    def _read(self) -> str:
        token = self._source.read().decode("utf-8", "replace").strip()
        return bearer(token, self._source.where)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """Whom a request is to be judged as (`as` and its companions in a kubeconfig)."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the header lines; a name may be there several times.

        Source: client-go transport/round_trippers.go `impersonatingRoundTripper.RoundTrip`.
        """
        lines = [("Impersonate-User", self.user)]
        if self.uid:
            lines.append(("Impersonate-Uid", self.uid))
        lines += [("Impersonate-Group", group) for group in self.groups]
        lines += [
            (f"Impersonate-Extra-{_escape(key)}", value)
            for key, values in self.extra.items()
            for value in values
        ]
        return [(name.encode(), value.encode()) for name, value in lines]


def read_impersonation(fields: Fields) -> Impersonation | None:
    """Return what the keys `as`, `as-uid`, `as-groups` and `as-user-extra` ask for, if anything.

    Raises:
        InvalidConfiguration: One is there without `as`, or cannot stand in a header.
    """
    asked = Impersonation(
        fields.text("as"),
        fields.text("as-uid"),
        fields.texts("as-groups"),
        fields.text_lists("as-user-extra"),
    )
    values = {
        "as": (asked.user,),
        "as-uid": (asked.uid,),
        "as-groups": asked.groups,
        "as-user-extra": tuple(text for texts in asked.extra.values() for text in texts),
    }
    for key, texts in values.items():
        if key in fields and not asked.user:
            raise fields.wrong(key, "want `as` beside it: whom to impersonate")
        if not all(map(is_header_value, texts)):
            raise fields.wrong(key, "holds a control character, which no header may")
    return asked if asked.user else None


def bearer(token: str, where: str) -> str:
    """Return the value of the Authorization header; `where` is for the error.

    Raises:
        InvalidConfiguration: The token holds what no header may; it is not quoted.
    """
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidConfiguration(
            f"{where}: want a token of visible ASCII characters, got {len(token)} characters"
            " of which some are others"
        )
    return f"Bearer {token}"


def is_header_value(text: str) -> bool:
    """Return whether a text can stand in a header (RFC 9110 section 5.5, UTF-8 let through)."""
    return all(character >= " " and character != "\x7f" for character in text)


def _escape(key: str) -> str:
    """Return a key fit for a header name (`headerKeyEscape` of the same file)."""
    return "".join(
        chr(byte) if chr(byte) in _TOKEN_CHARACTERS and chr(byte) != "%" else f"%{byte:02X}"
        for byte in key.encode()
    )
