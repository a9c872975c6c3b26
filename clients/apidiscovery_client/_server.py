"""A server and how to reach it, whichever way that was configured."""

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
    """Who we are towards a server, and whom we trust to be it; both may change while we run.

    Its methods may block, for they read files and run programs, and may be called by several
    threads. They raise `InvalidConfiguration`.
    """

    @property
    def identity(self) -> str:
        """Tell who we are, and as whom, in a way that is the same tomorrow and no secret.

        Whoever has the same identity towards the same server may share what it answered.
        """
        ...

    def headers(self) -> Headers:
        """Return what goes with every request: authorization and impersonation."""
        ...

    def tls(self) -> "ssl.SSLContext | None":
        """Return the TLS settings, None for the system's authorities and no certificate.

        It is the same object while nothing has changed; with another one, open connections are
        outdated.
        """
        ...

    def refused(self) -> bool:
        """Take note of a 401, and return whether other credentials can be had by asking again."""
        ...


@dataclass(frozen=True, slots=True)
class StaticAccess:
    """A bearer token or a certificate, or nothing, which stay as they are.

    Attributes:
        token: Sent as a bearer token.
        context: Returned by `tls`.
        trust: Tells apart those that trust other authorities, such as a digest of theirs.
        certificate: Tells apart those that show other certificates.
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
        """Tell it by a digest of the token."""
        token = hashlib.sha256(self.token.encode()).hexdigest() if self.token else ""
        return f"token={token} certificate={self.certificate} trust={self.trust}"

    def headers(self) -> Headers:
        """Return the token, if there is one."""
        return (("Authorization", f"Bearer {self.token}"),) if self.token else ()

    def tls(self) -> "ssl.SSLContext | None":
        """Return what was given."""
        return self.context

    def refused(self) -> bool:
        """Return that nothing else can be had."""
        return False


ANONYMOUS = StaticAccess()


@dataclass(frozen=True, slots=True)
class Server:
    """An API server and how to reach it.

    Attributes:
        url: Scheme, host and where needed port and path, without credentials or trailing slash.
        access: Who we are towards it.
        proxy_url: What to ask it through; None for what the environment says, and loopback never.
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
