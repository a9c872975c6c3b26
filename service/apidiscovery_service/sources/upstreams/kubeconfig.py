"""Reads kubeconfig files as kubectl does: which server, which credentials.

Source: client-go tools/clientcmd, `ClientConfigLoadingRules.Load` (files and merging),
`validation.go`, `DirectClientConfig.ClientConfig`. Stricter than kubectl where it would go on
without what was named: a user that does not exist, an address without a scheme.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.sources import yaml_text
from apidiscovery_service.sources.upstreams.credentials import (
    Anonymous,
    BasicAuth,
    Credentials,
    Material,
    StaticToken,
    TokenFile,
    read_impersonation,
)
from apidiscovery_service.sources.upstreams.endpoint import Endpoint, check_trust, server_url
from apidiscovery_service.sources.upstreams.exec_plugin import (
    EXTENSION,
    ExecPlugin,
    cluster_info,
    read_plugin,
)
from apidiscovery_service.sources.upstreams.fields import Fields
from apidiscovery_service.sources.upstreams.proxies import proxy_url
from apidiscovery_service.sources.upstreams.tls import Tls

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
MAX_FILE_BYTES = 16 << 20


class Resolved(NamedTuple):
    """An endpoint and the names it was found under.

    Attributes:
        context: As all names empty in a cluster, where there are none.
        namespace: Empty when the context names none.
        files: Those that were read, in the order of precedence.
    """

    endpoint: Endpoint
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    files: tuple[Path, ...] = ()


def read_kubeconfig(path: str | None, context: str | None) -> Resolved:
    """Return the server of a context, the current one for None.

    Without a path: the files of KUBECONFIG, else ~/.kube/config, else what a cluster gives to its
    pods. Of several files those that are missing are skipped, and the first to name something wins.
    Every file that the server needs is read once, to tell of a mistake at once.

    Raises:
        InvalidConfiguration: The message names file, key, and what to do.
    """
    candidates = [Path(path)] if path else _default_files()
    config = _Config()
    for file in candidates:
        config.add(file, may_be_missing=not path)
    if config.is_empty and not path and not context and _is_in_cluster():
        return Resolved(in_cluster_endpoint(SERVICE_ACCOUNT))
    if config.is_empty:
        looked_at = " and ".join(map(str, candidates)) or "KUBECONFIG"
        raise InvalidConfiguration(
            f"kubeconfig: nothing in {looked_at}; name a file, with --kubeconfig or KUBECONFIG"
        )
    resolved = config.resolve(context or config.current_context)
    resolved.endpoint.check()
    return resolved


def in_cluster_endpoint(folder: Path = SERVICE_ACCOUNT) -> Endpoint:
    """Return the API server of the cluster that this process is a pod of.

    The token is read anew for each request, for the kubelet replaces it.
    Source: client-go rest/config.go `InClusterConfig`.

    Raises:
        InvalidConfiguration: There is no service account here.
    """
    host, port = _service_address()
    if not host or not port:
        raise InvalidConfiguration(
            "KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT: not set, so this is no pod;"
            " name a kubeconfig"
        )
    endpoint = Endpoint(
        f"https://{f'[{host}]' if ':' in host else host}:{port}",
        tls=Tls(ca=Material("service account, ca.crt", file=folder / "ca.crt")),
        credentials=TokenFile(Material("service account, token", file=folder / "token")),
    )
    endpoint.check()
    return endpoint


def _service_address() -> tuple[str, str]:
    return (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", ""),
    )


def _is_in_cluster() -> bool:
    return all(_service_address()) and (SERVICE_ACCOUNT / "token").is_file()


def _default_files() -> list[Path]:
    names = os.environ.get("KUBECONFIG", "")
    if not names:
        return [Path.home() / ".kube" / "config"]
    return [Path(name) for name in dict.fromkeys(names.split(os.pathsep)) if name]


@dataclass(slots=True)
class _Config:
    """What several files say together; entries by kind and name."""

    clusters: dict[str, Fields] = field(default_factory=dict[str, Fields])
    users: dict[str, Fields] = field(default_factory=dict[str, Fields])
    contexts: dict[str, Fields] = field(default_factory=dict[str, Fields])
    current_context: str = ""
    files: tuple[Path, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not (self.clusters or self.users or self.contexts or self.current_context)

    def add(self, file: Path, *, may_be_missing: bool) -> None:
        """Add what a file of lower precedence says."""
        content = _read(file, may_be_missing=may_be_missing)
        if content is None:
            return
        self.files += (file,)
        fields = Fields(_parsed(content, file), f"{file}, ", file.absolute().parent)
        for kind, known in (
            ("clusters", self.clusters),
            ("users", self.users),
            ("contexts", self.contexts),
        ):
            own = _entries(fields, kind)
            known.update({name: entry for name, entry in own.items() if name not in known})
        self.current_context = self.current_context or fields.text("current-context")

    def resolve(self, name: str) -> Resolved:
        """Return what a context stands for."""
        place = " and ".join(map(str, self.files))
        if not name:
            raise InvalidConfiguration(
                f"{place}, current-context: not set; name a context, {_known(self.contexts)}"
            )
        if name not in self.contexts:
            raise InvalidConfiguration(
                f"{place}, contexts: no context {name!r}; {_known(self.contexts)}"
            )
        context = self.contexts[name]
        cluster, user = context.text("cluster"), context.text("user")
        if cluster not in self.clusters:
            raise context.wrong("cluster", f"no cluster {cluster!r}; {_known(self.clusters)}")
        if user and user not in self.users:
            raise context.wrong("user", f"no user {user!r}; {_known(self.users)}")
        # Without a user a request goes without credentials.
        user_fields = self.users[user] if user else Fields({})
        endpoint = _endpoint(self.clusters[cluster], user_fields)
        return Resolved(endpoint, name, cluster, user, context.text("namespace"), self.files)


def _read(file: Path, *, may_be_missing: bool) -> bytes | None:
    """Return the content of a file; None when it is missing, where it may be."""
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        if may_be_missing:
            return None
        raise InvalidConfiguration(f"{file}: cannot be read: {error.strerror}") from None
    except OSError as error:
        raise InvalidConfiguration(f"{file}: cannot be read: {error.strerror}") from None
    if len(content) > MAX_FILE_BYTES:
        raise InvalidConfiguration(f"{file}: larger than {MAX_FILE_BYTES} bytes")
    return content


def _parsed(content: bytes, file: Path) -> object:
    try:
        value = yaml_text.load(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise InvalidConfiguration(f"{file}: not UTF-8") from None
    except yaml_text.Unparsable as error:
        raise InvalidConfiguration(f"{file}:{error.line + 1}: {error}") from None
    return {} if value is None else value


def _entries(fields: Fields, kind: str) -> dict[str, Fields]:
    """Return the entries of a list by name; each is under a key named as the list, in singular."""
    found: dict[str, Fields] = {}
    for entry in fields.inners(kind):
        name = entry.text("name")
        if name in found:
            raise entry.wrong("name", f"{name!r} is there twice; remove or rename one")
        inner = kind.removesuffix("s")
        values = entry.raw(inner)
        place = f"{fields.place}{kind}[{name}].{inner}."
        found[name] = Fields({} if values is None else values, place, fields.folder)
    return found


def _known(entries: Iterable[str]) -> str:
    names = sorted(entries)
    return f"there are {', '.join(names)}" if names else "there are none"


def _endpoint(cluster: Fields, user: Fields) -> Endpoint:
    if "server" not in cluster:
        raise cluster.wrong("server", "want the URL of the API server, got nothing")
    url = server_url(cluster.text("server"), cluster.where("server"))
    proxy = cluster.text("proxy-url")
    tls = _tls(cluster, user)
    return Endpoint(
        url,
        tls=tls,
        credentials=_credentials(cluster, user, tls, url),
        impersonation=read_impersonation(user),
        proxy_url=proxy_url(proxy, cluster.where("proxy-url")) if proxy else None,
        compress=not cluster.flag("disable-compression"),
    )


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


def _credentials(cluster: Fields, user: Fields, tls: Tls, url: str) -> Credentials:
    """Return what is shown to the server; nothing without TLS, as with client-go.

    Of token and tokenFile the file wins while it can be read; a plugin is run only where there is
    nothing else (exec.go `UpdateTransportConfig`).
    """
    _refuse_conflicts(user)
    plugin = _plugin(cluster, user, tls)
    token_file = user.path("tokenFile")
    if url.startswith("http:"):
        return Anonymous()
    if token_file is not None:
        source = Material(user.where("tokenFile"), file=token_file)
        return TokenFile(source, user.text("token"))
    if user.text("token"):
        return StaticToken(user.text("token"), user.where("token"))
    if user.text("username") or user.text("password"):
        return BasicAuth(user.text("username"), user.text("password"))
    return plugin if plugin is not None and tls.certificate is None else Anonymous()


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


def _plugin(cluster: Fields, user: Fields, tls: Tls) -> ExecPlugin | None:
    if "exec" not in user:
        return None
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
    return ExecPlugin(read_plugin(user.inner("exec"), info))
