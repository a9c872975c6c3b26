"""The clusters of a kubeconfig, and the snapshot of a cluster that never answered."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Unpack

from apidiscovery_client._connecting import Flags, overrides_of, server_of
from apidiscovery_client._errors import DiscoveryError, InvalidConfiguration
from apidiscovery_client._kube_access import translated
from apidiscovery_client._server import Server
from apidiscovery_client.fleet._answer import unknown
from apidiscovery_client.model import Snapshot


def servers_of_contexts(
    patterns: Sequence[str], *, prefix: str = "", **flags: Unpack[Flags]
) -> dict[str, Server | Snapshot]:
    """Return the servers of contexts whose names match a pattern, by name, sorted.

    A context that cannot be used has a snapshot with the reason.

    Args:
        patterns: As of a shell: `prod-*`.
        prefix: As of `read_server`.
        flags: The kubeconfig, and flags that override each context.

    Raises:
        InvalidConfiguration: A file cannot be read, or a pattern matches no context.
    """
    from apidiscovery_kubeconfig.kubeconfig import Resolved, read_contexts  # noqa: PLC0415 - few read one

    with translated():
        found = read_contexts(flags.get("kubeconfig"), patterns, overrides_of(flags, prefix))
    return {
        name: server_of(each.connection, flags.get("request_timeout_s"))
        if isinstance(each, Resolved)
        else never_answered(name, InvalidConfiguration(str(each)))
        for name, each in found.items()
    }


def never_answered(server: str, error: DiscoveryError) -> Snapshot:
    """Return the snapshot of a cluster that has never answered: no groups, and the reason."""
    return unknown(server, datetime.now(UTC), str(error))
