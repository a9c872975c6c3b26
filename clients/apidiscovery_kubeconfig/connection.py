"""From the keys of a cluster and a user to what a connection is made with.

Source: client-go tools/clientcmd/validation.go and client_config.go
`DirectClientConfig.ClientConfig`.
"""

import os
from dataclasses import dataclass, field

from apidiscovery_kubeconfig.addresses import server_url
from apidiscovery_kubeconfig.credentials import (
    Anonymous,
    BasicAuth,
    Credentials,
    Material,
    StaticToken,
    TokenFile,
)
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.impersonation import Impersonation, read_impersonation
from apidiscovery_kubeconfig.proxies import (
    environment_proxy,
    proxy_url,
    stays_secret,
    without_password,
)
from apidiscovery_kubeconfig.tls import Tls, check_trust


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A server, and all that a request to it needs.

    Attributes:
        url: Scheme, host, where needed port and path; no slash at the end.
        tls: How the server is verified, and a client certificate for it.
        credentials: What goes with each request.
        impersonation: Whom to ask as; None for oneself.
        proxy_url: None for what the environment says.
        compress: Whether compressed answers are asked for.
    """

    url: str
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    impersonation: Impersonation | None = None
    proxy_url: str | None = field(default=None, repr=False)
    compress: bool = True

    def check(self) -> None:
        """Read what the settings name, to tell of a mistake at once; blocks on files.

        Raises:
            ConfigurationError: As the message says: which key, what was seen, what is wanted.
        """
        if self.url.startswith("https:") and (self.tls.ca or self.tls.certificate):
            self.tls.context()
        if isinstance(self.credentials, TokenFile):
            self.credentials.check()
        if self.proxy_url is None:
            environment_proxy(self.url, os.environ)


def connection(cluster: Fields, user: Fields, *, terminal: bool = False) -> Connection:
    """Return what the keys under `cluster` and `user` of a kubeconfig say.

    Args:
        cluster: The keys of the one.
        user: Those of the other; none for a request without credentials.
        terminal: Whether there is one that a plugin may use.

    Raises:
        ConfigurationError: The message names file, key, and what to do.
    """
    if "server" not in cluster:
        raise cluster.wrong("server", "want the URL of the API server, got nothing")
    url = server_url(cluster.text("server"), cluster.where("server"))
    tls = _tls(cluster, user)
    return Connection(
        url=url,
        tls=tls,
        credentials=_credentials(cluster, user, tls, url, terminal=terminal),
        impersonation=read_impersonation(user),
        proxy_url=_proxy(cluster),
        compress=not cluster.flag("disable-compression"),
    )


def _proxy(cluster: Fields) -> str | None:
    proxy = cluster.text("proxy-url")
    return proxy_url(proxy, cluster.where("proxy-url")) if proxy else None


def _tls(cluster: Fields, user: Fields) -> Tls:
    certificate = _material(user, "client-certificate")
    key = _material(user, "client-key")
    if certificate is not None and key is None:
        raise user.wrong("client-key", "want the key of the certificate, here or in -data")
    tls = Tls(
        ca=_material(cluster, "certificate-authority"),
        certificate=certificate,
        # As with kubectl, a key alone is not looked at.
        key=key if certificate is not None else None,
        server_name=cluster.text("tls-server-name"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
    )
    check_trust(tls)
    return tls


def _material(fields: Fields, key: str) -> Material | None:
    """Return what is under a key or its `-data` companion, of which there may be one only."""
    path, data_key = fields.path(key), f"{key}-data"
    data = fields.base64(data_key)
    if path is not None and data:
        raise fields.wrong(data_key, f"{key} is there as well; want one of the two")
    if data:
        return Material(fields.where(data_key), data)
    return Material(fields.where(key), file=path) if path is not None else None


def _credentials(
    cluster: Fields, user: Fields, tls: Tls, url: str, *, terminal: bool
) -> Credentials:
    """Return what is shown to the server.

    Of token and tokenFile the file wins while it can be read; a plugin is run only where there is
    nothing else (exec.go `UpdateTransportConfig`).
    """
    _refuse_conflicts(user)
    plugin = _plugin(cluster, user, tls, terminal=terminal)
    if url.startswith("http:"):
        return _in_plain(user, url, _proxy(cluster))
    token_file = user.path("tokenFile")
    if token_file is not None:
        source = Material(user.where("tokenFile"), file=token_file)
        return TokenFile(source, user.text("token"))
    if shown := _shown(user):
        return shown
    return plugin if plugin is not None and tls.certificate is None else Anonymous()


def _in_plain(user: Fields, url: str, proxy: str | None) -> Credentials:
    """Return what is shown without TLS: as with client-go nothing that a kubeconfig has.

    What was given beside it is shown to this machine, and an error elsewhere, also where a proxy
    is on the way.
    """
    given = [key for key in ("token", "username", "password") if user.is_given(key)]
    if not given:
        return Anonymous()
    if not stays_secret(url, proxy):
        way = f", and asked through {without_password(proxy)}" if proxy else ""
        raise user.wrong(given[0], f"is not sent without TLS: {url} is not https{way}")
    return _shown(user) or Anonymous()


def _shown(user: Fields) -> Credentials | None:
    if user.text("token"):
        return StaticToken(user.text("token"), user.where("token"))
    if user.text("username") or user.text("password"):
        return BasicAuth(user.text("username"), user.text("password"))
    return None


def _refuse_conflicts(user: Fields) -> None:
    is_basic = user.text("username") or user.text("password")
    if is_basic and (user.text("token") or user.text("tokenFile")):
        key = "token" if user.text("token") else "tokenFile"
        raise user.wrong(key, "there are username or password as well; want one of the two")
    if "auth-provider" in user:
        name = user.inner("auth-provider").text("name")
        raise user.wrong(
            "auth-provider",
            f"{name!r} is not supported; use an exec plugin"
            " (client.authentication.k8s.io) or a tokenFile instead",
        )


def _plugin(cluster: Fields, user: Fields, tls: Tls, *, terminal: bool) -> Credentials | None:
    if "exec" not in user:
        return None
    from apidiscovery_kubeconfig.exec_plugin import ExecPlugin  # noqa: PLC0415 - few need it
    from apidiscovery_kubeconfig.plugins import (  # noqa: PLC0415 - the same
        EXTENSION,
        cluster_info,
        read_plugin,
    )

    info = cluster_info(
        url=cluster.text("server"),
        tls=tls,
        proxy_url=cluster.text("proxy-url"),
        disable_compression=cluster.flag("disable-compression"),
        config=next(
            (
                entry.raw("extension")
                for entry in cluster.inners("extensions")
                if entry.text("name") == EXTENSION
            ),
            None,
        ),
    )
    return ExecPlugin(read_plugin(user.inner("exec"), info, terminal=terminal))
