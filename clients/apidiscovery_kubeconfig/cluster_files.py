"""Files that each describe one cluster: a kubeconfig, or the Secret of a cluster of Argo CD."""

from collections.abc import Mapping
from pathlib import Path

from apidiscovery_kubeconfig.connection import Connection, connection, refuse_references
from apidiscovery_kubeconfig.errors import ConfigurationError
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.files import Config, parsed, read_file
from apidiscovery_kubeconfig.kubeconfig import Overrides, resolved_context

# argoproj/argo-cd pkg/apis/application/v1alpha1/types.go `ClusterConfig`: its keys, and those of a
# kubeconfig that mean the same, of the cluster and of the user.
_CLUSTER_KEYS = {"disableCompression": "disable-compression", "proxyUrl": "proxy-url"}
_USER_KEYS = {"bearerToken": "token", "password": "password", "username": "username"}
# `TLSClientConfig` of the same file.
_TLS_CLUSTER_KEYS = {
    "caData": "certificate-authority-data",
    "insecure": "insecure-skip-tls-verify",
    "serverName": "tls-server-name",
}
_TLS_USER_KEYS = {"certData": "client-certificate-data", "keyData": "client-key-data"}
# `ExecProviderConfig` of the same file.
_EXEC_KEYS = ("apiVersion", "args", "command", "installHint")


def read_cluster_file(path: Path, *, is_trusted: bool = False) -> Connection:
    """Return the server of a kubeconfig's current context.

    Args:
        path: The kubeconfig.
        is_trusted: Whether it may name programs and other files, as a kubeconfig of one's own may.

    Raises:
        ConfigurationError: The message names file, key, and what to do.
    """
    config = Config()
    config.add(path, may_be_missing=False)
    if config.is_empty:
        raise ConfigurationError(f"{path}: empty; want a kubeconfig with a current-context")
    name = config.current_context
    return resolved_context(config, name, Overrides(), self_contained=not is_trusted).connection


def read_argocd_secret(server: Path, config: Path, *, is_trusted: bool = False) -> Connection:
    """Return the server of a mounted Secret with a cluster of Argo CD.

    Source: https://argo-cd.readthedocs.io/en/stable/operator-manual/declarative-setup/#clusters

    Args:
        server: The file of the Secret's key `server`, a URL.
        config: That of `config`, JSON with credentials and TLS.
        is_trusted: Whether it may name a program (`execProviderConfig`).

    Raises:
        ConfigurationError: The message names file, key, and what to do.
    """
    keys = parsed(read_file(config) or b"", config)
    tls = keys.inner("tlsClientConfig")
    if "awsAuthConfig" in keys:
        raise keys.wrong("awsAuthConfig", "is not supported; want a bearerToken or certData")
    names = {
        **{new: f"{config}, {old}" for old, new in {**_CLUSTER_KEYS, **_USER_KEYS}.items()},
        **{
            new: f"{config}, tlsClientConfig.{old}"
            for old, new in {**_TLS_CLUSTER_KEYS, **_TLS_USER_KEYS}.items()
        },
        "server": str(server),
        "exec": f"{config}, execProviderConfig",
    }
    url = (read_file(server) or b"").decode("utf-8", "replace").strip()
    of_cluster = {
        "server": url,
        **_renamed(keys, _CLUSTER_KEYS),
        **_renamed(tls, _TLS_CLUSTER_KEYS),
    }
    of_user = {**_renamed(keys, _USER_KEYS), **_renamed(tls, _TLS_USER_KEYS)}
    if "execProviderConfig" in keys:
        of_user["exec"] = _plugin(keys.inner("execProviderConfig"))
    cluster = Fields({}, folder=config.parent).overridden(of_cluster, names)
    user = Fields({}, folder=config.parent).overridden(of_user, names)
    if not is_trusted:
        refuse_references(cluster, user)
    found = connection(cluster, user)
    found.check()
    return found


def _plugin(fields: Fields) -> dict[str, object]:
    """Return the keys under `exec` of a kubeconfig; `env` is a mapping in Argo CD."""
    env = fields.inner("env")
    return {
        **{key: fields.raw(key) for key in _EXEC_KEYS if key in fields},
        "env": [{"name": name, "value": env.text(name)} for name in env],
        "interactiveMode": "Never",
    }


def _renamed(fields: Fields, names: Mapping[str, str]) -> dict[str, object]:
    return {new: fields.raw(old) for old, new in names.items() if old in fields}
