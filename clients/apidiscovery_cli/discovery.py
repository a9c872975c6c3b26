"""Fetches discovery as kubectl does, for subcommands that run once."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
from apidiscovery_client import DiscoveryError
from apidiscovery_client._connecting import key_in_cache
from apidiscovery_client._http.flow import HttpOptions
from apidiscovery_client._interfaces import FetchedSnapshot, SnapshotCache, Transport
from apidiscovery_client._server import Server
from apidiscovery_client.cache import DiskCache
from apidiscovery_client.client import DiscoveryClient
from apidiscovery_client.model import Snapshot
from apidiscovery_client.transports.http import HttpTransport

from apidiscovery_cli.connection_options import CONNECTION, FOLDER, any_server_named, flags_of
from apidiscovery_cli.options import Option, Values
from apidiscovery_cli.output import progress, tell_warning

if TYPE_CHECKING:  # it imports grpc
    from apidiscovery_client._grpc.calls import GrpcServer

# JSON: the process ends soon, and importing protobuf takes longer than parsing JSON.
WITH_RESOURCES = HttpOptions(protobuf=False, needs_core=True, warn=tell_warning)
ONLY_GROUPS = replace(WITH_RESOURCES, resources=False)


@dataclass(frozen=True, slots=True)
class Source:
    """A server and the cache of its snapshots.

    Attributes:
        cache: None for no cache.
        takes_cached: Whether a cached snapshot of any age is used without a request.
    """

    server: "Server | GrpcServer"
    cache: DiskCache | None
    takes_cached: bool = False


SOURCE: tuple[Option, ...] = (
    click.option(
        "--cached",
        is_flag=True,
        help="Use the disk cache, whatever its age; ask the server only if the cache has"
        " nothing of it.",
    ),
    click.option(
        "--cache-dir",
        type=FOLDER,
        help="Folder of the disk cache, by default apidiscovery/discovery in $KUBECACHEDIR or"
        " ~/.kube/cache.",
    ),
    click.option("--no-cache", is_flag=True, help="Do not use the disk cache."),
    *CONNECTION,
)


def source_of(values: Values) -> Source:
    """Take the source out of the values of the current command.

    Raises:
        click.UsageError: Options are wrong, or contradict each other.
        InvalidConfiguration: A kubeconfig is wrong.
    """
    cached, folder, is_off = (values.pop(name) for name in ("cached", "cache_dir", "no_cache"))
    server = any_server_named(flags_of(values))
    cache = snapshot_cache(folder, is_off=is_off)
    if cached and cache is None:
        raise click.UsageError("--cached and --no-cache cannot be used together")
    return Source(server, cache, takes_cached=cached)


def snapshot_cache(folder: Path | None, *, is_off: bool) -> DiskCache | None:
    """Return the cache in a folder, by default in that of kubectl's caches; None when it is off.

    Raises:
        click.UsageError: It is off, and its folder named.
    """
    if folder and is_off:
        raise click.UsageError("--cache-dir and --no-cache cannot be used together")
    return None if is_off else DiskCache(folder)


def cached_snapshot(source: Source) -> FetchedSnapshot | None:
    """Return the cached snapshot of the server, whatever its age; None when there is none."""
    return source.cache.get(key_in_cache(source.server)) if source.cache else None


def discover(source: Source, options: HttpOptions = WITH_RESOURCES) -> Snapshot:
    """Return what a server serves now, or a cached snapshot where the source takes one.

    Raises:
        ServerUnreachable: No answer to `/api` or `/apis`.
        RequestRefused: A status other than 200 there, except 404 at `/api`: no core group.
        UnexpectedDocument: A body there that does not match its Content-Type.
    """
    if source.takes_cached and (fetched := cached_snapshot(source)):
        return fetched.snapshot
    cache: SnapshotCache | None = source.cache
    if cache is not None and not options.resources:
        cache = _WithResources(cache)
    with progress("Asking for group-versions") as step:
        transport: Transport
        if isinstance(source.server, Server):
            transport = HttpTransport(source.server, options, progress=step)
        else:
            from apidiscovery_client.transports.grpc import (  # noqa: PLC0415 - it imports grpc
                GrpcTransport,
            )

            transport = GrpcTransport(source.server)
        key = key_in_cache(source.server) if cache else ""
        with DiscoveryClient(transport, cache=cache or False, cache_key=key) as client:
            return client.refresh()


def refuse_nothing(snapshot: Snapshot) -> None:
    """Raise `DiscoveryError` for a server without any group, as an empty table explains nothing."""
    if not snapshot.groups:
        raise DiscoveryError(
            f"{snapshot.server} serves no API at all: none of its sources has been reached, or it"
            " has none; 'apidiscovery get sources' lists those of a server of apidiscovery"
        )


class _WithResources:
    """A cache that stores only snapshots with resources."""

    def __init__(self, cache: SnapshotCache) -> None:
        self._cache = cache

    def get(self, key: str) -> FetchedSnapshot | None:
        return self._cache.get(key)

    def put(self, key: str, fetched: FetchedSnapshot) -> None:
        if all(version.stated_freshness for version in fetched.snapshot.versions):
            self._cache.put(key, fetched)
