"""Several clusters side by side, for `fleet` and for `diff` of more than two sides."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePath
from urllib.parse import urlsplit

import click
from apidiscovery_client._connecting import Flags, http_target, key_in_cache
from apidiscovery_client._server import Server
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.fleet import Fleet
from apidiscovery_client.fleet._cells import cluster_of
from apidiscovery_client.model import Snapshot
from apidiscovery_client.snapshots.releases import PREFIX
from apidiscovery_client.transports import HttpOptions, HttpTransport
from apidiscovery_formats.matrix import (
    Agreement,
    Cluster,
    Column,
    Freshness,
    Matrix,
    make,
    to_json,
)

from apidiscovery_cli.fleet_table import headline, markdown, rows_text
from apidiscovery_cli.options import GRPC_SCHEMES
from apidiscovery_cli.output import TROUBLE, Trouble, print_data, print_text, tell_warning
from apidiscovery_cli.sides import (
    CLUSTER,
    CONTEXT,
    cluster_in,
    connector,
    is_server,
    open_side,
    server_in,
    with_service,
)

DIFFERENT = 1


def named(text: str) -> tuple[str, str]:
    """Return the name and the side in `NAME=SIDE`; without a name, the usual one."""
    name, separator, side = text.partition("=")
    if separator and re.fullmatch(r"[\w.-]+", name):
        return name, side
    return _usual_name(text), text


def _usual_name(side: str) -> str:
    """Return the name of a cluster that was given without one."""
    if side.startswith(PREFIX):
        return side.removeprefix(PREFIX)
    if side.startswith(CONTEXT):
        return side.removeprefix(CONTEXT)
    if side.startswith(CLUSTER):
        return side.removeprefix(CLUSTER)
    if "://" in side:
        return urlsplit(side).netloc.rpartition("@")[2] or side
    return PurePath(side).stem or side


def _member(side: str, flags: Flags) -> DiscoveryClient | Snapshot:
    """Return a client of a server, or the snapshot in a file or of a release."""
    if not is_server(side):
        return open_side(side, connector(flags))
    target, context = server_in(side)
    kubeconfig = None if target else flags.get("kubeconfig")
    own: Flags = {**flags, "context": context, "kubeconfig": kubeconfig}
    if target and target.partition("://")[0].lower() in GRPC_SCHEMES:
        return DiscoveryClient(target, cache=True, **own)
    server = http_target(target, own, prefix="--")
    transport = HttpTransport(server, HttpOptions(warn=tell_warning))
    return DiscoveryClient(transport, cache=True, cache_key=key_in_cache(server))


def members_of(
    clusters: Sequence[str], flags: Flags
) -> dict[str, DiscoveryClient | Snapshot | Server | str]:
    """Return the clusters of a command line by name; servers have not been asked yet.

    Raises:
        click.UsageError: Two have the same name, or one is `cluster:NAME`, which needs a service.
        DiscoveryError: A file or release cannot be read, or a text names no server.
    """
    members: dict[str, DiscoveryClient | Snapshot | Server | str] = {}
    for name, side in map(named, clusters):
        if name in members:
            raise click.UsageError(f"{side}: another cluster is called {name!r}; want NAME=CLUSTER")
        members[name] = _member(with_service(side, None), flags)
    return members


def columns_of(sides: Sequence[str], service: str | None, flags: Flags) -> dict[str, Column]:
    """Return the columns of a service's matrix for the clusters among sides, by side.

    Args:
        sides: Those that begin with `cluster:` are clusters. Others are left out, and so are
            clusters at a time, of which only the name is checked.
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


def matrix_of(sides: Sequence[str], flags: Flags, service: str | None) -> Matrix:
    """Return the matrix of sides, all of which are there.

    Raises:
        click.UsageError: Two have the same name.
        DiscoveryError: One cannot be read, or does not answer.
        Trouble: A service knows no such cluster.
    """
    found: dict[str, Snapshot] = {}
    told = columns_of([side for _, side in map(named, sides)], service, flags)
    for name, side in map(named, sides):
        if name in found:
            raise click.UsageError(f"{side}: another side is called {name!r}; want NAME=SIDE")
        found[name] = open_side(with_service(side, service), connector(flags))
    return make(
        [
            _as_fresh_as(cluster_of(name, found[name], {}), told.get(side))
            for name, side in map(named, sides)
        ]
    )


def _as_fresh_as(cluster: Cluster, told: Column | None) -> Cluster:
    """Return a cluster with the freshness that a service states; its documents do not have it."""
    if told is None or told.freshness is Freshness.CURRENT:
        return cluster
    column = replace(cluster.column, freshness=told.freshness, since=told.since, reason=told.reason)
    return replace(cluster, column=column)


def print_matrix(matrix: Matrix, form: str, *, all_rows: bool = False, wide: bool = False) -> None:
    """Print what differs, or everything.

    Args:
        matrix: The matrix.
        form: `markdown`, `json`, `name`, or else a table.
        all_rows: Whether rows that are the same everywhere are printed, too.
        wide: Whether names of resources, short names and scopes are printed, too.
    """
    shown = matrix.selected(different=not all_rows)
    now = datetime.now(UTC)
    match form:
        case "json":
            print_data(json.dumps(to_json(shown), indent=2) + "\n")
        case "markdown":
            print_text(markdown(shown, now, title=headline(matrix, now), wide=wide))
        case "name":
            names = (f"{row.resource}.{row.group}".rstrip(".") for row in shown.rows)
            print_text("".join(f"{name}\n" for name in names))
        case _:
            print_text(f"{headline(matrix, now)}\n{rows_text(shown, now, wide=wide)}")


def exit_for(matrix: Matrix) -> None:
    """End with the exit code that a matrix stands for; return for 0."""
    if matrix.count(Agreement.DIFFERENT):
        raise click.exceptions.Exit(DIFFERENT)
    if any(column.freshness is not Freshness.CURRENT for column in matrix.columns):
        raise click.exceptions.Exit(TROUBLE)
