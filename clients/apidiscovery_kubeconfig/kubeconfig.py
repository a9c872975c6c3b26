"""Which server, which credentials: kubeconfig files and clusters, as kubectl finds them.

Source: client-go tools/clientcmd. Stricter than kubectl where it would go on without what was
named: a user that does not exist, an address without a scheme.
"""

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from apidiscovery_kubeconfig.connection import Connection, connection
from apidiscovery_kubeconfig.errors import ConfigurationError, NothingConfigured
from apidiscovery_kubeconfig.fields import Fields
from apidiscovery_kubeconfig.files import Config, default_files, known
from apidiscovery_kubeconfig.overrides import Overrides
from apidiscovery_kubeconfig.tls import Tls

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


# How errors call what is in a cluster.
_NAMES = {
    "server": "KUBERNETES_SERVICE_HOST",
    "certificate-authority": "service account, ca.crt",
    "tokenFile": "service account, token",
}


class Resolved(NamedTuple):
    """A connection and the names it was found under.

    Attributes:
        context: As all names empty in a cluster, where there are none.
        namespace: Empty when the context names none.
        files: Those that were read, in the order of precedence.
    """

    connection: Connection
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    files: tuple[Path, ...] = ()


def read_kubeconfig(
    path: str | None,
    context: str | None,
    overrides: Overrides | None = None,
    *,
    terminal: bool = False,
) -> Resolved:
    """Return the server of a context, the current one for None.

    Without a path: the files of KUBECONFIG, else ~/.kube/config, else what a cluster gives to its
    pods. Of several files those that are missing are skipped, and the first to name something wins.
    Every file that the server needs is read once, to tell of a mistake at once.

    Args:
        path: The one file to read.
        context: The name of one.
        overrides: What goes before the files.
        terminal: Whether there is one that a plugin may use.

    Raises:
        ConfigurationError: The message names file, key, and what to do; `NothingConfigured` where
            there is nothing at all.
    """
    wanted = overrides or Overrides()
    candidates, config = _read_files(path)
    names_something = path or context or wanted.cluster or wanted.user
    if config.is_empty and not names_something and _is_in_cluster():
        return Resolved(_in_cluster(wanted))
    if config.is_empty:
        raise _nothing_in(candidates)
    resolved = _resolved(config, context or config.current_context, wanted, terminal=terminal)
    resolved.connection.check()
    return resolved


def read_contexts(
    path: str | None, patterns: Sequence[str]
) -> dict[str, Resolved | ConfigurationError]:
    """Return the servers of contexts by name, sorted; for one that cannot be used, why not.

    Args:
        path: The one file to read; None for the files of KUBECONFIG, else ~/.kube/config.
        patterns: For names of contexts, as of a shell: `prod-*`.

    Raises:
        ConfigurationError: A file cannot be read, or a pattern matches no context.
    """
    candidates, config = _read_files(path)
    if config.is_empty:
        raise _nothing_in(candidates)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in config.contexts):
            raise ConfigurationError(
                f"{config.place}, contexts: none matches {pattern!r}; {known(config.contexts)}"
            )
    found: dict[str, Resolved | ConfigurationError] = {}
    for name in sorted(config.contexts):
        if any(fnmatchcase(name, pattern) for pattern in patterns):
            try:
                resolved = _resolved(config, name, Overrides(), terminal=False)
                resolved.connection.check()
                found[name] = resolved
            except ConfigurationError as error:
                found[name] = error
    return found


def _read_files(path: str | None) -> tuple[list[Path], Config]:
    """Return the files that may be there, and what those that are say together."""
    candidates = [Path(path)] if path else default_files()
    config = Config()
    for file in candidates:
        config.add(file, may_be_missing=not path)
    return candidates, config


def _nothing_in(candidates: Sequence[Path]) -> NothingConfigured:
    looked_at = " and ".join(map(str, candidates)) or "KUBECONFIG"
    return NothingConfigured(
        f"kubeconfig: nothing in {looked_at}; name a file, with --kubeconfig or KUBECONFIG"
    )


def without_kubeconfig(overrides: Overrides) -> Connection:
    """Return what is given beside any kubeconfig, with `server` at least; raise as it does.

    Files are read once even where they are not needed, such as those for TLS without TLS.
    """
    nothing = Fields({}, overrides.prefix)
    found = connection(overrides.of_cluster(nothing), overrides.of_user(nothing))
    if found.tls != Tls():
        found.tls.context()
    found.check()
    return found


def in_cluster() -> Connection:
    """Return the API server of the cluster that this process is a pod of.

    Raises:
        ConfigurationError: A file of the service account cannot be used; `NothingConfigured` where
            this is no pod, or one without a service account.
    """
    if not _is_in_cluster():
        raise NothingConfigured(
            "this is no pod with a service account: want KUBERNETES_SERVICE_HOST,"
            f" KUBERNETES_SERVICE_PORT and {SERVICE_ACCOUNT / 'token'}"
        )
    return _in_cluster(Overrides())


def _in_cluster(overrides: Overrides) -> Connection:
    """Return the API server of the cluster that this process is a pod of.

    The token is read anew for each request, for the kubelet replaces it.
    Source: client-go rest/config.go `InClusterConfig`. All overrides count here, and not some as
    with kubectl: whoever wants to ask as somebody else shall not ask as the pod.
    """
    host, port = _service_address()
    is_other = bool(overrides.token or overrides.username or overrides.password)
    cluster = {
        "server": f"https://{f'[{host}]' if ':' in host else host}:{port}",
        "certificate-authority": str(SERVICE_ACCOUNT / "ca.crt"),
    }
    user = {} if is_other else {"tokenFile": str(SERVICE_ACCOUNT / "token")}
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


def _resolved(config: Config, name: str, overrides: Overrides, *, terminal: bool) -> Resolved:
    """Return what a context stands for, which need not be there if cluster or server are given."""
    is_needed = name or not (overrides.cluster or overrides.server)
    context = config.context(name) if is_needed else Fields({})
    cluster = overrides.cluster or context.text("cluster")
    user = overrides.user or context.text("user")
    if cluster not in config.clusters and (cluster or not overrides.server):
        raise _missing(config, context, "cluster", cluster, is_given=bool(overrides.cluster))
    if user and user not in config.users:
        raise _missing(config, context, "user", user, is_given=bool(overrides.user))
    # Without a user a request goes without credentials.
    found = connection(
        overrides.of_cluster(config.clusters.get(cluster, Fields({}))),
        overrides.of_user(config.users.get(user, Fields({}))),
        terminal=terminal,
    )
    return Resolved(found, name, cluster, user, context.text("namespace"), config.files)


def _missing(
    config: Config, context: Fields, kind: str, name: str, *, is_given: bool
) -> ConfigurationError:
    entries = config.clusters if kind == "cluster" else config.users
    text = f"no {kind} {name!r}; {known(entries)}"
    if is_given:
        return ConfigurationError(f"{config.place}, {kind}s: {text}")
    return context.wrong(kind, text)
