"""A server, its address and credentials, however they were configured."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:  # importing ssl takes longer than asking a server on this machine
    import ssl

# Lines of a request: a name may be there several times, as with `Impersonate-Group`, for a server
# takes no list in one line apart. Values go out in UTF-8.
Headers: TypeAlias = Sequence[tuple[str, str]]

DEFAULT_TIMEOUT_S = 32.0  # client-go discovery/discovery_client.go `defaultTimeout`


class Access(Protocol):
    """Our credentials for a server and the authorities that we trust; both may change.

    Its methods may block, since they read files and run programs, and may be called by several
    threads. They raise `InvalidConfiguration`.
    """

    @property
    def identity(self) -> str:
        """Identify the caller, with impersonation, by a stable text without secrets.

        Callers of the same identity may share the answers of a server.
        """
        ...

    def headers(self) -> Headers:
        """Return the headers of every request: authorization and impersonation."""
        ...

    def tls(self) -> "ssl.SSLContext | None":
        """Return the TLS settings, None for the system's authorities and no client certificate.

        It is the same object until something changes; then open connections are outdated.
        """
        ...

    def refused(self) -> bool:
        """Record a 401, and return whether there are other credentials now."""
        ...


@dataclass(frozen=True, slots=True)
class StaticAccess:
    """A bearer token, a certificate or nothing, which do not change.

    Attributes:
        token: Sent as a bearer token.
        context: Returned by `tls`.
        trust: Identifies the trusted authorities, such as by their digest.
        certificate: Identifies the client certificate.
    """

    token: str | None = None
    context: "ssl.SSLContext | None" = None
    trust: str = ""
    certificate: str = ""

    def __repr__(self) -> str:
        """Leave out the token."""
        return f"StaticAccess({self.identity!r})"

    @property
    def identity(self) -> str:
        """Identify the caller by a digest of the token."""
        token = hashlib.sha256(self.token.encode()).hexdigest() if self.token else ""
        return f"token={token} certificate={self.certificate} trust={self.trust}"

    def headers(self) -> Headers:
        """Return the Authorization header, if there is a token."""
        return (("Authorization", f"Bearer {self.token}"),) if self.token else ()

    def tls(self) -> "ssl.SSLContext | None":
        """Return `context`."""
        return self.context

    def refused(self) -> bool:
        """Return False: there are no other credentials."""
        return False


ANONYMOUS = StaticAccess()


@dataclass(frozen=True, slots=True)
class Server:
    """An API server and how to reach it.

    Attributes:
        url: Scheme, host and where needed port and path, without credentials or trailing slash.
        access: Our credentials for it.
        proxy_url: The proxy; None for that of the environment, which never applies to loopback.
        tls_server_name: Expected in the certificate instead of the host in `url`.
        compress: Whether to accept compressed answers.
        request_timeout_s: For each request; None waits forever.
    """

    url: str
    access: Access = ANONYMOUS
    proxy_url: str | None = None
    tls_server_name: str | None = None
    compress: bool = True
    request_timeout_s: float | None = DEFAULT_TIMEOUT_S

    def __repr__(self) -> str:
        """Leave out the proxy, whose URL may have a password."""
        return f"Server(url={self.url!r}, access={self.access!r})"
