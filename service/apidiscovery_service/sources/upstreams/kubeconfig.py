"""Clusters that a kubeconfig names, as servers to ask."""

from pathlib import Path
from typing import NamedTuple

from apidiscovery_kubeconfig import kubeconfig
from apidiscovery_kubeconfig.connection import Connection

from apidiscovery_service.sources.upstreams.credentials import translated
from apidiscovery_service.sources.upstreams.endpoint import Endpoint


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
    """Return the server of a context, the current one for None, as `kubeconfig.read_kubeconfig`.

    Raises:
        InvalidConfiguration: The message names file, key, and what to do.
    """
    with translated():
        found = kubeconfig.read_kubeconfig(path, context)
    return Resolved(_endpoint(found.connection), *found[1:])


def _endpoint(found: Connection) -> Endpoint:
    return Endpoint(
        found.url,
        tls=found.tls,
        credentials=found.credentials,
        impersonation=found.impersonation,
        proxy_url=found.proxy_url,
        compress=found.compress,
    )
