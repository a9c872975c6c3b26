"""The clusters of a running service that are sides of a comparison."""

from collections.abc import Sequence

from apidiscovery_client._connecting import Flags
from apidiscovery_client.fleet import Fleet
from apidiscovery_formats.matrix import Column

from apidiscovery_cli.output import Trouble
from apidiscovery_cli.sides import CLUSTER, cluster_in


def columns_of(sides: Sequence[str], service: str | None, flags: Flags) -> dict[str, Column]:
    """Return what a service tells of the clusters among sides, by side.

    Args:
        sides: Those that begin with `cluster:` are clusters, others are left out; so are clusters
            of former times, if the service knows them.
        service: The URL of the service; None where no side is a cluster.
        flags: How servers are reached.

    Raises:
        Trouble: The service knows no such cluster.
        DiscoveryError: The service does not answer, or it shows no clusters.
    """
    wanted = [side for side in sides if side.startswith(CLUSTER)]
    if not wanted or service is None:
        return {}
    own: Flags = {**flags, "kubeconfig": None, "context": None}
    with Fleet.of_server(service, **own) as fleet:
        known = {column.name: column for column in fleet.clusters()}
    found = dict[str, Column]()
    for side in wanted:
        name, when = cluster_in(side)
        if name not in known:
            names = ", ".join(known) or "none"
            raise Trouble(f"{name}: the service knows no such cluster; it knows {names}")
        if when is None:
            found[side] = known[name]
    return found
