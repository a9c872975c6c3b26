"""Where the clusters of a fleet come from, and what stands for one that does not answer."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from apidiscovery_client._errors import DiscoveryError, InvalidConfiguration
from apidiscovery_client._kube_access import KubeAccess, translated
from apidiscovery_client._server import DEFAULT_TIMEOUT_S, Server
from apidiscovery_client.model import Snapshot, Unknown

if TYPE_CHECKING:  # read with the first kubeconfig
    from apidiscovery_kubeconfig.errors import ConfigurationError
    from apidiscovery_kubeconfig.kubeconfig import Resolved

_DOCUMENTS = ("/api", "/apis")


def servers_of_contexts(
    path: str | None, patterns: Sequence[str]
) -> dict[str, Server | DiscoveryError]:
    """Return the servers of contexts whose names match a pattern, by name, sorted.

    In place of one whose context cannot be used is why not.

    Raises:
        InvalidConfiguration: A file cannot be read, or a pattern matches no context.
    """
    from apidiscovery_kubeconfig.kubeconfig import read_contexts  # noqa: PLC0415 - few read one

    with translated():
        found = read_contexts(path, patterns)
    return {name: _server(each) for name, each in found.items()}


def _server(found: "Resolved | ConfigurationError") -> Server | DiscoveryError:
    if isinstance(found, Exception):
        return InvalidConfiguration(str(found))
    connection = found.connection
    return Server(
        url=connection.url,
        access=KubeAccess(connection),
        proxy_url=connection.proxy_url,
        tls_server_name=connection.tls.server_name or None,
        compress=connection.compress,
        request_timeout_s=DEFAULT_TIMEOUT_S,
    )


def asked_in_vain(server: str, error: DiscoveryError) -> Snapshot:
    """Return what is known of a cluster that has never answered: nothing, and why."""
    now = datetime.now(UTC)
    reason = str(error)
    return Snapshot(
        groups=(),
        server=server,
        checked_at=now,
        failures=dict.fromkeys(_DOCUMENTS, reason),
        freshness=Unknown(now, reason),
    )
