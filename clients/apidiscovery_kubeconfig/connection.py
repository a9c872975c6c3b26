"""Connections from the keys of a cluster and a user in a kubeconfig.

Source: client-go tools/clientcmd/validation.go and client_config.go
`DirectClientConfig.ClientConfig`.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from apidiscovery_kubeconfig.addresses import (
    environment_proxy,
    proxy_url,
    server_url,
    stays_secret,
    without_password,
)
from apidiscovery_kubeconfig.credentials import (
    Anonymous,
    BasicAuth,
    Credentials,
    Material,
    StaticToken,
    TokenFile,
)
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.tls import Tls, check_trust

# RFC 9110 section 5.6.2, tchar.
_TOKEN_CHARACTERS = frozenset(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user that requests impersonate (`as` and its companions in a kubeconfig)."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def lines(self) -> list[tuple[str, str]]:
        """Return the header lines; names may repeat.

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
        return lines


def read_impersonation(fields: Fields) -> Impersonation | None:
    """Return the impersonation in `as`, `as-uid`, `as-groups` and `as-user-extra`, or None.

    Raises:
        ConfigurationError: One is set without `as`, or is not a header value.
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
            raise fields.wrong(key, f"want `{fields.name_of('as')}` beside it: whom to impersonate")
        if not all(map(is_header_value, texts)):
            raise fields.wrong(key, "holds a control character, which no header may")
    return asked if asked.user else None


def is_header_value(text: str) -> bool:
    """Return whether a text is a header value (RFC 9110 section 5.5, UTF-8 allowed)."""
    return all(character >= " " and character != "\x7f" for character in text)


def _escape(key: str) -> str:
    """Return a key fit for a header name (`headerKeyEscape` of the same file)."""
    return "".join(
        chr(byte) if chr(byte) in _TOKEN_CHARACTERS and chr(byte) != "%" else f"%{byte:02X}"
        for byte in key.encode()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A server, and everything that requests to it need.

    Attributes:
        url: Scheme, host, where needed port and path; no slash at the end.
        tls: How to verify the server, and a client certificate.
        credentials: Authentication of each request.
        impersonation: The user to impersonate; None for none.
        proxy_url: None for the proxy of the environment.
        compress: Whether requests accept compressed answers.
    """

    url: str
    tls: Tls = field(default_factory=Tls)
    credentials: Credentials = field(default_factory=Anonymous, repr=False)
    impersonation: Impersonation | None = None
    proxy_url: str | None = field(default=None, repr=False)
    compress: bool = True

    def check(self) -> None:
        """Read the files that the settings name, to report mistakes at once; blocks.

        Raises:
            ConfigurationError: The message names the key, what was seen and what is wanted.
        """
        if self.url.startswith("https:") and (self.tls.ca or self.tls.certificate):
            self.tls.context()
        if isinstance(self.credentials, TokenFile):
            self.credentials.check()
        if self.proxy_url is None:
            environment_proxy(self.url, os.environ)


def connection(cluster: Fields, user: Fields, *, terminal: bool = False) -> Connection:
    """Return the connection of the keys under `cluster` and `user` of a kubeconfig.

    Args:
        cluster: The keys of the cluster.
        user: The keys of the user, empty for requests without credentials.
        terminal: Whether an exec plugin may use a terminal.

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


def refuse_references(cluster: Fields, user: Fields) -> None:
    """Refuse the programs and files that the keys of a cluster and a user name.

    Otherwise the author of such keys could make this process run a program, or send one of its
    tokens to another server.

    Raises:
        ConfigurationError: The message names the key, and the one to use in its place.
    """
    if "exec" in user:
        raise user.wrong(
            "exec",
            "a file that is not trusted may not run a program; put a token or a client certificate"
            " into it",
        )
    for fields, key, other in (
        (cluster, "certificate-authority", "certificate-authority-data"),
        (user, "client-certificate", "client-certificate-data"),
        (user, "client-key", "client-key-data"),
        (user, "tokenFile", "token"),
    ):
        if fields.text(key):
            raise fields.wrong(
                key, f"a file that is not trusted may not name another one; use {other}"
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
        # As kubectl does, ignore a key without a certificate.
        key=key if certificate is not None else None,
        server_name=cluster.text("tls-server-name"),
        insecure=cluster.flag("insecure-skip-tls-verify"),
    )
    check_trust(tls)
    return tls


def _material(fields: Fields, key: str) -> Material | None:
    """Return the material of a key or its `-data` companion; setting both is an error."""
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
    """Return the credentials of a user.

    A readable tokenFile precedes a token; a plugin is used only where there is nothing else
    (exec.go `UpdateTransportConfig`).
    """
    _refuse_conflicts(user)
    plugin = _plugin(cluster, user, tls, terminal=terminal)
    if url.startswith("http:"):
        return _without_tls(user, url, _proxy(cluster))
    token_file = user.path("tokenFile")
    if token_file is not None:
        source = Material(user.where("tokenFile"), file=token_file)
        return TokenFile(source, user.text("token"))
    if static := _static(user):
        return static
    return plugin if plugin is not None and tls.certificate is None else Anonymous()


def _without_tls(user: Fields, url: str, proxy: str | None) -> Credentials:
    """Return the credentials without TLS: as in client-go, none of a kubeconfig.

    Credentials from overrides are sent to this machine; for another one, or through a proxy on
    another one, they are an error.
    """
    given = [key for key in ("token", "username", "password") if user.is_given(key)]
    if not given:
        return Anonymous()
    if not stays_secret(url, proxy):
        way = f", and asked through {without_password(proxy)}" if proxy else ""
        raise user.wrong(given[0], f"is not sent without TLS: {url} is not https{way}")
    return _static(user) or Anonymous()


def _static(user: Fields) -> Credentials | None:
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
    from apidiscovery_kubeconfig.exec_plugin import (  # noqa: PLC0415 - rarely needed
        EXTENSION,
        ExecPlugin,
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
