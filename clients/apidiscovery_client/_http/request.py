"""Credentials, headers, deadline and proxy of HTTP requests."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

from apidiscovery_kubeconfig.addresses import (
    environment_proxy,
    proxy_of_variable,
    proxy_url,
    stays_secret,
    without_password,
)
from apidiscovery_kubeconfig.errors import ConfigurationError

from apidiscovery_client._errors import InvalidConfiguration, ServerUnreachable
from apidiscovery_client._package import VERSION
from apidiscovery_client._server import Access, Headers, Server

if TYPE_CHECKING:
    import ssl

_ASK_AGAIN_S = 10.0  # before the same refused credentials are reported to `Access` again


class Deadline:
    """A moment by which a request must have ended.

    Args:
        seconds: From now; None for no deadline.
    """

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left_s(self) -> float | None:
        """Return the seconds left, None for any number; raise `TimeoutError` when none are."""
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


@dataclass(frozen=True, slots=True)
class Shown:
    """The credentials that a request was sent with.

    Attributes:
        tls: None for the system's authorities.
    """

    headers: Headers
    tls: "ssl.SSLContext | None"

    def refused(self) -> str:
        """Return which credentials a 401 refused, without any secret.

        A client certificate is not named: TLS settings do not show whether they have one.
        """
        lines = (value for name, value in self.headers if name.lower() == "authorization")
        scheme = next(lines, "").partition(" ")[0].lower()
        if not scheme:
            return "no token or password was sent"
        named = {"bearer": "bearer token was", "basic": "user name and password were"}
        return f"the {named.get(scheme, 'credentials were')} not accepted"


class Credentials:
    """Gets credentials from an `Access`, and after a 401 asks it once for other ones.

    Its methods block, and may be called by several threads. They raise `InvalidConfiguration`.
    """

    def __init__(self, access: Access) -> None:
        self._access = access
        self._lock = Lock()
        self._refused: Shown | None = None
        self._renewed = False
        self._told_at = 0.0

    def show(self) -> Shown:
        """Return the current credentials."""
        return Shown(self._access.headers(), self._access.tls())

    def renewed(self, refused: Shown) -> Shown | None:
        """Return other credentials after a 401; None when there are none.

        `Access` learns once that credentials were refused, however many requests were, and again
        some seconds later, since a plugin may return others by then.
        """
        with self._lock:
            is_long_ago = time.monotonic() - self._told_at >= _ASK_AGAIN_S
            if refused != self._refused or is_long_ago:
                self._refused = refused
                self._told_at = time.monotonic()
                self._renewed = self._access.refused()
        return self.show() if self._renewed else None

    def close(self) -> None:
        """End what `Access` runs for a request, such as a plugin; that request fails."""
        close: Callable[[], object] | None = getattr(self._access, "close", None)
        if close is not None:
            close()


def request_headers(server: Server, shown: Shown, accept: str, etag: str) -> Headers:
    """Return the headers of a request, except those of the connection.

    Raises:
        InvalidConfiguration: Credentials would leave this machine without TLS.
    """
    _check_secrecy(server, shown)
    return (
        ("Accept", accept),
        ("Accept-Encoding", "gzip" if server.compress else "identity"),
        ("User-Agent", f"apidiscovery/{VERSION}"),
        *((("If-None-Match", etag),) if etag else ()),
        *shown.headers,
    )


def _check_secrecy(server: Server, shown: Shown) -> None:
    if not any(name.lower() == "authorization" for name, _ in shown.headers):
        return
    if not stays_secret(server.url, server.proxy_url):
        way = f" through {without_password(server.proxy_url)}" if server.proxy_url else ""
        raise InvalidConfiguration(
            f"credentials are not sent without TLS: {server.url}{way}; want https"
        )


def proxy_of(server: Server) -> str | None:
    """Return the URL of the proxy, with scheme and host; None for a direct connection.

    It is the configured one, else that of the variables that Go reads (golang.org/x/net
    http/httpproxy), else of ALL_PROXY. Variables do not apply to loopback addresses.

    Raises:
        ServerUnreachable: The proxy cannot be used.
    """
    if server.proxy_url:
        return _configured_proxy(server, server.proxy_url)
    try:
        found = environment_proxy(server.url, os.environ)
        return found or _proxy_of_everything(server)
    except ConfigurationError as error:
        raise ServerUnreachable(
            f"the proxy in the environment cannot be used: {error}", url=server.url
        ) from error


def _configured_proxy(server: Server, url: str) -> str:
    try:
        return proxy_url(url, "the proxy URL")
    except ConfigurationError as error:
        raise ServerUnreachable(str(error), url=server.url) from error


def _proxy_of_everything(server: Server) -> str | None:
    name = next((name for name in ("ALL_PROXY", "all_proxy") if os.environ.get(name)), None)
    return proxy_of_variable(name, server.url, os.environ) if name else None
