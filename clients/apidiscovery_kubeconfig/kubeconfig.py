"""Which server and credentials to use, by kubeconfig files or a service account, as in kubectl.

Source: client-go tools/clientcmd. Stricter than kubectl where it would ignore a name: a user that
does not exist, an address without a scheme.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from apidiscovery_kubeconfig.connection import Connection, connection, refuse_references
from apidiscovery_kubeconfig.errors import ConfigurationError, NothingConfigured
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.files import Config, default_files, known
from apidiscovery_kubeconfig.tls import Tls

_TRUST = (
    "certificate-authority",
    "certificate-authority-data",
    "insecure-skip-tls-verify",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overrides:
    """Values that override a kubeconfig, as kubectl's flags do; empty and False ones do not.

    Source: client-go tools/clientcmd/client_config.go `DirectClientConfig.getCluster`,
    `getAuthInfo`.

    Attributes:
        cluster: The name of a cluster, in place of that of the context.
        user: The name of a user, likewise.
        server: A URL. It also clears `tls-server-name`, which is for another host.
        certificate_authority: A path. It also clears all other trust settings, as
            `insecure_skip_tls_verify` does.
        impersonate: The user to impersonate.
        prefix: Of the flags that these values come from, `--`; empty for keyword arguments.
    """

    cluster: str = ""
    user: str = ""
    server: str = ""
    certificate_authority: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = field(default="", repr=False)
    disable_compression: bool = False
    token: str = field(default="", repr=False)
    username: str = ""
    password: str = field(default="", repr=False)
    client_certificate: str = ""
    client_key: str = ""
    impersonate: str = ""
    impersonate_uid: str = ""
    impersonate_groups: tuple[str, ...] = ()
    prefix: str = ""

    def of_cluster(self, fields: Fields) -> Fields:
        """Return the keys under `cluster` with these values."""
        without: tuple[str, ...] = ()
        if self.certificate_authority or self.insecure_skip_tls_verify:
            without += _TRUST
        if self.server or self.tls_server_name:
            without += ("tls-server-name",)
        values: dict[str, object] = {
            "server": self.server,
            "certificate-authority": self.certificate_authority,
            "insecure-skip-tls-verify": self.insecure_skip_tls_verify,
            "tls-server-name": self.tls_server_name,
            "proxy-url": self.proxy_url,
            "disable-compression": self.disable_compression,
        }
        return self._over(fields, values, without)

    def of_user(self, fields: Fields) -> Fields:
        """Return the keys under `user` with these values."""
        without: tuple[str, ...] = ()
        if self.client_certificate:
            without += ("client-certificate-data",)
        if self.client_key:
            without += ("client-key-data",)
        values: dict[str, object] = {
            "token": self.token,
            "username": self.username,
            "password": self.password,
            "client-certificate": self.client_certificate,
            "client-key": self.client_key,
            "as": self.impersonate,
            "as-uid": self.impersonate_uid,
            "as-groups": self.impersonate_groups,
        }
        return self._over(fields, values, without)

    def _over(self, fields: Fields, values: dict[str, object], without: tuple[str, ...]) -> Fields:
        names = {key: self.name_of(key) for key in values}
        given = {key: value for key, value in values.items() if value}
        return fields.overridden(given, names, without)

    def name_of(self, key: str) -> str:
        """Return the name of a value in errors, such as `--as-group` or `as_groups`."""
        if self.prefix:
            return f"{self.prefix}{key.replace('groups', 'group')}"
        return "as_user" if key == "as" else key.replace("-", "_")


SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


# The names of in-cluster settings in errors.
_NAMES = {
    "server": "KUBERNETES_SERVICE_HOST",
    "certificate-authority": "service account, ca.crt",
    "tokenFile": "service account, token",
}


class Resolved(NamedTuple):
    """A connection and the names in the kubeconfig, which are empty in a cluster.

    Attributes:
        namespace: Empty where the context has none.
        files: The files that were read, in order of precedence.
        fingerprint: Changes with any value of the cluster and the user in the files; of
            `read_contexts`, else empty.
    """

    connection: Connection
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    files: tuple[Path, ...] = ()
    fingerprint: str = ""


def read_kubeconfig(
    path: str | None,
    context: str | None,
    overrides: Overrides | None = None,
    *,
    terminal: bool = False,
) -> Resolved:
    """Return the server of a context, the current one for None.

    Without a path: the files of KUBECONFIG, else ~/.kube/config, else the service
    account of the pod. Of several files missing ones are skipped, and the first to set a name wins.
    Every file that the connection needs is read once, to report mistakes at once.

    Args:
        path: The only file to read.
        context: The name of a context.
        overrides: Values that precede the files.
        terminal: Whether an exec plugin may use a terminal.

    Raises:
        ConfigurationError: The message names file, key, and what to do; `NothingConfigured` where
            there is no configuration at all.
    """
    wanted = overrides or Overrides()
    candidates, config = _read_files(path)
    names_something = path or context or wanted.cluster or wanted.user
    if config.is_empty and not names_something and _is_in_cluster():
        return Resolved(_in_cluster(wanted))
    if config.is_empty:
        raise _nothing_in(candidates, wanted)
    resolved = _resolved(config, context or config.current_context, wanted, terminal=terminal)
    resolved.connection.check()
    return resolved


def read_contexts(
    path: str | None,
    patterns: Sequence[str],
    overrides: Overrides | None = None,
    *,
    may_be_none: bool = False,
) -> dict[str, Resolved | ConfigurationError]:
    """Return the servers of contexts by name, sorted; for one that cannot be used, why not.

    Args:
        path: The one file to read; None for the files of KUBECONFIG, else ~/.kube/config.
        patterns: For names of contexts, as of a shell: `prod-*`.
        overrides: What goes before the files, for each of them.
        may_be_none: Whether a pattern may match nothing, and the files may be empty.

    Raises:
        ConfigurationError: A file cannot be read, or a pattern matches no context.
    """
    candidates, config = _read_files(path)
    if config.is_empty and not may_be_none:
        raise _nothing_in(candidates, overrides or Overrides())
    for pattern in patterns:
        if not may_be_none and not any(fnmatchcase(name, pattern) for name in config.contexts):
            raise ConfigurationError(
                f"{config.place}, contexts: none matches {pattern!r}; {known(config.contexts)}"
            )
    found: dict[str, Resolved | ConfigurationError] = {}
    for name in sorted(config.contexts):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            try:
                found[name] = resolved_context(config, name, overrides or Overrides())
            except ConfigurationError as error:
                found[name] = error
    return found


def resolved_context(
    config: Config, name: str, overrides: Overrides, *, self_contained: bool = False
) -> Resolved:
    """Return the server of a context, with its fingerprint; every file that it needs is read.

    Args:
        config: The kubeconfig.
        name: The name of the context.
        overrides: What goes before it.
        self_contained: Refuse programs and other files.

    Raises:
        ConfigurationError: The message names file, key, and what to do.
    """
    found = _resolved(
        config, name, overrides, terminal=False, self_contained=self_contained, printed=True
    )
    found.connection.check()
    return found


def _read_files(path: str | None) -> tuple[list[Path], Config]:
    """Return the files that may be there, and what those that are say together."""
    candidates = [Path(path)] if path else default_files()
    config = Config()
    for file in candidates:
        config.add(file, may_be_missing=not path)
    return candidates, config


def _nothing_in(candidates: Sequence[Path], overrides: Overrides) -> NothingConfigured:
    searched = " and ".join(map(str, candidates)) or "KUBECONFIG"
    wanted = "; name a file, with --kubeconfig or KUBECONFIG"
    if not overrides.prefix:
        wanted = "; name a file, with the argument kubeconfig or KUBECONFIG"
    return NothingConfigured(f"kubeconfig: nothing in {searched}{wanted}")


def without_kubeconfig(overrides: Overrides) -> Connection:
    """Return the connection of overrides alone, which have a `server`; raise as `read_kubeconfig`.

    All files are read once, also those for TLS where the server has none.
    """
    nothing = Fields({}, names={key: overrides.name_of(key) for key in ("client-key", "as")})
    found = connection(overrides.of_cluster(nothing), overrides.of_user(nothing))
    if found.tls != Tls():
        found.tls.context()
    found.check()
    return found


def in_cluster() -> Connection:
    """Return the API server of the cluster that this process is a pod of.

    Raises:
        ConfigurationError: A file of the service account is not usable; `NothingConfigured` where
            this process is not in a pod with a service account.
    """
    if not _is_in_cluster():
        raise NothingConfigured(
            "this is not a pod with a service account: want KUBERNETES_SERVICE_HOST,"
            f" KUBERNETES_SERVICE_PORT and {SERVICE_ACCOUNT / 'token'}"
        )
    return _in_cluster(Overrides())


def _in_cluster(overrides: Overrides) -> Connection:
    """Source: client-go rest/config.go `InClusterConfig`.

    The token is read for each request, as the kubelet replaces it. All overrides apply, unlike in
    kubectl: a request with other credentials must not be sent as the pod.
    """
    host, port = _service_address()
    has_credentials = bool(overrides.token or overrides.username or overrides.password)
    cluster = {
        "server": f"https://{f'[{host}]' if ':' in host else host}:{port}",
        "certificate-authority": str(SERVICE_ACCOUNT / "ca.crt"),
    }
    user = {} if has_credentials else {"tokenFile": str(SERVICE_ACCOUNT / "token")}
    found = connection(
        overrides.of_cluster(Fields({}).overridden(cluster, _NAMES)),
        overrides.of_user(Fields({}).overridden(user, _NAMES)),
    )
    found.check()
    return found


def _service_address() -> tuple[str, str]:
    return (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", ""),
    )


def _is_in_cluster() -> bool:
    return all(_service_address()) and (SERVICE_ACCOUNT / "token").is_file()


def _resolved(  # noqa: PLR0913 - those behind the star have names
    config: Config,
    name: str,
    overrides: Overrides,
    *,
    terminal: bool,
    self_contained: bool = False,
    printed: bool = False,
) -> Resolved:
    """Return the connection of a context, which may be missing if cluster or server are given."""
    is_needed = name or not (overrides.cluster or overrides.server)
    context = config.context(name) if is_needed else Fields({})
    cluster = overrides.cluster or context.text("cluster")
    user = overrides.user or context.text("user")
    if cluster not in config.clusters and (cluster or not overrides.server):
        raise _missing(config, context, "cluster", cluster, is_given=bool(overrides.cluster))
    if user and user not in config.users:
        raise _missing(config, context, "user", user, is_given=bool(overrides.user))
    # Without a user, requests have no credentials.
    fields = (
        overrides.of_cluster(config.clusters.get(cluster, Fields({}))),
        overrides.of_user(config.users.get(user, Fields({}))),
    )
    if self_contained:
        refuse_references(*fields)
    found = connection(*fields, terminal=terminal)
    fingerprint = "".join(each.digest() for each in fields) if printed else ""
    return Resolved(
        found, name, cluster, user, context.text("namespace"), config.files, fingerprint
    )


def _missing(
    config: Config, context: Fields, kind: str, name: str, *, is_given: bool
) -> ConfigurationError:
    entries = config.clusters if kind == "cluster" else config.users
    text = f"no {kind} {name!r}; {known(entries)}"
    if is_given:
        return ConfigurationError(f"{config.place}, {kind}s: {text}")
    return context.wrong(kind, text)
