"""Where an API server is and how it is reached: address, TLS, credentials, proxy."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from typing import TYPE_CHECKING

from apidiscovery_kubeconfig import addresses, kubeconfig
from apidiscovery_kubeconfig.addresses import environment_proxy, proxy_url, stays_secret
from apidiscovery_kubeconfig.connection import Connection, Impersonation, read_impersonation
from apidiscovery_kubeconfig.credentials import (
    Anonymous,
    Credentials,
    Material,
    TokenFile,
)
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls, check_trust

from apidiscovery_service.core.source import CertificateExpiry
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources.upstreams.credentials import ThreadedCredentials, translated
from apidiscovery_service.sources.upstreams.reachability import address

# Imported with the first use: httpx2 takes 50 ms, and few servers have upstreams.
if TYPE_CHECKING:
    from apidiscovery_service.sources.upstreams.transport import Connections, Response

SETTINGS = (
    "as",
    "as-groups",
    "as-uid",
    "as-user-extra",
    "ca-file",
    "client-certificate",
    "client-key",
    "insecure-skip-tls-verify",
    "proxy-url",
    "tls-server-name",
    "token-file",
)


@dataclass(slots=True)
class _Open:
    """Parts that are created when they are first needed."""

    connections: "Connections | None" = None
    credentials: ThreadedCredentials | None = None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An API server, and all that a request to it needs.

    Attributes:
        url: Scheme, host, and where needed a port and a path prefix. Requests fail if it is not
            valid.
        tls: How the server is verified, and a client certificate for it.
        credentials: Sent with each request.
        impersonation: The user to impersonate; None for none.
        proxy_url: None for the proxy that the environment names, empty for none.
        compress: Whether to request compressed answers.
    """

    url: str
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    impersonation: Impersonation | None = None
    proxy_url: str | None = field(default=None, repr=False)
    compress: bool = True
    _open: _Open = field(default_factory=_Open, init=False, repr=False, compare=False)

    @property
    def proxy(self) -> str:
        """`HOST:PORT` of the proxy that is connected to in place of the server; empty for none."""
        proxy = self._proxy()
        if proxy is None:
            return ""
        host, port = address(proxy)
        return f"{host}:{port}"

    @property
    def certificates(self) -> CertificateExpiry:
        """Until when the certificates of the last connection are valid."""
        connections = self._open.connections
        return connections.certificates if connections else CertificateExpiry()

    async def get(self, path: str, headers: Sequence[tuple[str, str]] = ()) -> "Response":
        """GET a path below the URL; the caller closes the answer, and bounds the exchange.

        Impersonation headers are sent, but no credentials; these come from `headers`. Certificates
        are renewed, redirects are not followed, cookies not kept.

        Raises:
            InvalidConfiguration: The URL, or the proxy that the environment names, is not valid.
            httpcore2.NetworkError: Or another of `failures`. An unusable certificate or plugin is a
                `ConnectError`.
        """
        if self._open.connections is None:
            self._open.connections = self._made_connections()
        return await self._open.connections.get(path, headers)

    async def headers(self) -> dict[str, str]:
        """Return the credential headers for one request.

        Raises:
            CredentialsUnavailable: There are none now, for example because a plugin fails.
        """
        proof = await self._threaded().get()
        return {} if proof.authorization is None else {"Authorization": proof.authorization}

    def refresh(self, refused: Mapping[str, str] | None = None) -> None:
        """Drop cached credentials after a 401.

        Args:
            refused: The result of `headers` for the request; newer credentials stay.
        """
        self.credentials.drop(None if refused is None else refused.get("Authorization"))

    def check(self) -> None:
        """Read the files that the settings name, to report mistakes at once; blocks.

        Raises:
            InvalidConfiguration: The message has the key, the value and what is wanted.
        """
        with translated():
            if self.url.startswith("https:"):
                self.tls.context()
            if isinstance(self.credentials, TokenFile):
                self.credentials.check()
        self._proxy()

    async def aclose(self) -> None:
        """Close the connections, and end a plugin that runs."""
        await self._threaded().aclose()
        if self._open.connections is not None:
            connections, self._open.connections = self._open.connections, None
            await connections.aclose()

    def _threaded(self) -> ThreadedCredentials:
        if self._open.credentials is None:
            self._open.credentials = ThreadedCredentials(self.credentials)
        return self._open.credentials

    def _proxy(self) -> str | None:
        if self.proxy_url is None:
            with translated():
                return environment_proxy(self.url, os.environ)
        return self.proxy_url or None

    def _made_connections(self) -> "Connections":
        from apidiscovery_service.sources.upstreams.transport import Connections  # noqa: PLC0415

        lines = [
            (b"Connection", b"keep-alive"),
            (b"User-Agent", _user_agent()),
            (b"Accept-Encoding", b"gzip" if self.compress else b"identity"),
        ]
        if self.impersonation is not None:
            whom = self.impersonation.lines()
            lines += [(name.encode(), value.encode()) for name, value in whom]
        url = server_url(self.url, "the address of the server")
        tls = self.tls if url.startswith("https:") else None
        return Connections(url, lines, tls, self._threaded(), self._proxy())


def failures() -> tuple[type[Exception], ...]:
    """Return the exceptions of a request that failed."""
    from apidiscovery_service.sources.upstreams.transport import FAILURES  # noqa: PLC0415

    return *FAILURES, OSError, ValueError


@cache  # the metadata of a package is a file
def _user_agent() -> bytes:
    return f"apidiscovery/{version('apidiscovery')}".encode()


def endpoint_from_settings(url: str, settings: Mapping[str, object]) -> Endpoint:
    """Return the endpoint of an upstream from its address and the keys in `SETTINGS`.

    Values are as YAML has them. Relative paths start in the working directory. All files are read
    once, to report mistakes at once.

    Raises:
        InvalidConfiguration: The message begins with the key (or `url`) that is wrong.
    """
    with translated():
        fields = Fields(settings)
        fields.only(SETTINGS)
        proxy = proxy_url(text, "proxy-url") if (text := fields.text("proxy-url")) else None
        endpoint = Endpoint(
            server_url(url, "url"),
            tls=_tls(fields),
            credentials=_credentials(fields, url, proxy),
            impersonation=read_impersonation(fields),
            proxy_url=proxy,
        )
    endpoint.check()
    return endpoint


def endpoint_from_kubeconfig(path: str | None, context: str | None) -> Endpoint:
    """Return the server of a context, the current one for None; as `kubeconfig.read_kubeconfig`.

    Raises:
        InvalidConfiguration: The message names file, key, and what to do.
    """
    with translated():
        return endpoint_of(kubeconfig.read_kubeconfig(path, context).connection)


def endpoint_of(found: Connection) -> Endpoint:
    """Return the endpoint of a connection that was read from a kubeconfig."""
    return Endpoint(
        server_url(found.url, "the address of the server"),
        tls=found.tls,
        credentials=found.credentials,
        impersonation=found.impersonation,
        proxy_url=found.proxy_url,
        compress=found.compress,
    )


def server_url(text: str, where: str) -> str:
    """Return an address without the slash at its end; `where` is for the error.

    Raises:
        InvalidConfiguration: It is not an http or https URL, or has credentials, a query or a
            fragment. The message does not quote credentials and queries.
    """
    import httpx2  # noqa: PLC0415

    with translated():
        url = addresses.server_url(text, where)
    try:
        httpx2.URL(url)
    except httpx2.InvalidURL:
        raise InvalidConfiguration(f"{where}: no URL; {addresses.WANTED}") from None
    return url


def _tls(fields: Fields) -> Tls:
    certificate, key = fields.path("client-certificate"), fields.path("client-key")
    if certificate is None and key is not None:
        raise fields.wrong("client-certificate", "want the certificate of client-key")
    if certificate is not None and key is None:
        raise fields.wrong("client-key", "want the key of client-certificate")
    ca = fields.path("ca-file")
    tls = Tls(
        ca=Material("ca-file", file=ca) if ca else None,
        certificate=Material("client-certificate", file=certificate) if certificate else None,
        key=Material("client-key", file=key) if key else None,
        server_name=fields.text("tls-server-name"),
        insecure=fields.flag("insecure-skip-tls-verify"),
    )
    check_trust(tls)
    return tls


def _credentials(fields: Fields, url: str, proxy: str | None) -> Credentials:
    file = fields.path("token-file")
    if file is None:
        return Anonymous()
    if not stays_secret(url, proxy):
        raise fields.wrong("token-file", "the token would go unencrypted; want an https:// URL")
    return TokenFile(Material("token-file", file=file))
