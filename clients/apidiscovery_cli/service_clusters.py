"""The clusters of a running service that are sides of a comparison."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import click
from apidiscovery_client._connecting import Flags
from apidiscovery_client.fleet import Fleet
from apidiscovery_formats.matrix import Column, Freshness

from apidiscovery_cli.fleet_table import silence
from apidiscovery_cli.output import Trouble
from apidiscovery_cli.sides import CLUSTER


def columns_of(sides: Sequence[str], service: str | None, flags: Flags) -> dict[str, Column]:
    """Return what a service tells of the clusters among sides, by side.

    The documents of a cluster that does not answer are those it wrote when it did: only the service
    tells that they are old.

    Args:
        sides: Those that begin with `cluster:` are clusters, others are left out.
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
    for side in wanted:
        if (name := side.removeprefix(CLUSTER)) not in known:
            names = ", ".join(known) or "none"
            raise Trouble(f"{name}: the service knows no such cluster; it knows {names}")
    return {side: known[side.removeprefix(CLUSTER)] for side in wanted}


def warn_of_silent(columns: Mapping[str, Column]) -> None:
    """Print a warning for each cluster that is compared as it last was."""
    now = datetime.now(UTC)
    for side, column in columns.items():
        if column.freshness is not Freshness.CURRENT:
            click.echo(
                f"warning: {side} is compared as last known: {silence(column, now)}", err=True
            )
